"""A state is a handle on its run at a position, and what it approves happens once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    MemoryJournal,
    NotPending,
    Runner,
    RunState,
    UserError,
    function_tool,
)
from keyturn.engine.run.log_cache import forget
from keyturn.models.scripted.model import ScriptedModel
from keyturn.testing import approve_all
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    fresh,
    in_another_process,
    item_of,
    labels,
    look_tool,
    paused,
    pay_tool,
    payer,
    plain,
    read,
    script,
)
from tests.waiting import turns_of_the_loop

MARKER = "xyzzy-plugh"


# ----------------------------------------------------------------------------------------------- 17: single use


async def test_a_stale_copy_is_a_conflict(run: Run, carry: Carry, effects: Effects) -> None:
    """Two states of one result; the second to be resumed finds that the run went on."""
    agent = payer(effects)
    result = await run(agent, "go")
    one, other = await carry(agent, result.to_state()), await carry(agent, result.to_state())
    for state in (one, other):
        state.approve(item_of(state, "c1"))
    await run(agent, one)
    for _ in range(2):
        with pytest.raises(Conflict):
            await run(agent, other)
    with pytest.raises(Conflict):
        await run(agent, result)
    assert len(effects) == 1


async def test_one_text_can_be_resumed_once_in_a_process(run: Run, effects: Effects) -> None:
    """Also after every handle is gone, and with another decision."""
    agent = payer(effects)
    text = (await run(agent, "go")).to_state().to_string()
    for attempt in range(4):
        if attempt % 2:
            forget()
        state = await RunState.from_string(agent, text)
        if attempt == 3:
            state.reject(item_of(state, "c1"))
        else:
            state.approve(item_of(state, "c1"))
        if attempt == 0:
            await run(agent, state)
        else:
            with pytest.raises(Conflict):
                await run(agent, state)
        del state
    assert len(effects) == 1


@pytest.mark.parametrize("holders", ["one state", "two states", "two loads"])
async def test_resumes_at_once_have_one_effect(run: Run, effects: Effects, holders: str) -> None:
    """Of one state in hand, of several states of one result, of several loads of one text."""

    async def transfer(to: str) -> str:
        """Transfer money."""
        effects.append(to)
        await turns_of_the_loop(10)
        return "transferred"

    tool = function_tool(transfer, needs_approval=True)
    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[tool])
    result = await run(agent, "go")
    state, text = result.to_state(), result.to_state().to_string()
    makers: dict[str, Callable[[], Any]] = {"one state": lambda: state, "two states": result.to_state}
    states = [
        await RunState.from_string(agent, text) if holders == "two loads" else makers[holders]() for _ in range(5)
    ]
    for each in states:
        each.approve(item_of(each, "c1"))
    outcomes = await asyncio.gather(*(run(agent, each) for each in states), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes].count(Conflict) == 4
    assert (effects, len(agent.model.calls)) == (["ada"], 2)


async def test_a_live_state_that_is_resumed_again_returns_what_its_run_came_to(run: Run, effects: Effects) -> None:
    """One handle, resumed again once the run is over."""
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    for _ in range(3):
        assert (await run(agent, state)).final_output == "done"
    assert (len(effects), len(agent.model.calls)) == (1, 2)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Threads that take turns in the midst of everything."""
    patience = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(patience)


@pytest.mark.usefixtures("hasty_threads")
async def test_two_resumes_at_once_in_two_threads_have_one_effect(effects: Effects) -> None:
    """Who loads it while another drives it sees what was saved, and is refused when it resumes."""
    for _ in range(40):
        effects.clear()
        agent, state = await paused(effects)
        text = state.to_string()

        async def resume(agent: Agent[Any] = agent, text: str = text) -> Any:
            state = await RunState.from_string(agent, text)
            state.approve(item_of(state, "c1"))
            return await plain(agent, state)

        jobs = [asyncio.to_thread(asyncio.run, resume()) for _ in range(4)]
        outcomes = await asyncio.gather(*jobs, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(Conflict) == 3
        assert len(effects) == 1


async def test_a_state_that_is_loaded_while_its_run_goes_on_is_stale(run: Run, effects: Effects) -> None:
    """Loading asks for tools and may wait for them; what was saved is what is loaded, however long."""
    asked, free = asyncio.Event(), asyncio.Event()

    class Slow(Agent[Any]):
        async def get_all_tools(self, run_context: Any) -> list[Any]:
            asked.set()
            await free.wait()
            return await super().get_all_tools(run_context)

    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    text = state.to_string()
    slow = Slow("a", model=agent.model, tools=agent.tools)
    loading = asyncio.ensure_future(RunState.from_string(slow, text))
    await asked.wait()
    state.approve(item_of(state, "c1"))
    assert (await run(agent, state)).final_output == "done"
    free.set()
    late = await loading
    late.approve(item_of(late, "c1"))
    with pytest.raises(Conflict, match="stale"):
        await run(slow, late)
    assert len(effects) == 1


async def test_a_run_is_not_resumed_while_it_is_still_being_driven(run: Run, effects: Effects) -> None:
    """A state taken from a stream in the middle, while the first drive is at work."""
    held, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take time."""
        effects.append("slow")
        entered.set()
        await held.wait()
        return "slow"

    agent = payer(effects, [call("slow", "s1"), call("pay", "c1", to="ada")])
    agent.tools.append(function_tool(slow, idempotent=True))
    stream = Runner.run_streamed(agent, "go")
    await entered.wait()
    state = approve_all(stream)
    second = asyncio.ensure_future(run(agent, state))
    done, _ = await asyncio.wait([second], timeout=0.2)
    held.set()
    outcome = (await asyncio.gather(second, return_exceptions=True))[0]
    await read(stream)
    assert done, "it does not wait for the other drive"
    assert isinstance(outcome, Conflict)
    assert effects == ["slow"]
    assert labels(stream) == ["c1"]


async def test_a_state_from_the_middle_of_a_run_is_stale_once_the_run_went_on(run: Run, effects: Effects) -> None:
    """The run went on under its first drive; what ran since must not run again."""
    middle: list[Any] = []

    async def first() -> str:
        middle.append(stream.to_state().to_string())
        return "first"

    agent = Agent(
        "a",
        model=script([call("first", "f1")], [call("look", "l1")], [call("pay", "c1", to="ada")], "done"),
        tools=[function_tool(first, idempotent=True), look_tool(effects), pay_tool(effects)],
    )
    stream = Runner.run_streamed(agent, "go")
    await read(stream)
    assert (labels(stream), effects) == (["c1"], [("look", "sky")])
    state = await RunState.from_string(agent, middle[0])
    with pytest.raises(Conflict):
        await run(agent, state)
    assert effects == [("look", "sky")]


async def test_a_live_state_goes_on_after_the_provider_failed(run: Run, carry: Carry, effects: Effects) -> None:
    """From where the run stands now; the tool that ran does not run again."""
    model = ScriptedModel([[call("pay", "c1", to="ada")], OSError("the line is dead"), OSError("again"), "done"])
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    stale = state.to_string()
    state.approve(item_of(state, "c1"))
    for _ in range(2):
        with pytest.raises(OSError, match=r"dead|again"):
            await run(agent, state)
        assert (effects, labels(state)) == ([("pay", "ada", 5)], [])
    old = await RunState.from_string(agent, stale)
    old.approve(item_of(old, "c1"))
    with pytest.raises(Conflict):
        await run(agent, old)
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])


async def test_the_error_of_a_failed_run_carries_a_state_that_goes_on(run: Run, effects: Effects) -> None:
    """`error.run_data.to_state()`."""
    model = ScriptedModel([[call("pay", "c1", to="ada")], OSError("dead"), "done"])
    agent = Agent("a", model=model, tools=[pay_tool(effects)])
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    with pytest.raises(OSError, match="dead") as raised:
        await run(agent, state)
    result = await run(agent, raised.value.run_data.to_state())
    assert (result.final_output, effects) == ("done", [("pay", "ada", 5)])


async def test_a_run_in_hand_that_has_not_started_starts_once(run: Run, carry: Carry, effects: Effects) -> None:
    """`RunState(...)` is a handle as well, before and after it went through text."""
    agent = payer(effects)
    text = fresh(agent).to_string()
    one, other = await RunState.from_string(agent, text), await RunState.from_string(agent, text)
    result = await run(agent, one)
    assert labels(result) == ["c1"]
    with pytest.raises(Conflict):
        await run(agent, other)
    state = await carry(agent, one)
    state.approve(item_of(state, "c1"))
    assert (await run(agent, state)).final_output == "done"
    assert len(effects) == 1


async def test_a_finished_run_cannot_be_taken_back(run: Run, effects: Effects) -> None:
    agent = payer(effects)
    state = (await run(agent, "go")).to_state()
    item = item_of(state, "c1")
    state.approve(item)
    result = await run(agent, state)
    done = result.to_state()
    with pytest.raises(NotPending):
        done.approve(item)
    with pytest.raises(UserError):
        done.add_input("more")
    assert len(effects) == 1


# ------------------------------------------------------------------------- 17: with a journal that all processes share


async def test_workers_of_one_journal_have_one_effect(run: Run, effects: Effects) -> None:
    """The run is held by one of them; to the others that is a conflict that names it."""
    inside, free = asyncio.Event(), asyncio.Event()

    async def transfer(to: str) -> str:
        """Transfer money."""
        effects.append(to)
        inside.set()
        await free.wait()
        return "transferred"

    tool = function_tool(transfer, needs_approval=True)
    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[tool])
    journal = MemoryJournal()
    run_id = (await run(agent, "go", journal=journal)).run_id
    states = [await RunState.load(journal, run_id, agent) for _ in range(4)]
    for state in states:
        state.approve(item_of(state, "c1"), by="ann")
    first = asyncio.ensure_future(run(agent, states[0]))
    await inside.wait()
    for state in states[1:]:
        with pytest.raises(Conflict, match="held") as raised:
            await run(agent, in_another_process(state))
        assert raised.value.winner
    free.set()
    assert (await first).final_output == "done"
    assert effects == ["ada"]


@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_in_a_shared_journal_the_first_decision_stands(run: Run, effects: Effects, verdict: str) -> None:
    """A different one is a conflict that names the winner, when, and what."""
    agent, journal = payer(effects, [call("pay", "c1", to="ada"), call("pay", "c2", to="bob")]), MemoryJournal()
    run_id = (await run(agent, "go", journal=journal)).run_id
    first, late = [await RunState.load(journal, run_id, agent) for _ in range(2)]
    first.approve(item_of(first, "c1"), by="ann")
    await run(agent, first)
    getattr(late, verdict)(item_of(late, "c1"), by="bob")
    in_another_process(late)
    if verdict == "reject":
        with pytest.raises(Conflict, match="ann") as raised:
            await run(agent, late)
        assert (raised.value.winner, raised.value.decision) == ("ann", "approve")
        assert raised.value.at is not None
    else:
        assert labels(await run(agent, late)) == ["c2"]
    assert effects == [("pay", "ada", 5)]


async def test_deciding_two_different_calls_never_conflicts(run: Run, effects: Effects) -> None:
    """Law 9: the second to come refolds, decides again, and both stand."""
    agent, journal = payer(effects, [call("pay", "c1", to="ada"), call("pay", "c2", to="bob")]), MemoryJournal()
    run_id = (await run(agent, "go", journal=journal)).run_id
    states = [await RunState.load(journal, run_id, agent) for _ in range(2)]
    for state, label in zip(states, ("c1", "c2"), strict=True):
        state.approve(item_of(state, label))
        result = await run(agent, in_another_process(state))
    assert (result.final_output, sorted(effects)) == ("done", [("pay", "ada", 5), ("pay", "bob", 5)])
