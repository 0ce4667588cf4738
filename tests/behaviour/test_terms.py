"""How long a request and an approval are good, and which terms need people who log in."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    Approval,
    Expired,
    KeyturnError,
    RunState,
    UserError,
    Verdict,
    function_tool,
)
from keyturn.core.encodable import moment
from keyturn.core.events import CallDecided, CallFinished, CallScreened, CallVoided
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.playing import (
    HOUR,
    Carry,
    Clock,
    Effects,
    Run,
    call,
    events,
    fresh,
    labels,
    look_tool,
    pay_tool,
    payer_of_two,
    told,
)

# ---------------------------------------------------------------------------------------------- 28: as time passes


async def timed(run: Run, agent: Agent[Any], clock: Clock) -> Any:
    return await run(agent, fresh(agent, clock=clock))


async def on_time(carry: Carry, agent: Agent[Any], state: RunState[Any], clock: Clock) -> RunState[Any]:
    carried = await carry(agent, state)
    carried.live.clock = clock
    return carried


async def test_a_request_expires_and_is_rejected_once(run: Run, carry: Carry, effects: Effects) -> None:
    """One millisecond late is late; the model is told, the run goes on."""
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(expires="1h"))
    result = await timed(run, agent, clock)
    [item] = result.interruptions
    assert item.expires_at == moment(clock.now + HOUR)
    clock.pass_ms(HOUR + 1)
    state = await on_time(carry, agent, result.to_state(), clock)
    for decide in (state.approve, state.reject):
        with pytest.raises(Expired):
            decide(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", [])
    assert told(agent.model) == [("c1", "Tool execution was not approved in time.")]
    assert len(events(result, CallDecided)) == len(events(result, CallFinished)) == 1


async def test_a_decision_at_the_last_millisecond_counts(run: Run, carry: Carry, effects: Effects) -> None:
    """Delivered in time, it counts."""
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(expires="1h"))
    result = await timed(run, agent, clock)
    clock.pass_ms(HOUR)
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    result = await run(agent, await on_time(carry, agent, state, clock))
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])


async def test_a_decision_that_is_delivered_too_late_does_not_count(run: Run, carry: Carry, effects: Effects) -> None:
    """M1: the time that counts is the journal's at delivery. It is refused once, and the run goes on from there."""
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(expires="1h"))
    result = await timed(run, agent, clock)
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    clock.pass_ms(HOUR + 1)
    state = await on_time(carry, agent, state, clock)
    with pytest.raises(Expired):
        await run(agent, state)
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", [])


async def test_only_the_request_that_ran_out_is_rejected(run: Run, carry: Carry, effects: Effects) -> None:
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada"), call("slow_pay", "c2", to="bob")])
    agent.tools = [
        pay_tool(effects, approval=Approval(expires="1h")),
        pay_tool(effects, "slow_pay", approval=Approval(expires="2h")),
    ]
    result = await timed(run, agent, clock)
    clock.pass_ms(HOUR + 1)
    result = await run(agent, await on_time(carry, agent, result.to_state(), clock))
    assert (labels(result), effects, len(agent.model.calls)) == (["c2"], [], 1)
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert effects == [("slow_pay", "bob", 5)]


async def test_a_clock_that_goes_back_neither_revives_nor_kills(run: Run, carry: Carry, effects: Effects) -> None:
    """Time never goes back in a log."""
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(expires="1h"))
    result = await timed(run, agent, clock)
    clock.pass_ms(-24 * HOUR)
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert effects == [("pay", "ada", 5)]


async def test_an_approval_that_was_not_used_in_time_asks_again(run: Run, carry: Carry, effects: Effects) -> None:
    """`execute_by`. The new request is a new request: it can be approved, and then the tool runs once."""
    clock = Clock()
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(execute_by="1h"))
    result = await timed(run, agent, clock)
    clock.pass_ms(100 * HOUR)
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    clock.pass_ms(HOUR + 1)
    state = await on_time(carry, agent, state, clock)
    result = await run(agent, state)
    assert (labels(result), effects, len(agent.model.calls)) == (["c1"], [], 1)
    assert "has expired" in result.interruptions[0].reason
    assert len(events(result, CallVoided)) == 1
    state = await on_time(carry, agent, result.to_state(), clock)
    state.approve(state.get_interruptions()[0])
    clock.pass_ms(HOUR)
    result = await run(agent, await on_time(carry, agent, state, clock))
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])


# ------------------------------------------------------------------------------------- 36: what needs an inbox

PEOPLE = {
    "quorum": Approval(quorum=2),
    "role": Approval(role="treasurer"),
    "users": Approval(users=("ann",)),
    "another person": Approval(not_requester=True),
    "step-up": Approval(step_up=True),
}


@pytest.mark.parametrize("terms", PEOPLE.values(), ids=PEOPLE.keys())
async def test_terms_that_need_people_who_log_in_are_refused_before_anything_runs(
    run: Run, effects: Effects, terms: Approval
) -> None:
    """On the root, on an agent it hands over to, and on a nested one."""
    inner = Agent("inner", model=ScriptedModel([]), tools=[pay_tool(effects, approval=terms)])
    outers = [
        Agent("a", model=ScriptedModel([]), tools=[pay_tool(effects, approval=terms)]),
        Agent("a", model=ScriptedModel([]), handoffs=[inner]),
        Agent("a", model=ScriptedModel([]), tools=[inner.as_tool("ask_inner", "Asks.")]),
    ]
    for agent in outers:
        with pytest.raises(UserError, match="inbox"):
            await run(agent, "go")
        assert agent.model.calls == []
    assert effects == []


async def test_free_text_names_never_make_a_quorum(run: Run, effects: Effects) -> None:
    """Nor where the terms come from a policy, which is asked only once the run is on its way."""
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")])

    def policy(_view: Any, _context: Any) -> Verdict:
        return Verdict("ask", terms=Approval(quorum=2))

    try:
        state = (await run(agent, "go", policy=policy)).to_state()
        for name in ("ann", "bob"):
            state.approve(state.get_interruptions()[0], by=name)
            await run(agent, state, policy=policy)
    except KeyturnError:
        pass
    assert effects == []


async def test_terms_of_time_alone_need_no_inbox(run: Run, effects: Effects) -> None:
    agent = payer_of_two(effects, [call("pay", "c1", to="ada")], approval=Approval(expires="4h", execute_by="1h"))
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (effects, len(events(result, CallScreened))) == ([("pay", "ada", 5)], 2)


async def test_an_approval_alone_asks(run: Run, effects: Effects) -> None:
    """Terms without `needs_approval` ask, and beside them nobody else does."""
    agent = payer_of_two(
        effects, [call("pay", "c1", to="ada"), call("look", "c2")], needs_approval=False, approval=Approval()
    )
    agent.tools.append(look_tool(effects))
    assert labels(await run(agent, "go")) == ["c1"]
    assert effects == [("look", "sky")]


async def test_a_required_reason_is_required(run: Any) -> None:
    """28, terms: a decision without the reason that its terms ask for is refused, and nothing is lost."""
    ran: list[int] = []

    @function_tool(approval=Approval(reason="required"))
    async def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    agent = Agent("a", model=ScriptedModel([[function_call("pay", {"amount": 3}, call_id="c1")], "done"]), tools=[pay])
    state = (await run(agent, "go")).to_state()
    with pytest.raises(UserError, match="requires a reason"):
        state.approve(state.get_interruptions()[0])
    assert (len((await run(agent, state)).interruptions), ran) == (1, [])
    state.approve(state.get_interruptions()[0], note="checked the invoice")
    result = await run(agent, state)
    assert (ran, result.final_output) == ([3], "done")
