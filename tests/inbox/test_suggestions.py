"""Suggested rules: what they state is what they do, over the very requests that they were made from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from keyturn import MemoryJournal, Policy
from keyturn.core.policy import CallView
from keyturn.inbox.insights import Insights
from keyturn.inbox.replayed import Suggestion
from keyturn.inbox.suggestions import FEWEST, suggest
from keyturn.journal.rows import Changes, RequestRow, RunRow
from tests.effort import some

SECRET = "hunter2"


def row(number: int, params: Any, state: str = "approve", by: str = "ada", **body: Any) -> RequestRow:
    told = json.dumps({"params": params, "verdicts": ["approve"], **body})
    asked = RequestRow(f"{number:032x}", "run", "r/1.0", "approval", "pay", "desk", "d", number, body=told)
    return replace(asked, state=state, closed_at=number + 5, by=by)


def paid(*amounts: float, state: str = "approve", **body: Any) -> list[RequestRow]:
    return [row(number, {"amount": amount}, state, **body) for number, amount in enumerate(amounts)]


def let_by(suggestion: Suggestion, rows: list[RequestRow]) -> list[RequestRow]:
    """The requests that a policy of this text alone lets run."""
    policy = Policy.from_toml(suggestion.policy)
    calls = [(each, CallView("pay", "function", "desk", json.loads(each.body)["params"], "", "c")) for each in rows]
    return [each for each, call in calls if (said := policy(call)) is not None and said.action == "allow"]


def test_what_was_always_approved_is_suggested_with_its_count() -> None:
    rows = paid(*range(1, 121))
    made = suggest("pay", "desk", rows)
    assert made is not None
    assert made.says == "120 of 120 approved unchanged: this rule would have saved 120"
    assert made.where == {"amount": {"ge": 1, "le": 120}}
    assert len(let_by(made, rows)) == 120


def test_what_was_rejected_bounds_what_is_suggested() -> None:
    rows = [*paid(*range(1, 101)), *paid(*range(81, 200, 7), state="reject")]
    made = suggest("pay", "desk", rows)
    assert made is not None
    assert (made.decided, made.approved, made.saves) == (117, 100, 80)
    assert made.where == {"amount": {"ge": 1, "le": 80}}
    assert {each.state for each in let_by(made, rows)} == {"approve"}


@pytest.mark.parametrize("state", ["reject", "edit", "expire", "void", "answer", "asked_back", "damaged"])
def test_one_that_was_not_approved_among_all_of_them_leaves_nothing_to_suggest(state: str) -> None:
    assert suggest("pay", "desk", [*paid(*[5] * 100), *paid(5, state=state)]) is None


@pytest.mark.parametrize("terms", [{"quorum": 2}, {"signed": True}, {"step_up": True}, {"confirm": True}])
def test_where_one_word_is_not_enough_nothing_is_suggested(terms: dict[str, Any]) -> None:
    assert suggest("pay", "desk", paid(*[5] * 100)) is not None
    assert suggest("pay", "desk", paid(*[5] * 100, terms=terms)) is None


@pytest.mark.parametrize(
    "free",
    ["rm -rf /srv", "select * from t where id = {}", "a\nb", "x" * 65, ["list"], {"of": "objects"}, None, "../{}"],
)
def test_an_argument_that_could_hold_anything_leaves_nothing_to_suggest(free: Any) -> None:
    """A bound on `timeout` is none on what `command` runs."""
    given = [free.format(number) if isinstance(free, str) else free for number in range(100)]
    rows = [row(number, {"n": number, "what": f"{each}{number}" if isinstance(free, str) else each})
            for number, each in enumerate(given)]  # fmt: skip
    assert suggest("pay", "desk", rows) is None


def test_a_tool_that_is_a_shell_is_never_suggested() -> None:
    assert suggest("shell", "desk", paid(*[5] * 100, tool_kind="shell")) is None


def test_names_that_a_rule_would_read_as_patterns_are_left_out() -> None:
    assert suggest("pay*", "desk", paid(*[5] * 100)) is None
    assert suggest("pay", "desk*", paid(*[5] * 100)) is None


def test_what_grants_let_run_is_nobodys_judgement() -> None:
    """And somebody whose name looks like a grant's does not make their rejection unheard."""
    granted = [replace(each, by="grant:g1") for each in paid(*[5] * 100)]
    assert suggest("pay", "desk", granted) is None
    odd = replace(paid(5, state="reject")[0], by="grant:eve")
    assert suggest("pay", "desk", [*paid(*[5] * 100), odd]) is None


def test_free_arguments_are_named() -> None:
    rows = [row(number, {"to": f"person{number}@example.org", "amount": 5, "memo": "rent"}) for number in range(40)]
    made = suggest("pay", "desk", rows)
    assert made is not None
    assert (made.where.keys(), made.free) == ({"amount", "memo", "to"}, ["to"])
    wanted = [{"to": to, "amount": 5, "memo": "rent"} for to in ("person7@example.com", "x; rm -rf /srv")]
    assert [bool(let_by(made, [row(0, each)])) for each in wanted] == [True, False]


AMOUNTS = st.one_of(st.integers(-5, 12), st.sampled_from([0.5, 1e22, -0.0, 1e-9, 2**70, True, False]))
TEXTS = st.sampled_from(["ada", "bob", 'a"b\\', "ünï\u0007", "\x7f", "x.y", "", "[[rules]]"])
PARAMS = st.fixed_dictionaries(
    {"amount": AMOUNTS},
    optional={"to": TEXTS, "odd key": st.sampled_from([1, "x"]), "pin": st.just(SECRET), "a.b": st.just(1)},
)
DECIDED = st.lists(
    st.tuples(PARAMS, st.sampled_from(["approve"] * 12 + ["reject", "edit", "expire"])), min_size=1, max_size=6
)


@settings(max_examples=some(300))
@given(kinds=DECIDED, times=st.integers(4, 30))
def test_a_suggestion_lets_run_exactly_what_it_states_and_nothing_that_was_not_approved(
    kinds: list[tuple[dict[str, Any], str]], times: int
) -> None:
    rows = [row(number, params, state, secrets=["pin"]) for number, (params, state) in enumerate(kinds * times)]
    made = suggest("pay", "desk", rows)
    if made is None:
        return
    let = let_by(made, rows)
    assert len(let) == made.saves >= FEWEST
    assert {each.state for each in let} == {"approve"}
    assert made.approved == sum(each.state == "approve" for each in rows)
    assert made.decided == len(rows)
    assert "pin" not in made.where
    assert SECRET not in made.policy
    assert set(made.free) | made.where.keys() == {name for each in rows for name in json.loads(each.body)["params"]}


# From a store -------------------------------------------------------------------------------------------------------


async def kept(rows: list[RequestRow]) -> MemoryJournal:
    store = MemoryJournal()
    await store.append("run", 0, [b"1"], None, Changes(RunRow("run", "desk", "finished", 0, 0), rows))
    return store


async def test_the_newest_decided_requests_of_each_tool_are_looked_at() -> None:
    old = [replace(each, id=f"old {each.id}", state="reject", asked_at=1) for each in paid(*[5] * 30)]
    new = [replace(each, asked_at=10 + each.asked_at) for each in paid(*[5] * 30)]
    open = replace(paid(5)[0], id="open", state="open", asked_at=10_000)
    other = [replace(each, id=f"other {each.id}", tool="send") for each in new]
    insights = Insights(await kept([*old, *new, open, *other]))
    assert [each.tool for each in await insights.suggestions()] == ["send"]
    assert [each.tool for each in await insights.suggestions(newest=30)] == ["pay", "send"]
    assert [each.saves for each in await insights.suggestions(tool="pay", newest=25)] == [25]
    assert await insights.suggestions(tool="none") == []


async def test_where_rows_were_altered_nothing_is_suggested() -> None:
    """What an altered row was cannot be said: it may be a rejection, of any tool."""
    altered = replace(paid(5)[0], id="altered", tool="", agent="", state="damaged")
    assert await Insights(await kept([*paid(*[5] * 30), altered])).suggestions() == []
