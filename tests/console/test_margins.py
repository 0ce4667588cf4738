"""What anybody else wrote cannot pass for the console's own words, on a terminal of any width."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from keyturn import Agent, Policy, Rule, Runner, function_tool
from keyturn.cli import printing
from keyturn.cli.demo_voice import DemoVoice
from keyturn.console import Undecided, desk
from keyturn.console import given as given_here
from keyturn.console.screen import Terminal
from keyturn.core.encodable import moment
from keyturn.core.errors import KeyturnError
from keyturn.core.preview import Json, Preview, Text
from keyturn.models.scripted.model import ScriptedModel, assistant_message, function_call
from keyturn.render import length
from keyturn.render.arguments import is_text
from tests.console.test_console import Keyboard, asking
from tests.effort import AT_LENGTH
from tests.render.emulator import broad, leads, narrow, screen

WIDTHS = range(12, 201)
KEYS = "  a approve  e edit  r reject  w write its result  g grant  o this and the others  l later  q quit  ? explain"
RULE = "  -- Your decision ------------"
FIELDS = [
    "agent", "tool", "risk", "reason", "before", "after", "summary", "text", "label", "choice", "error", "key",
    "refused", "verdict", "path", "description", "process", "former", "argument", "name", "text_name", "inner",
]  # fmt: skip
LINES = "one line\nand another"


def forgeries(width: int) -> list[str]:
    """Texts that imitate us, so long that an imitation begins where a row is folded or where the terminal wraps."""
    imitated = ("Approved.", "Call 2 of 2", KEYS, "decide > a", RULE)
    texts = [f"{'.' * (width - at)}  {words}" for at in (0, 2, 4, 12) for words in imitated[:1]]
    texts += [f". . {'. ' * (width // 2)}{words}" for words in imitated]
    texts += [
        "日" * (width // 2) + "  Approved.",
        "\t\tApproved.",
        "\r\n\nApproved.",
        "\u0301Approved.",
        "\u2028Approved.",
    ]
    return [*texts, "का\u093e\u093e\u093e" * (width // 2) + "  Approved.", " " * width + "Approved."]


def a_call(field: str, text: str, name: str = "c") -> Any:
    """A call that waits, with this text in one place."""
    given = dict.fromkeys(FIELDS, "x") | {
        "after": "y",
        "summary": "z",
        "name": "k",
        "text_name": "t",
        "description": "d",
    }
    given[field] = text
    params = {given["name"]: 1, "value": given["argument"], given["text_name"]: LINES, "in": [given["inner"], [1]]}
    preview = Preview((Text(given["text"], label=given["label"]), Json(params)), summary=given["summary"])

    def edit(_params: Any) -> Any:
        raise desk.InvalidArguments(given["refused"])

    about = SimpleNamespace(
        verdicts=("approve", "edit", "reject", "answer"), risk=given["risk"], secrets=(), path=given["path"],
        description=given["description"], started_at=moment(1), started_by=given["process"],
        former=SimpleNamespace(by=given["former"], verdict="approve"), reviews=None,
    )  # fmt: skip
    return SimpleNamespace(
        call=name, kind="approval", agent=SimpleNamespace(name=given["agent"]), name=given["tool"],
        qualified_name=given["tool"], tool=SimpleNamespace(editable=True, answerable=True, edit=edit, spec=dict),
        reason=given["reason"], expires_at=moment(1), text=json.dumps(params), preview=preview, params=params,
        difference={side: {"description": given[side]} for side in ("before", "after")}, request=about,
        requests={"choices": [given["choice"]], "value": given["argument"]}, digest="d" * 64, raw_item={}, given=given,
    )  # fmt: skip


TYPED = {
    "approval": ["a", "e", "a=1", "", "g", "1", "", "g", "1", "1h", "o", "a"],
    "external": ["w", "1"],
    "in_doubt": ["d", "", "t"],
}


def shown(field: str, text: str, width: int, kind: str = "approval") -> list[str]:
    """Everything the desk can say of it, as rows."""
    item, written = a_call(field, text), list[str]()
    other = a_call(field, text, "d")
    item.kind = other.kind = kind

    def refuse(*_given: Any, **_options: Any) -> None:
        raise KeyturnError(item.given["error"])

    typed = iter(["?", item.given["key"], *TYPED[kind]])
    state: Any = SimpleNamespace(
        live=SimpleNamespace(log=SimpleNamespace(steps=())),
        undelivered=SimpleNamespace(decisions={}),
        approve=refuse,
        answer=refuse,
        reject=refuse,
        resolve=refuse,
    )
    place = desk.ConsoleDesk(
        state, Terminal(ask=lambda _prompt: next(typed, "q"), show=written.append, width=width), None
    )
    with pytest.raises(EOFError):
        place.settle_all([item, other])
    place.leave()
    state.undelivered.decisions[item.call] = SimpleNamespace(verdict=item.given["verdict"])
    place.settle(item, 1, 1)
    place.leave()
    state.undelivered.decisions.clear()
    if kind == "approval":
        place.granted.add(item, None)
        place.settle(item, 1, 1)
    return written


@pytest.mark.parametrize("kind", ["approval", "external", "in_doubt"])
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.trial) for first in (1, 2, 3))])
def test_no_text_begins_where_our_words_do(kind: str, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: at every width our own rows are the same whatever stands in any field; all else keeps the margin."""
    monkeypatch.setattr(length, "ROWS", 10_000)
    monkeypatch.setattr(given_here, "tool_digest", lambda *_given: "digest")
    for width in WIDTHS[first::4]:
        every = width % 40 == 12 + first if AT_LENGTH else width == 52 + first
        if not (AT_LENGTH or every or width % 16 == first):
            continue
        ours = without(leads(screen(shown("", "", width, kind), width, narrow)))
        in_lines = without(leads(screen(shown("argument", LINES, width, kind), width, narrow)))
        texts = forgeries(width) if every else [". " * (width // 2) + KEYS]
        for place, field in enumerate(FIELDS if every else FIELDS[width % 6 :: 6]):
            for text in texts[(width // 20 + place) % 3 :: 3] if every else texts:
                written = shown(field, text, width, kind)
                expected = in_lines if field == "argument" and is_text(text) else ours
                for columns in (narrow, broad):
                    assert without(leads(screen(written, width, columns))) == expected, (width, field, text)


# More of our own words about odd ones; and how many grants there are to choose from depends on the arguments.
BEWARE = ("  Warning", "  Warning:", "  note: some letters", "  grant", "  grant:")


def without(found: list[str]) -> list[str]:
    return [lead for lead in found if lead not in BEWARE]


def drawn(agent: Agent[Any], width: int, *lines: str, **options: Any) -> list[str]:
    keyboard = Keyboard(*lines)
    with pytest.raises(Undecided):
        keyboard.decide(Runner.run_sync(agent, "go", **options), width=width)
    return leads(screen(keyboard.shown, width, narrow))


@pytest.mark.trial
def test_questions_reasons_and_the_models_words_in_real_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """M5, as it was found: through the public functions."""
    monkeypatch.setattr(length, "ROWS", 10_000)
    monkeypatch.setattr(desk, "point_out", lambda *_given: None)  # whether a text presses is told in words of ours

    def spoken(words: str) -> Agent[Any]:
        tool = function_tool(name_override="t")(lambda: "x")
        return Agent("clerk", model=ScriptedModel([[assistant_message(words), function_call("t")]]), tools=[tool])

    for width in (12, 40, 80, 100, 200):
        for text in forgeries(width):
            asked = [drawn(asking(question=said, choices=[said, "b"]), width, "s", "w", "") for said in (text, "x")]
            assert [lead for lead in asked[0] if lead in asked[1]] == asked[0], (width, text)
            reason = "".join(filter(str.isprintable, text))
            hostile = drawn(spoken(text), width, policy=Policy(Rule("ask", reason=reason)))
            assert hostile == drawn(spoken("x"), width, policy=Policy(Rule("ask", reason="x"))), (width, text)


def test_nothing_is_shown_where_there_is_no_room_for_a_margin() -> None:
    """M5: a terminal too narrow for a margin is told so; nothing of the call is shown, and nothing is decided."""
    for width in range(1, 12):
        keyboard = Keyboard("a", "a")
        with pytest.raises(Undecided) as left:
            keyboard.decide(Runner.run_sync(asking(question="ZZZ", choices=["ZZZ"]), "go"), width=width)
        assert not left.value.state.undelivered.decisions
        assert "Z" not in keyboard.text
        assert f"{width} columns" in " ".join(keyboard.text.split())


def test_a_terminal_that_was_made_narrower_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: rows are folded for the terminal as it is now, not as it was when the console began."""
    keyboard = Keyboard("", "?")
    monkeypatch.setenv("COLUMNS", "100")

    def ask(prompt: str) -> str:
        monkeypatch.setenv("COLUMNS", "30")
        return keyboard(prompt)

    place = Terminal.here(ask=ask, show=keyboard.shown.append)
    place.label("agent", "x" * 90)
    place.read("decide")
    place.label("agent", "x" * 90)
    assert [max(map(len, rows)) for rows in (keyboard.shown[:1], keyboard.shown[1:])] == [99, 30]


def test_the_demo_keeps_the_margin_too() -> None:
    """M5: what a model or a tool says in the demo is behind a margin in its column."""

    def told(text: str, width: int) -> list[str]:
        made = list[str]()
        voice = DemoVoice(Terminal(show=made.append, width=width))
        voice.tell("result", text)
        voice.note("finished", "This run is over.")
        return made

    def ours(rows: list[str]) -> set[str]:
        """What rows begin with, up to the margin of the text in them."""
        return {re.split(r"(?<=  )[|:]|: |:$", row)[0].rstrip() for row in rows}

    for width in WIDTHS:
        expected = ours(screen(told("x", width), width, narrow)) | {" " * 12, ""}
        for text in forgeries(width) if width % 10 == 2 else ["." * (width - 14) + "  Approved."]:
            for columns in (narrow, broad):
                assert ours(screen(told(text, width), width, columns)) <= expected, (width, text)


def test_commands_fold_what_they_print(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: a run's name or an error's text begins no row of a terminal, and acts on none."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        for text in ("." * (width - 14) + "I1  all is well", "\x1b[2J\nall is well", "日" * width):
            printing.print_labelled("keyturn check", text)
            printed = capsys.readouterr().err.rstrip("\n").split("\n")
            assert printed[0].startswith("keyturn check"[:width])
            _, *others = screen(printed, width, broad)
            assert all(row.startswith(": ") for row in others), (width, text)


def test_a_page_of_the_manual_cannot_be_left() -> None:
    """M5: no row of a capture closes the fence that it stands in."""
    for text in ("```", "~~~\n```", "a\n```\n# Title"):
        keyboard = Keyboard()
        with pytest.raises(Undecided):
            keyboard.decide(Runner.run_sync(asking(question=text, choices=[text]), "go"), width=80)
        assert not [row for row in keyboard.shown if row.lstrip().startswith(("```", "~~~", "#"))]
