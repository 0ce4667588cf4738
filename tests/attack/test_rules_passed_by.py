"""What an attack found on rules, held since: texts that passed a rule by, and texts that kept one busy."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, Policy, Rule, Runner, function_tool
from keyturn.core.predicates import paths, reading
from keyturn.core.predicates.predicate import Truth, evaluate
from keyturn.testing import ScriptedModel, function_call
from tests.table import each

LONG = 250_000
COMBINING = "a" + "\u0301\u0316" * 25_000
HALFWIDTH = "\uff9e\u0301" * 25_000  # no marks, until they are normalized

WAYS_OUT = [
    ".. ", "..\u2028", "..\x85", "..\u200b", ".\u200b./x", ".. /x", ".\t./x", ". ./x", ".\u00a0.", "..\u3000/x",
    "..\u2800/x", "...", "'..'/x", '.""./x', "..''/x", "`echo ..`/x", "$(x)", "{a,../../b}", "..$9/x", "..${x}/y",
    ".*/x", ".[.]/x", "%c0%ae%c0%ae/x", "%u002e%u002e/x", "\uff052e\uff052e/x", "%25252525252e", "&#46;&#46;/x",
    "..\u2044x", "..;/x", "..:s/x", "..#/x", "..\\/x", ".\u00ad./x", ".\u034f./x", "..\x7f/x",
]  # fmt: skip


def test_under_is_sure_only_where_no_reading_leads_out() -> None:
    """H1: the path was compared as it stands, and the tool trimmed it."""
    root = {"path": {"under": "/srv/data"}}
    assert [out for out in WAYS_OUT if evaluate(root, {"path": f"/srv/data/{out}"}) is not Truth.UNKNOWN] == []
    inside = ["a.txt", "a b/ä.md", "...hidden", "a..b", "it's", "[id].tsx", "$id.tsx", "100%", "a~", "x.tar.gz/"]
    assert [path for path in inside if evaluate(root, {"path": f"/srv/data/{path}"}) is not Truth.YES] == []


def test_a_pattern_is_sure_only_where_every_reading_matches() -> None:
    """H1: what `under` did, `matches` did too."""
    tries = {
        "[^/]+": ["%2fetc", "\uff0fetc", "..%2f"],
        "(?!prod).+": [" prod", "\u200bprod", "'prod'", "%70rod", "\uff50rod"],
        "/srv/.*": ["/srv/../etc", "/srv/.. /x", "/srv/..\u200b/x", "/srv/'..'/etc"],
    }
    for pattern, texts in tries.items():
        found = [text for text in texts if evaluate({"x": {"matches": pattern}}, {"x": text}) is Truth.YES]
        assert found == [], pattern
    meant = {"https://x\\.org/.*": "https://x.org/a//b", "say '[a-z]+'": "say 'hi'", "(?s).*": " a\n\nb "}
    assert [
        text for pattern, text in meant.items() if not evaluate({"x": {"matches": pattern}}, {"x": text}).sure
    ] == []


async def test_under_in_a_run() -> None:
    """H1: the tool trims its argument, and removed the directory above unasked."""
    removed: list[str] = []

    @function_tool
    def remove(path: str) -> str:
        """Removes a directory."""
        removed.append(path.strip())
        return "removed"

    policy = Policy(Rule("allow", where={"path": {"under": "/srv/data"}}), default="ask")
    model = ScriptedModel([[function_call("remove", {"path": "/srv/data/.. "})], "done"])
    result = await Runner.run(Agent("clerk", model=model, tools=[remove]), "go", policy=policy)
    assert removed == []
    assert len(result.interruptions) == 1


def test_what_takes_quadratic_time_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """H3: sorting marks and converting long integers is quadratic in what a model writes."""
    normalize, number = reading.normalize, reading.Decimal
    work: list[int] = []

    def counted(form: Any, text: str) -> str:
        work.append(len(text))
        return normalize(form, text)

    def made(text: Any) -> Any:
        assert isinstance(text, int) or len(text) <= reading.MOST_DIGITS
        return number(text)

    evaluate({"x": "secret"}, {"x": "é" * 100})  # the tables are made once
    monkeypatch.setattr(reading, "normalize", counted)
    monkeypatch.setattr(reading, "Decimal", made)
    texts = [COMBINING, HALFWIDTH, "é" * LONG, "%cc%81%cc%96" * 25_000, "0x" + "f" * LONG, "9" * LONG, "1_" * LONG]
    for where in ({"eq": "500"}, {"one_of": ["500", 5]}, {"matches": "(?s).*z.*"}, {"under": "/etc"}):
        for text in texts:
            assert evaluate({"x": where}, {"x": text}) is not Truth.YES
    assert sum(work) == 0
    assert evaluate({"x": "secret"}, {"x": COMBINING}) is Truth.UNKNOWN
    assert evaluate({"x": "15"}, {"x": "0x" + "0" * LONG + "f"}) is Truth.UNKNOWN
    evaluate({"x": "secret"}, {"x": "\ufdfa" * 99_000})
    assert sum(work) <= 99_000, "18 characters of each: made once, and not looked at any further"


@pytest.mark.trial
def test_a_text_is_read_once_for_all_choices_and_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """H3: `one_of` with a hundred names read a text a hundred times, and so did each rule below."""
    decoded, names_of = reading.decoded, paths.names_of
    work: list[int] = []

    def counted(text: str) -> str:
        work.append(len(text))
        return decoded(text)

    def named(path: str, cut: bool = False) -> tuple[str, ...]:
        work.append(len(path))
        return names_of(path, cut)

    monkeypatch.setattr(reading, "decoded", counted)
    monkeypatch.setattr(reading, "names_of", named)
    choices = [f"d/name {number}" for number in range(100)]
    for text in ("a b/" * LONG, "'a\n" * LONG, "ä" * 50_000, COMBINING, "1," * LONG, "%41" * LONG):
        work.clear()
        for where in ({"one_of": choices}, {"ne": "x/y"}, {"under": "/etc"}, {"matches": "a/b"}) * 3:
            evaluate({"x": where}, {"x": text})
        assert sum(length for length in work if length > 1_000) <= 6 * len(text), text[:4]


def test_an_object_with_very_many_names_is_not_searched() -> None:
    """H3: each comparison looks at each name beside the one it means."""
    assert evaluate({"x": 5}, {"x": 5} | {f"n{number}": 0 for number in range(100)}) is Truth.YES
    assert evaluate({"x": 5}, {"x": 5} | {f"n{number}": 0 for number in range(2_000)}) is Truth.UNKNOWN
    assert evaluate({"x": 5}, {"x": 5, "y" * 100_000: 0}) is Truth.UNKNOWN


@each(
    ("condition", "values"),
    [
        ({"lt": "2025-01-01"}, ["31.12.2024", "20241231", "2024-12-31T23:59", "2024-12-31 ", "2024-12-32", "Dec 31"]),
        ({"lt": "2025-10-01"}, ["2025-9-1"]),
        ({"lt": "2025-01-01T00:00:00Z"}, ["2025-01-01T01:00:00+02:00", "2025-01-01T00:00:00"]),
        ({"gt": "100"}, ["$500", "1.000,50", "1.000", "1,000", "1e3", "0x3e8", "+500", "0500", "500 EUR", "a", ""]),
        ({"lt": "0"}, ["\u22125", "(5)", "5-"]),
        ({"eq": "2024-12-31"}, ["31.12.2024", "12/31/24", "20241231", "2024-12-31T00:00:00Z", "Dec 31 2024"]),
        ({"eq": "500"}, ["$500", "500 EUR", "EUR 500", "500,00", "0500", "0x1f4", "500abc", "+500"]),
        ({"eq": "-500"}, ["\u2212500", "\u2013500", "(500)"]),
        ({"eq": "secret.txt"}, ["'secret.txt'", "se\\cret.txt", "secret.txt$9", "secre?.txt", "*.txt",
                                "secret.txt::$DATA", "secret.txt?x=1", "x/'secret.txt'"]),
        ({"eq": {"country": "ir"}}, [{"country": "de", "Country": "ir"}, {"country": "de", "coun_try": "ir"}]),
        ({"eq": {"a": {"b": "x"}}}, [{"a": {"b": "y", "B": "x"}}]),
        ({"eq": [{"a": "x"}]}, [[{"a": "y", "A": "x"}]]),
        ({"matches": "DROP TABLE.*"}, ["DROP\nTABLE users", "DROP  TABLE x", "\tDROP\u00a0TABLE x", '"DROP" TABLE x',
                                       "DROP\u2028TABLE", "DROP%20TABLE x"]),
        ({"under": "/etc"}, ["/`echo etc`/passwd", "/srv/`x`/p", "/'etc'/x", "/e''tc/x", "/et$9c/x", "/srv/..$9/etc",
                             "/srv/{,../../etc}/x", "/srv/.*/etc/x", "/etc;x/y", "/etc:s", "/ETC~1/x", "/etc\u2800/x"]),
    ],
)  # fmt: skip
def test_a_no_is_sure(condition: Any, values: list[Any]) -> None:
    """M1: rules that ask or deny were passed by with a value that some tool reads as the one that is meant."""
    assert [value for value in values if evaluate({"x": condition}, {"x": value}) is Truth.NO] == []


def test_a_name_with_dots_is_in_the_way_wherever_it_is_cut() -> None:
    """M1: only the whole name was looked for beside the objects."""
    meant = {"a": {"b": {"c": "ok"}}}
    beside = ["a.b", "A.B", "a.b.c", "a[b]", "a[b][c]", "a/b/c", "a. b", "a%2eb", "a__b"]
    found = [name for name in beside if evaluate({"a.b.c": "evil"}, meant | {name: "evil"}) is not Truth.UNKNOWN]
    assert found == []
    assert evaluate({"a.b.c": "evil"}, {"a": {"b": {"c": "ok"}, "b.c": "evil"}}) is Truth.UNKNOWN
    assert evaluate({"a.b.c": "evil"}, meant | {"a_b": 1, "abc": 1, "b.c": 1}) is Truth.NO


def test_texts_of_one_shape_are_in_an_order() -> None:
    """What is written plainly is told: else every such rule would ask."""
    told = [
        ("2024-12-31", "2025-01-01"), ("2025-01-01T09:00Z", "2025-01-01T10:00Z"), ("9:00".zfill(5), "10:00"),
        ("100", "500"), ("-1.5", "0"), ("ada", "bob"), ("31.12.2024", "31.12.2024"),
    ]  # fmt: skip
    for less, more in told:
        assert evaluate({"x": {"le": more}}, {"x": less}) is Truth.YES, less
        assert evaluate({"x": {"gt": more}}, {"x": less}) is Truth.NO, less
