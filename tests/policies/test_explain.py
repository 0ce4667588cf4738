"""An explanation says which rule decides, why, and what could not be told; it agrees with the verdict."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keyturn.core.policy import CallView
from keyturn.core.predicates.predicate import OPERATORS
from keyturn.policies.limits import Calls
from keyturn.policies.rule import Rule
from keyturn.policies.rules import Policy, allow, ask, deny
from tests.core.test_predicate import JSON
from tests.policies.test_limits import Recorded
from tests.table import each


def call(params: Any, **more: Any) -> CallView:
    seen: dict[str, Any] = {"kind": "function", "agent": "desk", "digest": "5e1f", "call_id": "c1", **more}
    return CallView("pay", params=params, **seen)


def test_each_rule_on_the_way_says_why_it_did_not_match() -> None:
    policy = Policy(
        deny(tool="drop"), deny(agent="other"), deny(kind="mcp"), deny(risk="high"),
        allow(where={"amount": {"gt": 0, "le": 100}}), deny(where={"to": {"one_of": ["eve"]}}),
        ask(over=Calls(3)), deny(when=lambda _call, _context: False), deny(where={"note": {"matches": "a+"}}),
        allow(), default="ask",
    )  # fmt: skip
    explained = policy.explain(call({"amount": "hunter2", "to": "ada", "note": 5}, past=Recorded()))
    assert str(explained).splitlines() == [
        "rule 1 (deny) does not match: it is about another tool",
        "rule 2 (deny) does not match: it is about another agent",
        "rule 3 (deny) does not match: it is about another kind",
        "rule 4 (deny) does not match: it is about another risk",
        "rule 5 (allow) does not match: cannot tell whether 'amount' is more: it is a text; "
        "cannot tell whether 'amount' is at most that: it is a text",
        "rule 6 (deny) does not match: 'to' is not listed",
        "rule 7 (ask) does not match: the call is within its limit",
        "rule 8 (deny) does not match: its condition does not hold",
        "rule 9 (deny) decides: cannot tell whether 'note' matches: it is a number",
    ]
    assert explained.rule is not None
    assert (explained.rule.number, explained.verdict) == (9, explained.rule.verdict)
    assert len(explained.untold) == 3
    assert "hunter2" not in repr(explained)


@each(
    ("policy", "says"),
    [
        (Policy(allow(tool="x")), "no rule matches; the tool's own setting applies"),
        (Policy(allow(tool="x"), default="deny"), "no rule matches; the default is deny"),
        (Policy(deny()), "rule 1 (deny) decides: it is about every such call"),
        (Policy(ask(where={"to": "ada", "n": {"ge": 5}})),
         "rule 1 (ask) decides: 'to' is equal; 'n' is at least that"),
        (Policy(deny(over=Calls(0))), "rule 1 (deny) decides: over the limit of 0 calls in this run"),
        (Policy(deny(when=lambda _call, _context: True)), "rule 1 (deny) decides: its condition holds"),
        (Policy(allow(when=lambda _call, context: context["limit"])),
         "rule 1 (allow) decides: the rule's condition raised TypeError"),
        (Policy(deny(), shadow=True), "rule 1 (deny) decides: it is about every such call"),
    ],
)  # fmt: skip
def test_what_decides_says_what_it_rests_on(policy: Policy, says: str) -> None:
    explained = policy.explain(call({"to": "ada", "n": 5}, past=Recorded()))
    assert str(explained).splitlines()[-1] == says
    assert not policy.shadowed


WHERE = st.dictionaries(
    st.sampled_from(["x", "x.y", "a.b.c"]),
    st.dictionaries(st.sampled_from([*OPERATORS, "unknown"]), JSON, max_size=2) | JSON,
    max_size=2,
)
PARAMS = st.dictionaries(st.sampled_from(["x", "X", "x.y", "a"]), JSON, max_size=3) | JSON


@given(st.lists(st.tuples(st.sampled_from(["allow", "ask", "deny"]), WHERE), max_size=4), PARAMS)
def test_it_never_raises_and_says_what_the_policy_says(rules: list[tuple[Any, Any]], params: Any) -> None:
    made: list[Rule] = []
    for action, where in rules:
        rule = Rule(action)
        object.__setattr__(rule, "where", where)  # also what no rule would take, as an older log may hold it
        made.append(rule)
    policy = Policy(*made, default="ask")
    explained = policy.explain(call(params))
    assert explained.verdict == policy(call(params))
    assert str(explained)
