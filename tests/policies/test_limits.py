"""Limits: what they count, exactly; and that what cannot be counted is over every limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core import past as past_module
from keyturn.core.errors import UserError
from keyturn.core.past import RunPast, Totals
from keyturn.core.policy import CallView, Verdict
from keyturn.core.strict import parse
from keyturn.policies.limits import Budget, Calls, Rejections
from keyturn.policies.rules import Policy, Rule, allow, ask, deny
from tests.core.samples import ALLOW, ASK, asked
from tests.core.samples import tool as proposed
from tests.table import each

NOW, MINUTE = 1_700_000_000_000, 60_000


class Recorded:
    """A past as a test states it, the latest first; it remembers no sums."""

    def __init__(self, *ran: CallView, rejected: tuple[CallView, ...] = ()) -> None:
        self._ran, self._rejected = ran, rejected

    def ran(self, since: int | None = None) -> Iterator[CallView]:
        return (call for call in self._ran if since is None or call.at >= since)

    def rejected(self) -> Iterator[CallView]:
        return iter(self._rejected)

    def total(
        self, of: object, measure: Callable[[CallView], Fraction | int], since: int | None = None
    ) -> Fraction | int:
        return sum(map(measure, self.ran(since)))

    def rejections(self, of: object, key: Callable[[CallView], Hashable], wanted: Hashable) -> int:
        return sum(key(call) == wanted for call in self._rejected)


def call(params: Any = None, tool: str = "pay", past: Recorded | None = None, **more: Any) -> CallView:
    seen: dict[str, Any] = {"kind": "function", "agent": "desk", "digest": "5e1f", "call_id": "c", "at": NOW, **more}
    return CallView(tool, params={"amount": 50} if params is None else params, past=past or Recorded(), **seen)


def action(policy: Policy, view: CallView) -> str | None:
    verdict = policy(view, None)
    return None if verdict is None else verdict.action


SPENDING = Policy(ask(tool="pay", over=Budget("amount", 100)), allow(tool="pay"))


class TestE12:
    """A budget is about a number, exactly; everything else asks."""

    @each(
        ("text", "says"),
        [
            ('{"amount": 100}', "allow"), ('{"amount": 0}', "allow"), ('{"amount": 1e2}', "allow"),
            ('{"amount": 100.0}', "allow"), ('{"amount": -0.0}', "allow"), ('{"amount": 99.9999999}', "allow"),
            ('{"amount": "100"}', "ask"), ('{"amount": "1"}', "ask"), ('{"amount": -5}', "ask"),
            ('{"amount": -1e-9}', "ask"), ('{"amount": 100.0000001}', "ask"), ('{"amount": 1.001e2}', "ask"),
            ('{"amount": [50]}', "ask"), ('{"amount": []}', "ask"), ('{"amount": {"eur": 1}}', "ask"),
            ('{"amount": null}', "ask"), ('{"amount": true}', "ask"), ('{"amount": false}', "ask"),
            ('{"amount": "\\uff11\\uff10\\uff10"}', "ask"), ('{"amount": "\\u0661\\u0660"}', "ask"), ("{}", "ask"),
            ('{"Amount": 5}', "ask"), ('{"amount ": 5}', "ask"), ('{"amount": 1e308}', "ask"),
            ('{"amount": ' + "9" * 4_000 + "}", "ask"), ("[]", "ask"), ('"amount"', "ask"),
        ],
    )  # fmt: skip
    def test_what_is_asked_of_one_call(self, text: str, says: str) -> None:
        assert action(SPENDING, call(parse(text))) == says

    @each("where", [{"amount": {"le": 100}}, {"amount": {"ge": 0, "le": 100}}])
    @each(
        ("text", "plain"),
        [('{"amount": "100"}', False), ('{"amount": 1e2}', True), ('{"amount": 100.0000001}', False),
         ('{"amount": [100]}', False), ('{"amount": "\\uff11"}', False), ("{}", False), ('{"amount": true}', False)],
    )  # fmt: skip
    def test_a_predicate_agrees(self, where: dict[str, Any], text: str, plain: bool) -> None:
        policy = Policy(allow(tool="pay", where=where), default="ask")
        assert action(policy, call(parse(text))) == ("allow" if plain else "ask")

    def test_less_than_nothing_is_said_in_the_rule(self) -> None:
        at_most = allow(tool="pay", where={"amount": {"le": 100}})
        between = allow(tool="pay", where={"amount": {"ge": 0, "le": 100}})
        said = [action(Policy(rule, default="ask"), call({"amount": -5})) for rule in (at_most, between)]
        assert said == ["allow", "ask"], "'at most 100' means -5 too, and the manual says to name both ends"

    def test_sums_are_exact(self) -> None:
        tenths = Recorded(*[call({"amount": 0.1})] * 999)
        assert action(SPENDING, call({"amount": 0.1}, past=tenths)) == "allow", "a thousand times 0.1 is 100"
        assert action(SPENDING, call({"amount": 0.1}, past=Recorded(*[call({"amount": 0.1})] * 1_000))) == "ask"
        great = Policy(ask(over=Budget("amount", 2**53 + 1)), allow())
        assert action(great, call({"amount": 1}, past=Recorded(call({"amount": 2**53})))) == "allow"
        assert action(great, call({"amount": 2}, past=Recorded(call({"amount": 2**53})))) == "ask"

    @pytest.mark.parametrize("amount", ["40", None, [1], True, {}])
    def test_after_a_call_that_nobody_can_count_every_other_asks(self, amount: Any) -> None:
        assert action(SPENDING, call({"amount": 1}, past=Recorded(call({"amount": amount})))) == "ask"

    def test_what_came_back_gives_no_room(self) -> None:
        past = Recorded(call({"amount": -1_000}), call({"amount": 60}))
        assert action(SPENDING, call({"amount": 40}, past=past)) == "allow"
        assert action(SPENDING, call({"amount": 41}, past=past)) == "ask"

    @given(st.lists(st.decimals(0, 100, places=2), max_size=8), st.decimals(0, 100, places=2))
    def test_it_is_the_sum_and_nothing_else(self, spent: list[Decimal], asked: Decimal) -> None:
        past = Recorded(*(call({"amount": float(amount)}) for amount in spent))
        within = sum(spent, asked) <= 100
        assert action(SPENDING, call({"amount": float(asked)}, past=past)) == ("allow" if within else "ask")


def test_a_budget_goes_into_objects() -> None:
    policy = Policy(ask(over=Budget("order.total", 10)), allow())
    assert action(policy, call({"order": {"total": 10}})) == "allow"
    assert action(policy, call({"order": {"total": 10}, "order.total": 1})) == "ask", "which of them counts?"
    with pytest.raises(UserError, match="500 characters"):
        Budget("a." * 250 + "a", 10)


def test_a_rule_counts_the_calls_that_it_is_about() -> None:
    euros = ask(tool="pay", where={"currency": "EUR"}, agent="desk", risk="high", over=Calls(1))
    same: dict[str, Any] = {"params": {"currency": "EUR"}, "risk": "high"}
    others = [
        call({"currency": "USD"}, risk="high"), call(**same, tool="look"), call(**same, agent="x", path="y"),
        call({"currency": "EUR"}, risk="low"), call({"currency": "EUR"}),
    ]  # fmt: skip
    assert euros.verdict(call(**same, past=Recorded(*others))) is None
    assert euros.verdict(call(**same, past=Recorded(*others, call(**same)))) is not None


@each(("most", "ran", "over"), [(0, 0, True), (1, 0, False), (1, 1, True), (3, 2, False), (3, 4, True)])
@each("per", [None, "1h"])
def test_so_many_calls_and_no_more(most: int, ran: int, over: bool, per: str | None) -> None:
    verdict = deny(over=Calls(most, per)).verdict(call(past=Recorded(*[call()] * ran)))
    assert (verdict is not None) is over


def test_a_stretch_of_time_moves_with_the_call() -> None:
    policy = Policy(deny(over=Calls(2, per="10m")), allow())
    past = Recorded(call(at=NOW - 9 * MINUTE), call(at=NOW - 10 * MINUTE), call(at=NOW - 11 * MINUTE))
    assert action(policy, call(past=past)) == "allow", "what is ten minutes old has left the stretch"
    assert action(policy, call(past=past, at=NOW - 1)) == "deny"
    spending = Policy(ask(over=Budget("amount", 100, per="10m")), allow())
    assert action(spending, call({"amount": 50}, past=past)) == "allow"
    assert action(spending, call({"amount": 51}, past=past)) == "ask"


def test_the_breaker_opens_after_so_many_rejections_of_the_same_call() -> None:
    policy = Policy(deny(over=Rejections(2)), ask())
    ada, bob = call({"to": "ada", "amount": 5}), call({"to": "bob", "amount": 5})
    for rejected, says in (((ada,), "ask"), ((ada, bob), "ask"), ((ada, bob, ada), "deny")):
        asked = call({"amount": 5, "to": "ada"}, past=Recorded(rejected=rejected))
        assert action(policy, asked) == says
    other = call({"to": "ada", "amount": 5}, tool="send", past=Recorded(rejected=(ada, ada)))
    assert action(policy, other) == "ask"
    assert action(policy, call({"to": "ada", "amount": 5.0}, past=Recorded(rejected=(ada, ada)))) == "ask"


def test_or_of_any_call_of_the_same_tool() -> None:
    policy = Policy(deny(tool="pay", over=Rejections(2, same="tool")), ask())
    past = Recorded(rejected=(call({"to": "ada"}), call({"to": "bob"})))
    verdict = policy(call({"to": "cy"}, past=past), None)
    assert verdict == Verdict(
        "deny",
        "calls of this tool were rejected 2 times and are now denied; do not make one again",
        by="policy:1",
    )
    assert action(policy, call({"to": "cy"}, kind="mcp", past=past)) == "ask", "the same name is not the same tool"


def test_the_breaker_holds_back_nothing_that_a_person_approved() -> None:
    past = Recorded(rejected=(call(), call()))
    policy = Policy(deny(over=Rejections(1)))
    assert (action(policy, call(past=past)), action(policy, call(past=past, approved=True))) == ("deny", None)


def test_a_reason_of_the_rule_comes_first_and_none_tells_an_amount() -> None:
    over = Budget("amount", 10)
    verdict = ask(over=over).verdict(call({"amount": 12345}))
    assert verdict == Verdict("ask", "over the budget of 10 for 'amount' in this run", by="policy")
    mine = ask(over=over, reason="ask Ann").verdict(call())
    assert mine is not None
    assert mine.reason == "ask Ann"
    assert Calls(3).over == "over the limit of 3 calls in this run"
    assert Calls(3, per=90).over == "over the limit of 3 calls in 90s"
    assert "rejected once" in Rejections(1).over


def test_a_limit_that_cannot_be_checked_asks() -> None:
    bare = CallView("pay", "function", "desk", {"amount": 5}, digest="5e1f", call_id="c")
    for rule in (ask(over=Calls(9)), deny(over=Calls(9)), deny(over=Rejections(9), stop=True)):
        assert Policy(rule, allow())(bare, None) == Verdict("ask", "the rule's limit raised UserError", by="policy:1")


def test_a_policy_says_whether_it_counts() -> None:
    assert Policy(ask(over=Calls(1)), allow()).counts
    assert not Policy(allow(tool="look"), default="ask").counts


@each(
    "made",
    [lambda: Calls(-1), lambda: Calls(True), lambda: Calls("3"), lambda: Calls(2.5), lambda: Calls(3, per="soon"),
     lambda: Calls(3, per=0), lambda: Budget("", 5), lambda: Budget("a..b", 5), lambda: Budget(5, 5),
     lambda: Budget("a", -1), lambda: Budget("a", True), lambda: Budget("a", "5"), lambda: Budget("a", float("nan")),
     lambda: Budget("a", float("inf")), lambda: Budget("a", Decimal("sNaN")), lambda: Budget("a", None),
     lambda: Budget("a", 5, per=-1), lambda: Rejections(0), lambda: Rejections(True),
     lambda: Rejections(2, same="args"),
     lambda: ask(over=5), lambda: ask(over="3 per hour"), lambda: allow(over=Calls(3)),
     lambda: ask(over=Calls(3), when=lambda _call, _context: True), lambda: ask(stop=True), lambda: allow(stop=True),
     lambda: deny(stop=1), lambda: Verdict("ask", stop=True)],
)  # fmt: skip
def test_a_limit_that_could_not_be_kept_is_refused(made: Any) -> None:
    with pytest.raises(UserError):
        made()


@each(
    ("above", "limit", "hidden"),
    [({"tool": "pay"}, {"tool": "pay"}, True), ({}, {"tool": "pay"}, True), ({"tool": "p*"}, {"tool": "pay"}, True),
     ({"tool": "*"}, {"tool": "p*"}, True), ({"tool": "pay"}, {"tool": "p*"}, False), ({"tool": "x"}, {}, False),
     ({"tool": "pay", "where": {"amount": 5}}, {"tool": "pay"}, False), ({"risk": "low"}, {"tool": "pay"}, False),
     ({"tool": "pay", "where": {"a": 5}}, {"tool": "pay", "where": {"a": 5}}, True),
     ({"tool": "pay", "when": lambda _call, _context: True}, {"tool": "pay"}, False),
     ({"agent": "desk"}, {"tool": "pay"}, False), ({"kind": "mcp"}, {"kind": "mcp"}, True)],
)  # fmt: skip
def test_a_limit_that_nothing_reaches_is_refused(above: dict[str, Any], limit: dict[str, Any], hidden: bool) -> None:
    rules = allow(**above), ask(**limit, over=Calls(3))
    Policy(*reversed(rules))
    if not hidden:
        Policy(*rules)
        return
    with pytest.raises(UserError, match="rule 1 decides all calls that the limit of rule 2 is about"):
        Policy(*rules)


@pytest.mark.parametrize("per", [None, "1h"])
def test_each_call_of_the_past_is_parsed_and_measured_once(per: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """M7: limits with `per=` and the breaker parsed the whole past again for each call."""
    read = list[str]()

    def counting(text: str) -> Any:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(past_module, "parse", counting)
    policy = Policy(deny(over=Calls(999, per)), ask(over=Budget("n", 10**6, per)), deny(over=Rejections(999)), allow())
    totals: Totals = {}
    pen = asked(*[proposed(f"c{place}", "") for place in range(60)])
    for place in range(60):
        call = f"r/1.{place}"
        view = CallView("t", "kind", "A", {"n": 1}, "5e1f", call, at=pen.run.now)
        view = replace(view, past=RunPast(pen.run, call, str.upper, totals))
        verdict = policy(view)
        assert verdict is not None
        assert verdict.action == "allow"
        pen(cm.Screen(call, ASK if place % 2 else ALLOW))
        if place % 2:
            pen.decide("reject", call)
    assert len(read) <= 60, "each call was let run or rejected, and is parsed once for all rules"


def test_two_limits_may_stand_above_each_other() -> None:
    policy = Policy(
        deny(tool="pay", over=Budget("amount", 1_000)), ask(tool="pay", over=Budget("amount", 100)), allow()
    )
    past = Recorded(call({"amount": 90}), call({"amount": 900}))
    says = [action(policy, call({"amount": 5}, past=Recorded(*list(past.ran())[:count]))) for count in (0, 1, 2)]
    assert says == ["allow", "allow", "ask"]
    assert action(policy, call({"amount": 11}, past=past)) == "deny"


FILE = """
[[rules]]
action = "deny"
over = { rejections = 3, same = "tool" }
stop = true

[[rules]]
action = "deny"
tool = "send_*"
over = { calls = 20, per = "1h" }

[[rules]]
action = "ask"
tool = "pay"
over = { budget = "amount", most = 99.5 }
"""


def test_limits_in_an_operators_file() -> None:
    policy = Policy.from_toml(FILE)
    assert policy.rules == (
        Rule("deny", over=Rejections(3, same="tool"), stop=True),
        Rule("deny", tool="send_*", over=Calls(20, per="1h")),
        Rule("ask", tool="pay", over=Budget("amount", 99.5)),
    )


@each(
    ("over", "place"),
    [({}, "rule 1, over: this is a table with one of calls, budget, rejections"),
     ({"calls": 3, "budget": "a"}, "one of calls, budget, rejections"), (5, "one of calls, budget, rejections"),
     ({"call": 3}, "one of calls"), ({"calls": 3, "pre": "1h"}, "rule 1, over: unknown key 'pre'"),
     ({"calls": 3, "per": "soon"}, "rule 1, over: 'soon' is not a duration"), ({"budget": "a"}, "most is missing"),
     ({"calls": "3"}, "rule 1, over: a limit of calls"), ({"budget": "a", "most": "5"}, "rule 1, over: a budget")],
)  # fmt: skip
def test_what_a_file_gets_wrong_about_a_limit_is_refused(over: Any, place: str) -> None:
    with pytest.raises(UserError) as caught:
        Policy.from_dict({"rules": [{"action": "ask", "over": over}]})
    assert place in str(caught.value)
