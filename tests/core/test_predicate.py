"""Predicates: typed, never coercing, and no match where anything is odd."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.errors import BadJson, UserError
from keyturn.core.policy import CallView
from keyturn.core.predicates.predicate import OPERATORS, Truth, check_where, evaluate, holds, may_hold
from keyturn.core.strict import parse
from keyturn.policies.rules import Policy, Rule
from tests.table import each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)

MISSING = object()
FORMS = [" {}", "{}\n", "./{}", "\u200b{}", "\ufeff{}", "x/../{}", "{}/."]
PAY = {"amount": {"gt": 0, "le": 100}}


class TestE12:
    """A standing rule "pay at most 100" and what a model may send as the amount, each as the JSON text it wrote."""

    @each("amount", ["100", "1", "0.01", "1e2", "1E+2", "100.0", "99.99999999999999", "10e-1"])
    def test_numbers_that_are_within(self, amount: str) -> None:
        assert holds(PAY, parse(f'{{"amount": {amount}}}'))

    @each(
        "amount",
        ["-5", "0", "-0.0", "100.0000001", "100.00000000000002", "101", "1e3", "9007199254740993", "1" + "0" * 400,
         '"100"', '"1"', '""', '"\uff11\uff10\uff10"', '"\u0661\u0660\u0660"', '"1e2"', "[100]", "[]",
         '{"value": 100}', "{}", "true", "false",
         "null"],
    )  # fmt: skip
    def test_all_else_does_not_match(self, amount: str) -> None:
        assert not holds(PAY, parse(f'{{"amount": {amount}}}'))

    @each("amount", ["NaN", "Infinity", "-Infinity", "1e999", "\uff11\uff10\uff10", "0x10", "1_0", "+5", "01"])
    def test_what_is_no_number_in_json_gets_nowhere_near(self, amount: str) -> None:
        with pytest.raises(BadJson):
            parse(f'{{"amount": {amount}}}')

    @each("params", [{}, {"Amount": 5}, {"amount ": 5}, {"\uff41mount": 5}, [], [5], "5", 5, None])
    def test_a_missing_amount_does_not_match(self, params: Any) -> None:
        assert not holds(PAY, params)
        assert not holds({"amount": {"ne": 500}}, params)
        assert not holds({"amount": None}, params)

    def test_a_bound_on_one_side_is_only_that(self) -> None:
        assert holds({"amount": {"le": 100}}, {"amount": -5})


@each(
    ("condition", "value", "expected"),
    [
        (100, 100, True), (100, 100.0, True), (100, "100", False), (1, True, False), (0, False, False),
        (True, 1, False),
        (True, True, True), (None, None, True), (None, 0, False), ("ada", "ada", True), ("ada", "Ada", False),
        ("é", "e\u0301", False), ([1, 2], [1, 2], True), ([1, 2], [2, 1], False), ([1], [1.0], True),
        ([1], [True], False), ({"eq": {"a": 1}}, {"a": 1}, True), ({"eq": {"a": 1}}, {"a": 1, "b": 2}, False),
        ({"eq": {}}, {}, True), (2**53, 2**53 + 1, False), (float(2**53), 2**53 + 1, False),
        ({"ne": "prod"}, "test", True), ({"ne": "prod"}, "prod", False), ({"ne": "prod"}, ["prod"], False),
        ({"ne": "prod"}, None, False), ({"ne": "prod"}, 5, False), ({"ne": 1}, True, False), ({"ne": 1}, 1.0, False),
        ({"ne": None}, "x", True), ({"ne": None}, None, False), ({"ne": ["prod"]}, ["test"], True),
        ({"lt": 5}, 4.999, True), ({"lt": 5}, 5, False), ({"gt": 5}, 5, False), ({"ge": 5}, 5, True),
        ({"le": 5}, True, False), ({"ge": 0}, False, False), ({"ge": "2025-01-01"}, "2025-06-30", True),
        ({"ge": "2025-01-01"}, 2026, False), ({"lt": "b"}, "a", True), ({"le": 5}, None, False),
        ({"le": 5}, [1], False),
        ({"one_of": ["ada", "bob"]}, "bob", True), ({"one_of": ("ada", "bob")}, "bob", True),
        ({"one_of": ["ada"]}, "ad", False), ({"one_of": ["ada"]}, ["ada"], False), ({"one_of": [1]}, True, False),
        ({"one_of": []}, None, False), ({"ge": 1, "le": 3, "ne": 2}, 3, True), ({"ge": 1, "le": 3, "ne": 2}, 2, False),
    ],
)  # fmt: skip
def test_comparisons(condition: Any, value: Any, expected: bool) -> None:
    where = {"x": condition}
    check_where(where)
    assert holds(where, {"x": value}) is expected


@each(
    ("pattern", "text", "expected"),
    [("a", "a", True), ("a", "ab", False), ("a", "ba", False), ("a$", "a\n", False), ("a|b", "ab", False),
     (".*", "a\nb", False), (r"\d+", "\uff11\uff10\uff10", False), (r"\d+", "100", True), (r"\w+", "ädä", False),
     ("(?i)k", "\u212a", False),
     ("(?i)K", "k", True), (r"\d", 5, False), ("", "", True), ("a", ["a"], False), ("None", None, False),
     (r"(?:\d{1,3}\.){3}\d{1,3}", "10.0.0.1", True), (r"[\w.+-]+@example\.org", "ada@example.org", True),
     (r"[\w.+-]+@example\.org", "ada@example.org.evil", False), (r"(?!prod).+", "test", True),
     (r"(?!prod).+", "prod-1", False), ("[]a]+", "]a]", True), (r"[^\]]+\]", "a]", True), (r"a\*{2}", "a**", True),
     ("(?P<year>[0-9]{4})-[0-9]{2}", "2025-01", True), ("a{,2}b", "aab", True), ("x{y}", "x{y}", True)],
)  # fmt: skip
def test_matches_means_the_whole_text_in_ascii(pattern: str, text: Any, expected: bool) -> None:
    where = {"x": {"matches": pattern}}
    check_where(where)
    assert holds(where, {"x": text}) is expected


@each(
    "pattern",
    ["(a+)+", "(a*)*x", "(?:a?){40}", "(a|a)*x", "(a|b|ab)*", "(|a)+", "((a)+)*", "(?:a*b?){9}", "([a-z]+(/[a-z]+)*)",
     ".*.*.*.*.*x", "a?" * 30 + "a" * 30, r"(.*)(.*)\1", "(?P<q>a*)(?P=q)", "(?x)( a+ ) * x", "((?#[)a+)*]?x",
     "(a*)*{}", "(a)?(?(1)b|c)", "(?=(a+)+)x"],
)  # fmt: skip
def test_a_pattern_that_could_take_too_long_is_refused(pattern: str) -> None:
    with pytest.raises(UserError, match=r"take too long|not a regular expression"):
        check_where({"x": {"matches": pattern}})
    assert not holds({"x": {"matches": pattern}}, {"x": "a" * 40})


@each(
    ("pattern", "text"),
    [(".*.*.*x", "a"), ("a*a*a*a*x", "a"), (".*a.*a.*a.*x", "a"), ("a?" * 20 + "a" * 20 + "x", "a"),
     ("(?:a*){3}x", "a"),
     ("(?:a|aa){20}x", "a"), (r"\w+@\w+\.\w+x", "a@a.a"), ("(?i)[a-z]*[A-Z]*x", "aB"), ("(a{0,30}){2}x", "a"),
     ("(?!a*a*x)a*a*x", "a"), (".*?.*?x", "a"), ("[^x]*[^x]*y", "ab"), (r"(/[a-z]{1,9}){1,4}/?x", "/a")],
)  # fmt: skip
def test_no_text_keeps_an_accepted_pattern_busy(pattern: str, text: str) -> None:
    where = {"x": {"matches": pattern}}
    check_where(where)
    for length in (30, 150, 1_000, 100_000):
        start = time.perf_counter()
        assert not holds(where, {"x": (text * length)[:length] + "!"})
        assert time.perf_counter() - start < 5, f"{pattern} took too long on {length} characters"


@each(
    ("root", "path"),
    [("/srv/data", "/srv/data"), ("/srv/data", "/srv/data/"), ("/srv/data", "/srv/data/a/b.txt"),
     ("/srv/data/", "/srv/data/a"), ("/srv/data", "/srv//data/./a"), ("/srv/data", "/srv/data/...hidden"),
     ("/srv/data", "/srv/data/a..b"), ("/srv/data", "/srv/data/ä b"), ("src", "src/a.py"), ("./src", "src/a.py"),
     ("src", "./src/a.py"), ("/", "/etc/passwd"), ("/srv/data", "/srv/data/100%")],
)  # fmt: skip
def test_paths_that_are_under(root: str, path: str) -> None:
    where = {"path": {"under": root}}
    check_where(where)
    assert holds(where, {"path": path})


@each(
    "path",
    ["/srv/database", "/srv/data.bak", "/srv", "/", "", ".", "srv/data/a", "/srv/data/../etc",
     "/srv/data/a/../../../etc",
     "/srv/data/..", "/../srv/data/a", "//srv/data/a", "/srv/data\\..\\etc", "\\srv\\data", "/srv/data/a\0b",
     "/srv/data/a\n/etc/passwd", "/srv/data/\x1b[2J", "/srv/data/%2e%2e/etc", "/srv/data/%2E./etc",
     "/srv/data/%252e%252e/x",
     "/srv/data%2f..", "/srv/data/..%2f", "/srv/data/\uff0e\uff0e/etc", "/srv/data/\u2025/etc",
     "/srv/data/\u2024\u2024/etc", "/srv/data\uff0f..",
     "/srv/data/..\uff0fetc", "/srv/data\uff3c..", "/SRV/DATA/a", "~/srv/data", "file:///srv/data/a", " /srv/data/a",
     "/srv/d\u0430ta/a",
     5, None, True, ["/srv/data/a"], {"path": "/srv/data/a"}],
)  # fmt: skip
def test_paths_that_only_look_as_if(path: Any) -> None:
    assert not holds({"path": {"under": "/srv/data"}}, {"path": path})


@each("root", ["", ".", "./", "..", "/srv/../etc", "/srv\\data", "/srv/\0", "%2e%2e/x", 5, None, ["/srv"]])
def test_a_root_is_a_plain_directory(root: Any) -> None:
    with pytest.raises(UserError, match="directory"):
        check_where({"path": {"under": root}})


def test_a_dot_goes_into_objects() -> None:
    where = {"to.address.country": "de", "to.amount": {"le": 5}}
    check_where(where)
    assert holds(where, {"to": {"address": {"country": "de"}, "amount": 5}})
    assert not holds(where, {"to": {"address": {"country": "de"}}})
    assert not holds(where, {"to": [{"address": {"country": "de"}, "amount": 5}]})
    assert not holds({"to.0": 1}, {"to": [1]})
    assert not holds({"a.b": 1}, {"a": None})


def test_two_arguments_that_could_be_meant_are_none() -> None:
    where = {"a.b": {"le": 100}}
    assert holds(where, {"a": {"b": 5}})
    assert not holds(where, {"a.b": 5, "a": {"b": 500}})
    assert not holds(where, {"a.b": 500, "a": {"b": 5}})
    assert not holds(where, {"a.b": 5})


def test_nothing_asked_holds_of_anything() -> None:
    for where in (None, {}):
        check_where(where)
        assert holds(where, {"x": 1})
        assert holds(where, "a text")


@each(
    ("where", "says"),
    [
        ("amount <= 100", "maps the names"), (["amount"], "maps the names"), (5, "maps the names"),
        ({"": 1}, "not the name"), ({"a..b": 1}, "not the name"), ({".a": 1}, "not the name"), ({5: 1}, "not the name"),
        ({"x": {}}, "is empty"), ({"x": {"atmost": 5}}, "unknown comparison 'atmost'"), ({"x": {"LE": 5}}, "unknown"),
        ({"x": {"a": 1}}, "unknown"), ({"x": {"le": 5, "or": 6}}, "unknown"), ({"x": {"le": None}}, "number or a text"),
        ({"x": {"le": True}}, "number or a text"), ({"x": {"gt": [1]}}, "number or a text"),
        ({"x": {"le": math.nan}}, "JSON"), ({"x": math.nan}, "JSON"), ({"x": {"ne": math.inf}}, "JSON"),
        ({"x": (1, 2)}, "JSON"), ({"x": {"eq": {1, 2}}}, "JSON"), ({"x": {"eq": {1: 2}}}, "JSON"),
        ({"x": "\ud800"}, "JSON"),
        ({"x": {"one_of": "ada"}}, "takes a list"), ({"x": {"one_of": {"ada"}}}, "takes a list"),
        ({"x": {"one_of": [math.nan]}}, "JSON"), ({"x": {"matches": 5}}, "takes a text"),
        ({"x": {"matches": "("}}, "regular"),
        ({"x": {"matches": "(?u)a"}}, "regular"), ({"x": {"matches": "a{99999999999}"}}, "regular"),
    ],
)  # fmt: skip
def test_what_could_not_be_evaluated_is_refused(where: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_where(where)


@given(JSON, st.sampled_from([*OPERATORS, "unknown"]), JSON)
def test_evaluating_never_raises_and_never_coerces(value: Any, operator: str, operand: Any) -> None:
    assert holds({"x": {operator: operand}}, {"x": value}) in (True, False)
    assert holds({"x": operand}, {"x": value}) in (True, False)
    assert not holds({"x": {operator: operand}}, {"y": value})


@given(JSON, JSON)
def test_equal_and_different_are_never_both(one: Any, other: Any) -> None:
    assert not (holds({"x": {"eq": one}}, {"x": other}) and holds({"x": {"ne": one}}, {"x": other}))
    assert holds({"x": {"eq": one}}, {"x": other}) == holds({"x": {"eq": other}}, {"x": one})
    assert holds({"x": {"eq": one}}, {"x": one})
    assert holds({"x": {"one_of": [other, one]}}, {"x": one})


@each(
    ("condition", "value"),
    [({"unknown": 1}, 1), ({"matches": "("}, "("), ({"matches": "(a"}, "a"), ({"one_of": 5}, 5), ({}, {}), ({}, 1),
     ({"ge": False}, True), ({"le": [1]}, [1]), ({"ge": None}, None), ({"eq": 1, "unknown": 1}, 1),
     ({"eq": (1,)}, [1])],
)  # fmt: skip
def test_what_was_never_checked_does_not_match(condition: Any, value: Any) -> None:
    assert not holds({"x": condition}, {"x": value})
    where: Any = {5: value}
    assert not holds(where, {5: value})


class TestThreeValues:
    """Yes is sure, no is sure, and all else is neither."""

    @given(JSON, st.sampled_from([*OPERATORS, "unknown"]), JSON)
    def test_a_predicate_always_has_one_of_three_values(self, value: Any, operator: str, operand: Any) -> None:
        where, params = {"x": {operator: operand}}, {"x": value}
        truth = evaluate(where, params)
        assert truth in Truth
        assert holds(where, params) is (truth is Truth.YES)
        assert may_hold(where, params) is (truth is not Truth.NO)
        with pytest.raises(TypeError):
            bool(truth)

    @given(JSON | st.just(MISSING), JSON, st.sampled_from([("eq", "ne"), ("lt", "ge"), ("gt", "le")]))
    def test_a_predicate_and_its_opposite_never_both_let_a_call_by(
        self, value: Any, operand: Any, pair: tuple[str, str]
    ) -> None:
        params = {} if value is MISSING else {"x": value}
        one, other = (evaluate({"x": {operator: operand}}, params) for operator in pair)
        assert not (one is other is Truth.NO), "`deny` one, `deny` the other: nothing is neither"
        assert not (one is other is Truth.YES)
        for first, second in (pair, pair[::-1]):
            rules = Policy(_rule("deny", first, operand), _rule("allow", second, operand), default="ask")
            if evaluate({"x": {first: operand}}, params) is not Truth.NO:
                assert _action(rules, params) == "deny"

    @given(JSON, st.sampled_from([*OPERATORS]), JSON, st.integers(0, 4))
    def test_what_is_made_unknowable_never_lets_a_call_run(
        self, value: Any, operator: str, operand: Any, how: int
    ) -> None:
        obscure = [{"x": [value], "X": value}, [value], {"x": object()}, {"x": float("nan")}, None][how]
        policy = Policy(_rule("deny", operator, operand), _rule("ask", operator, operand), default="allow")
        if (operator, operand) not in (("ne", None), ("one_of", [])):
            assert _action(policy, obscure) == "deny"
        assert not holds({"x": {operator: operand}}, obscure)

    @given(st.text(min_size=1, max_size=6), st.sampled_from(FORMS))
    def test_a_text_that_a_tool_trims_or_opens_is_not_surely_another(self, text: str, form: str) -> None:
        written = form.format(text)
        assert may_hold({"x": text}, {"x": written})
        assert may_hold({"x": {"one_of": ["other", text]}}, {"x": written})
        assert not holds({"x": {"ne": text}}, {"x": written})

    @each(
        ("condition", "value", "truth"),
        [
            ("prod", "Prod", "?"), ("prod", " prod", "?"), ("prod", "\uff50rod", "?"), ("prod", "pr\u00adod", "?"),
            ("prod", "test", "no"), ("prod", 5, "no"), ("prod", ["prod"], "?"), ("prod", None, "no"),
            ("prod", MISSING, "no"),
            (5, "5", "?"), (5, "five", "no"), (5, "\u2164", "?"), (5, True, "?"), (5, 5.0, "yes"), (5, 6, "no"),
            ("5", 5, "?"), ("500", "5e2", "?"), (16, "0x10", "?"), (True, "yes", "?"), (None, MISSING, "?"),
            (None, None, "yes"), ({"eq": {"a": 1}}, {"a": 1, "b": 2}, "?"), ({"eq": {"a": 1}}, {"a": 2, "b": 2}, "no"),
            ({"ne": "prod"}, "Prod", "?"), ({"ne": "prod"}, "test", "yes"), ({"ne": "prod"}, MISSING, "?"),
            ({"ne": "prod"}, None, "?"), ({"ne": "prod"}, 5, "?"), ({"ne": None}, MISSING, "no"),
            ({"ne": None}, 0, "yes"), ({"gt": 5}, MISSING, "?"), ({"gt": 5}, None, "?"), ({"gt": 5}, "x", "?"),
            ({"gt": 2**53}, 2**53 + 1, "yes"), ({"gt": float(2**53)}, 2**53 + 1, "yes"), ({"le": 1e308}, 10**400, "no"),
            ({"ge": "2025-01-01"}, " 2025-06-30", "?"), ({"lt": "b"}, "Z", "?"), ({"gt": "100"}, "9", "?"),
            ({"le": "2025-01-01"}, " 2026-01-01", "?"), ({"one_of": ["ada", 5]}, "bob", "no"),
            ({"one_of": ["ada", None]}, MISSING, "?"), ({"one_of": ["ada", "Bob"]}, "bob", "?"),
            ({"matches": "DROP .*"}, "\nDROP t", "?"), ({"matches": "DROP .*"}, "DROP a\nb", "?"),
            ({"matches": "[0-9]+"}, "\u0665", "?"), ({"matches": "/etc/.*"}, "/srv/../etc/x", "?"),
            ({"matches": "drop .*"}, "DROP t", "no"), ({"matches": "a"}, 5, "?"), ({"matches": "a"}, MISSING, "no"),
            ({"matches": ".*a.*b.*c.*"}, "x" * 10_000, "?"), ({"under": "/etc"}, "/srv/x", "no"),
            ({"under": "/etc"}, "x", "?"), ({"under": "src"}, "/x", "?"), ({"under": "src"}, "lib/x", "no"),
            ({"under": "src"}, "~/src", "?"), ({"under": "src"}, MISSING, "no"), ({"under": "src"}, ["src/a"], "?"),
        ],
    )  # fmt: skip
    def test_the_table_of_the_manual(self, condition: Any, value: Any, truth: str) -> None:
        check_where({"x": condition})
        said = {Truth.YES: "yes", Truth.NO: "no", Truth.UNKNOWN: "?"}
        assert said[evaluate({"x": condition}, {} if value is MISSING else {"x": value})] == truth

    def test_a_name_that_is_nearly_the_same_is_in_the_way(self) -> None:
        for params in ({"x": 1, "X": 500}, {"x": 1, "x ": 500}, {"x": 1, "\uff58": 500}, {"X": 500}):
            assert evaluate({"x": {"le": 5}}, params) is Truth.UNKNOWN
            assert evaluate({"x": 7}, params) is Truth.UNKNOWN
        assert evaluate({"a.b": 5}, {"a": {"b": 5, "B": 6}}) is Truth.UNKNOWN
        assert evaluate({"a.b": 5}, {"a": [{"b": 5}]}) is Truth.UNKNOWN
        assert evaluate({"a.b": 5}, {"a": None}) is Truth.NO

    def test_a_sure_no_decides_before_what_cannot_be_told(self) -> None:
        assert evaluate({"to": "eve", "n": {"gt": 5}}, {"to": "ada", "n": "x"}) is Truth.NO
        assert evaluate({"n": {"gt": 5}, "to": "eve"}, {"to": "ada", "n": "x"}) is Truth.NO
        assert evaluate({"n": {"gt": 5}, "to": "ada"}, {"to": "ada", "n": "x"}) is Truth.UNKNOWN


def _rule(action: Any, operator: str, operand: Any) -> Rule:
    rule = Rule(action)
    object.__setattr__(rule, "where", {"x": {operator: operand}})
    return rule


def _action(policy: Policy, params: Any) -> str:
    verdict = policy(CallView("pay", "function", "desk", params, digest="5e1f", call_id="c1"))
    assert verdict is not None
    return verdict.action


YES, NO, UNKNOWN = Truth.YES, Truth.NO, Truth.UNKNOWN


@each(
    ("condition", "value", "expected"),
    [
        ({"any": {"matches": "rm .*"}}, ["ls", "rm -rf /"], YES),
        ({"any": {"matches": "rm .*"}}, ["ls", "cat x"], NO),
        ({"any": {"matches": "rm .*"}}, ["ls", "'rm' x"], UNKNOWN),
        ({"any": {"matches": "rm .*"}}, ["rm${IFS}x"], UNKNOWN),
        ({"any": {"matches": "rm .*"}}, ["r\\\nm x"], UNKNOWN),
        ({"any": {"matches": "rm .*"}}, ["'rm' x", "rm x"], YES),
        ({"any": {"matches": "rm .*"}}, [], NO),
        ({"any": {"matches": "rm .*"}}, None, NO),
        ({"any": {"matches": "rm .*"}}, MISSING, NO),
        ({"any": {"matches": "rm .*"}}, "ls", UNKNOWN),
        ({"any": {"matches": "rm .*"}}, [["rm x"]], UNKNOWN),
        ({"any": {"matches": "rm .*"}}, ["ls"] * 1_001, UNKNOWN),
        ({"any": {"matches": ".*a.*a.*b"}}, ["a" * 400] * 900, UNKNOWN),
        ({"any": "rm"}, ["ls", "rm"], YES),
        ({"any": {"gt": 5}}, [1, 9], YES),
        ({"any": {"gt": 5}}, [1, "9"], UNKNOWN),
        ({"any": {"gt": 5, "lt": 8}}, [4, 9], NO),
        ({"all": {"one_of": ["ls", "pwd"]}}, ["ls", "pwd"], YES),
        ({"all": {"one_of": ["ls", "pwd"]}}, ["ls", "rm"], NO),
        ({"all": {"one_of": ["ls", "pwd"]}}, ["ls", " pwd"], UNKNOWN),
        ({"all": {"one_of": ["ls"]}}, [], UNKNOWN),
        ({"all": {"one_of": ["ls"]}}, None, UNKNOWN),
        ({"all": {"one_of": ["ls"]}}, MISSING, UNKNOWN),
        ({"all": {"under": "/srv"}, "any": {"under": "/srv/b"}}, ["/srv/a", "/srv/b"], YES),
    ],
)
def test_the_members_of_a_list_are_compared_where_any_or_all_is_said(condition: Any, value: Any, expected: Any) -> None:
    where = {"x": condition}
    check_where(where)
    assert evaluate(where, {} if value is MISSING else {"x": value}) is expected


@each("condition", [{"any": {}}, {"all": {"like": 1}}, {"any": {"all": "x"}}, {"any": {"matches": "(a+)+"}}])
def test_a_condition_on_members_that_could_not_be_evaluated_is_refused(condition: Any) -> None:
    with pytest.raises(UserError, match="'x'"):
        check_where({"x": condition})
