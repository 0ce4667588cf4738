"""What a standing decision covers, for how long, and what it never covers."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, Grant, RunState, UserError, function_tool
from keyturn.core import commands as cm
from keyturn.core.decide import step
from keyturn.core.errors import NotPending
from keyturn.core.events import CallDecided, GrantGiven, GrantUsed, Step
from keyturn.testing import approve_all
from tests.playing import (
    HOUR,
    Carry,
    Clock,
    Effects,
    Run,
    call,
    events,
    fresh,
    item_of,
    labels,
    pay_tool,
    raw_call,
    script,
    told,
)
from tests.table import each


def rounds(effects: Effects, *replies: Any, **options: Any) -> Agent[Any]:
    """An agent that pays in each of these replies, then is done."""
    return Agent("a", model=script(*replies, "done"), tools=[pay_tool(effects, **options)])


def pays(label: str, to: str = "ada", **more: Any) -> list[Any]:
    return [call("pay", label, to=to, **more)]


# -------------------------------------------------------------------------------------------- 8: always, and alike


async def test_always_approve_covers_what_waits_and_what_comes(run: Run, carry: Carry, effects: Effects) -> None:
    """The waiting siblings now, later calls without asking; each use is recorded."""
    first = [*pays("c1"), *pays("c2", "bob"), *pays("c3", "eve")]
    agent = rounds(effects, first, pays("c4", amount=1_000_000), pays("c5"))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c2"), always_approve=True, by="ann")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, len(effects)) == ("done", 5)
    assert [event.grant.by for event in events(result, GrantGiven)] == ["ann"]
    assert len(events(result, GrantUsed)) == 4, "the call approved now is not a use"


async def test_always_reject_covers_what_waits_and_what_comes(run: Run, carry: Carry, effects: Effects) -> None:
    """And its words go with it."""
    agent = rounds(effects, [*pays("c1"), *pays("c2")], pays("c3"))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.reject(item_of(state, "c1"), always_reject=True, rejection_message="never")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, effects) == ("done", [])
    assert told(agent.model) == [("c1", "never"), ("c2", "never"), ("c3", "never")]


async def test_a_grant_survives_a_later_pause_and_its_text(run: Run, effects: Effects) -> None:
    agent = Agent(
        "a",
        model=script(pays("c1"), [call("wire", "w1", to="bob")], pays("c2"), [call("wire", "w2", to="bob")], "done"),
        tools=[pay_tool(effects), pay_tool(effects, "wire")],
    )
    result = await run(agent, "go")
    state = result.to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    for expected in (["w1"], ["w2"], []):
        state = await RunState.from_string(agent, state.to_string())
        result = await run(agent, state)
        assert labels(result) == expected
        state = approve_all(result)
    assert [name for name, _, _ in effects] == ["pay", "wire", "pay", "wire"]


async def test_a_grant_that_is_not_delivered_yet_survives_a_save(run: Run, effects: Effects) -> None:
    """It stands with the decision it came with."""
    agent = rounds(effects, pays("c1"), pays("c2"))
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), grant=Grant(where={"to": "ada"}, uses=1, expires="1h"))
    loaded = await RunState.from_string(agent, state.to_string())
    assert loaded.grants == state.grants != []
    assert (await run(agent, loaded)).final_output == "done"
    assert len(effects) == 2


# -------------------------------------------------------------------------------------- 8: where, uses, expires


async def test_a_predicate_is_compared_by_type_after_validation(run: Run, carry: Carry, effects: Effects) -> None:
    """What the schema makes of the model's text is what is compared."""

    async def pay(to: str, amount: float | str | list[int] | None = None, extra: Any = None) -> str:
        """Pay."""
        effects.append(amount)
        return "ok"

    spellings = {
        "c1": ("100", True),
        "c2": ("1e2", True),
        "c3": ("100.0", True),
        "c4": ("-5", True),
        "c5": ("100.0000001", False),
        "c6": ('"100"', False),
        "c7": ("[100]", False),
        "c8": ("null", False),
        "c9": ('"\\u0661\\u0660"', False),
        "c10": ("1e300", False),
    }
    reply = [raw_call("pay", "c0", '{"to":"ada","amount":1}')]
    reply += [raw_call("pay", label, f'{{"to":"ada","amount":{text}}}') for label, (text, _) in spellings.items()]
    reply += [raw_call("pay", "c11", '{"to":"ada"}'), raw_call("pay", "c12", '{"to":"Ada","amount":1}')]
    tool = function_tool(pay, needs_approval=True, strict_mode=False)
    agent = Agent("a", model=script(reply[:1], reply[1:], "done"), tools=[tool])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c0"), grant=Grant(where={"to": "ada", "amount": {"le": 100}}))
    result = await run(agent, state)
    assert labels(result) == [label for label, (_, fits) in spellings.items() if not fits] + ["c11", "c12"]
    assert len(effects) == 1 + sum(fits for _, fits in spellings.values())


async def test_a_predicate_covers_waiting_siblings_that_fit_and_only_those(
    run: Run, carry: Carry, effects: Effects
) -> None:
    first = [*pays("c1", amount=10), *pays("c2", amount=100), *pays("c3", amount=101), *pays("c4", "bob", amount=1)]
    agent = rounds(effects, first)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), grant=Grant(where={"to": "ada", "amount": {"gt": 0, "le": 100}}))
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["c3", "c4"], 2)


async def test_uses_count_other_calls_and_run_out(run: Run, carry: Carry, effects: Effects) -> None:
    """Not the one approved now; the waiting ones first, in the order of the calls."""
    agent = rounds(effects, [*pays("c1"), *pays("c2"), *pays("c3")], pays("c4"))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c3"), grant=Grant(uses=1))
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["c2"], 2)
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "c2"))
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["c4"], 3)


async def test_a_grant_expires(run: Run, carry: Carry, effects: Effects) -> None:
    """Counted from when it was given, by the clock of the run."""
    clock = Clock()

    async def wait(hours: int) -> str:
        clock.pass_ms(hours * HOUR)
        return "waited"

    agent = rounds(
        effects, pays("c1"), [call("wait", "w1", hours=1)], pays("c2"), [call("wait", "w2", hours=1)], pays("c3")
    )
    agent.tools.append(function_tool(wait))
    state = await carry(agent, (await run(agent, fresh(agent, clock=clock))).to_state())
    state.live.clock = clock
    state.approve(item_of(state, "c1"), grant=Grant(expires="90m"))
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["c3"], 2)


async def test_a_grant_can_be_revoked(run: Run, effects: Effects) -> None:
    """On the log; later calls ask again, and to revoke it twice is an error."""
    agent = rounds(effects, pays("c1"), [call("wire", "w1", to="bob")], pays("c2"))
    agent.tools.append(pay_tool(effects, "wire"))
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    state = (await run(agent, state)).to_state()
    live = state.live
    grant = state.grants[0].id
    live.log.append(Step(live.clock(), step(live.run, cm.Revoke(grant, "ann"), live.clock())))
    with pytest.raises(NotPending, match="grant"):
        step(live.run, cm.Revoke(grant, "ann"), live.clock())
    state.moved(len(live.log))
    state.approve(item_of(state, "w1"))
    result = await run(agent, state)
    assert (labels(result), len(effects), result.to_state().grants) == (["c2"], 2, [])


@each(
    "words",
    [
        {"where": {"amount": {"atmost": 5}}},
        {"where": {"to": {"matches": "("}}},
        {"uses": 0},
        {"uses": -1},
        {"uses": 1.5},
        {"uses": True},
        {"expires": "soon"},
        {"expires": -1},
        {"expires": 0},
        {"expires": float("inf")},
    ],
    ids=repr,
)
def test_a_grant_that_means_nothing_is_refused_when_it_is_made(words: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Grant(**words)


async def test_a_callers_predicate_is_not_kept_by_reference(run: Run, effects: Effects) -> None:
    """What is changed after it was given changes nothing."""
    agent = rounds(effects, pays("c1", amount=1), pays("c2", amount=500))
    state = (await run(agent, "go")).to_state()
    where: dict[str, Any] = {"amount": {"le": 100}}
    state.approve(item_of(state, "c1"), grant=Grant(where=where))
    where["amount"]["le"] = 1_000_000
    assert labels(await run(agent, state)) == ["c2"]


# --------------------------------------------------------------------------------------- 9: the exact call is first


@pytest.mark.parametrize("standing", ["approve", "reject"])
async def test_a_decision_for_the_exact_call_beats_a_grant_of_the_same_delivery(
    run: Run, carry: Carry, effects: Effects, standing: str
) -> None:
    """Whichever was said first."""
    for grant_first in (True, False):
        effects.clear()
        agent = rounds(effects, [*pays("c1"), *pays("c2", "bob"), *pays("c3", "eve")])
        state = await carry(agent, (await run(agent, "go")).to_state())
        always = {"always_approve": True} if standing == "approve" else {"always_reject": True}
        exact = "reject" if standing == "approve" else "approve"
        steps = [
            lambda: getattr(state, standing)(item_of(state, "c1"), **always),  # noqa: B023 - called in this round
            lambda: getattr(state, exact)(item_of(state, "c2")),  # noqa: B023 - called in this round
        ]
        for act in steps if grant_first else reversed(steps):
            act()
        result = await run(agent, await carry(agent, state))
        assert result.final_output == "done"
        assert {to for _, to, _ in effects} == ({"ada", "eve"} if standing == "approve" else {"bob"})


async def test_the_newest_grant_counts(run: Run, carry: Carry, effects: Effects) -> None:
    """A person may change their mind about what comes."""
    agent = rounds(effects, pays("c1"), [*pays("c2"), call("wire", "w1", to="bob")], pays("c3"))
    agent.tools.append(pay_tool(effects, "wire"))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), grant=Grant(uses=1))
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["w1"], 2)
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "w1"), always_approve=True)
    result = await run(agent, state)
    assert labels(result) == ["c3"]
    state = await carry(agent, result.to_state())
    state.reject(item_of(state, "c3"), always_reject=True)
    result = await run(agent, state)
    assert (result.final_output, len(effects)) == ("done", 3)


# --------------------------------------------------------------------------------- 9: what a grant never covers


async def test_a_grant_never_covers_another_tool(run: Run, carry: Carry, effects: Effects) -> None:
    agent = rounds(effects, [*pays("c1"), call("wire", "w1", to="bob")])
    agent.tools.append(pay_tool(effects, "wire"))
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True)
    assert labels(await run(agent, state)) == ["w1"]
    assert len(effects) == 1


async def test_a_grant_never_covers_another_agents_tool_after_a_handoff(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """The very same tool object, in another agent's hands."""
    tool = pay_tool(effects)
    b = Agent("b", model=script(None, None, pays("c2"), "done"), tools=[tool])
    a = Agent("a", model=script(pays("c1"), [call("transfer_to_b", "h1")]), tools=[tool], handoffs=[b])
    state = await carry(a, (await run(a, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True)
    result = await run(a, state)
    assert (labels(result), result.interruptions[0].agent.name, len(effects)) == (["c2"], "b", 1)
    state = await carry(a, result.to_state())
    state.reject(item_of(state, "c2"))
    assert (await run(a, state)).final_output == "done"
    assert len(effects) == 1


@pytest.mark.parametrize("outer", ["a", "same name"])
async def test_a_nested_agent_never_inherits_a_grant(run: Run, carry: Carry, effects: Effects, outer: str) -> None:
    """Nor one of the same name with the same tool."""
    tool = pay_tool(effects)
    inner = Agent("same name", model=script(pays("i1"), "inner is done"), tools=[tool])
    ask = inner.as_tool("ask_inner", "Asks.")
    agent = Agent(outer, model=script(pays("c1"), [call("ask_inner", "n1", input="x")], "done"), tools=[tool, ask])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True)
    result = await run(agent, state)
    assert (labels(result), len(effects)) == (["i1"], 1)
    state = await carry(agent, result.to_state())
    state.approve(item_of(state, "i1"), always_approve=True)
    result = await run(agent, state)
    assert (result.final_output, len(effects)) == ("done", 2)


async def test_approving_the_delegation_approves_nothing_inside_it(run: Run, carry: Carry, effects: Effects) -> None:
    """Layer one is not layer two."""
    inner = Agent("inner", model=script(pays("i1"), "inner is done"), tools=[pay_tool(effects)])
    ask = inner.as_tool("ask_inner", "Asks.", needs_approval=True)
    agent = Agent("a", model=script([call("ask_inner", "n1", input="x")], "done"), tools=[ask])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "n1"), always_approve=True)
    result = await run(agent, state)
    assert (labels(result), effects) == (["i1"], [])
    state = await carry(agent, result.to_state())
    state.reject(item_of(state, "i1"))
    assert (await run(agent, state)).final_output == "done"
    assert effects == []


def changed(effects: Effects, what: str) -> Agent[Any]:
    """The same agent with a tool that is not quite the same."""
    replies = (pays("c1"), [call("wire", "w1", to="bob")], pays("c2"))

    async def pay(to: str, amount: int = 5) -> str:
        """Pay somebody."""
        effects.append(("pay", to, amount))
        return "paid"

    async def pay_more(to: str, amount: int = 5, memo: str = "") -> str:
        """Pay somebody."""
        effects.append(("pay", to, amount))
        return "paid"

    if what == "description":
        pay.__doc__ = "Pay somebody, and tell the world."
    tool = function_tool(pay_more if what == "schema" else pay, name_override="pay", needs_approval=True)
    return Agent("a", model=script(*replies, "done"), tools=[tool, pay_tool(effects, "wire")])


@pytest.mark.parametrize("what", ["nothing", "description", "schema"])
async def test_a_grant_dies_when_the_tool_changes(run: Run, effects: Effects, what: str) -> None:
    agent = changed(effects, "nothing")
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    state = (await run(agent, state)).to_state()
    assert labels(state) == ["w1"]
    other = changed(effects, what)
    state = await RunState.from_string(other, state.to_string())
    state.approve(item_of(state, "w1"))
    result = await run(other, state)
    assert labels(result) == ([] if what == "nothing" else ["c2"])
    assert len(effects) == (3 if what == "nothing" else 2)


async def test_a_grant_of_one_run_is_nothing_to_another(run: Run, effects: Effects) -> None:
    agent = rounds(effects, pays("c1"))
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"), always_approve=True)
    await run(agent, state)
    assert labels(await run(agent, "go again")) == ["c1"]
    assert len(effects) == 1


async def test_a_covered_call_is_recorded_as_decided_by_the_grant(run: Run, carry: Carry, effects: Effects) -> None:
    """Who decided what is never in doubt."""
    agent = rounds(effects, [*pays("c1"), *pays("c2")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True, by="ann")
    result = await run(agent, state)
    [given] = events(result, GrantGiven)
    assert [event.decision.by for event in events(result, CallDecided)] == ["ann", f"grant:{given.grant.id}"]
