"""Cancelling stops, records what was in flight as in doubt, and is never an approval."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from keyturn import Agent, MemorySession, Runner, RunState, ToolContext, function_tool
from keyturn.models.scripted.model import ModelStep
from tests.playing import (
    World,
    approved,
    asked,
    call,
    cut_off,
    model,
    outputs,
    plain,
    read,
    shape,
    state_of,
    streamed,
)
from tests.waiting import never, turns_of_the_loop, until, until_alone


class Slow:
    """A tool that says that it began and goes on until it is let go or stopped."""

    def __init__(self, world: World, **options: Any) -> None:
        self.began, self.let_go = asyncio.Event(), asyncio.Event()
        self.keys: list[str] = []

        async def slow(context: ToolContext[Any]) -> str:
            self.keys.append(context.idempotency_key)
            world.done.append("began")
            self.began.set()
            await self.let_go.wait()
            world.done.append("ended")
            return "slow"

        self.tool = function_tool(slow, **options)


def slow_agent(slow: Slow, *rounds: Any, **more: Any) -> Agent[Any]:
    tools = [slow.tool, *more.pop("tools", [])]
    return Agent("a", model=model(*(rounds or ([call("slow", "c1")], "done"))), tools=tools, **more)


async def interrupted(agent: Agent[Any], given: Any, slow: Slow, streamed: bool, **options: Any) -> RunState[Any]:
    """A state of the run that was cancelled while its tool ran."""
    stopped = await cut_off(agent, given, slow.began.wait, streamed, **options)
    assert not streamed or stopped.current_turn == 1
    return stopped.to_state()


@pytest.mark.parametrize("how", ["ran", "did_not_run", "retry"])
async def test_a_call_in_flight_is_in_doubt(world: World, streamed: bool, saved: bool, how: Any) -> None:
    slow = Slow(world)
    agent = slow_agent(slow)
    state = await interrupted(agent, "go", slow, streamed)
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    [item] = state.get_interruptions()
    assert (item.kind, item.call_id, item.request_id) == ("in_doubt", "c1", slow.keys[0])
    assert world.done == ["began"]
    assert (await plain(agent, state)).interruptions[0].kind == "in_doubt"
    slow.let_go.set()
    state.resolve(state.get_interruptions()[0], how, "it did" if how == "ran" else None)
    result = await plain(agent, state)
    told = {"ran": "it did", "did_not_run": "The tool did not run.", "retry": "slow"}[how]
    assert outputs(result.to_input_list()) == {"c1": told}
    assert world.done == (["began", "began", "ended"] if how == "retry" else ["began"])
    assert len(set(slow.keys)) == 1
    assert len(asked(agent)) == 2


async def test_an_approval_is_used_up_by_the_call_that_was_cancelled(world: World, streamed: bool) -> None:
    slow = Slow(world, needs_approval=True)
    agent = slow_agent(slow)
    state = await approved(await plain(agent, "go"), agent)
    state = await interrupted(agent, state, slow, streamed)
    assert [item.kind for item in state.get_interruptions()] == ["in_doubt"]
    slow.let_go.set()
    assert len((await plain(agent, state)).interruptions) == 1
    assert world.done == ["began"]


async def test_an_idempotent_tool_is_started_again_with_its_key(world: World, streamed: bool) -> None:
    slow = Slow(world, idempotent=True)
    agent = slow_agent(slow)
    state = await interrupted(agent, "go", slow, streamed)
    slow.let_go.set()
    result = await plain(agent, state)
    assert (result.final_output, world.done) == ("done", ["began", "began", "ended"])
    assert len(set(slow.keys)) == 1


async def test_what_had_ended_stays_ended(world: World, streamed: bool) -> None:
    slow = Slow(world)
    calls = [call("free", "c0", x=1), call("slow", "c1"), call("ask", "c2"), call("free", "c3", x=3)]
    agent = slow_agent(slow, calls, "done", tools=[world.tool("free"), world.tool("ask", needs_approval=True)])
    state = await interrupted(agent, "go", slow, streamed)
    assert [(item.call_id, item.kind) for item in state.get_interruptions()] == [("c1", "in_doubt"), ("c2", "approval")]
    for item in state.get_interruptions():
        state.resolve(item, "ran", "ok") if item.kind == "in_doubt" else state.approve(item)
    result = await plain(agent, state)
    assert outputs(result.to_input_list()) == {"c0": "free(1)", "c1": "ok", "c2": "ask(0)", "c3": "free(3)"}
    assert sorted(world.done) == ["ask(0)", "began", "free(1)", "free(3)"]


async def test_cancelled_while_the_model_answers(world: World, streamed: bool) -> None:
    asked_event = asyncio.Event()

    async def wait() -> None:
        asked_event.set()
        await never()

    agent = Agent("a", model=model([call("free", "c1")], ModelStep("late", delay=wait), "done"))
    agent.tools = [world.tool("free")]
    if streamed:
        stream = Runner.run_streamed(agent, "go")
        task: Any = stream.run_loop_task
    else:
        task = asyncio.ensure_future(Runner.run(agent, "go"))
    await asyncio.wait_for(asked_event.wait(), 5)
    stream.cancel() if streamed else task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    state = stream.to_state() if streamed else raised.value.run_data.to_state()
    assert state.get_interruptions() == []
    result = await plain(agent, state)
    assert (result.final_output, world.done) == ("done", ["free(0)"])


async def test_a_nested_agents_call_in_flight(world: World, streamed: bool, saved: bool) -> None:
    slow = Slow(world)
    inner = Agent("inner", model=model([call("slow", "i1")], "inside"), tools=[slow.tool])
    outer = Agent("outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "a")])
    state = await interrupted(outer, "go", slow, streamed)
    if saved:
        state = await RunState.from_string(outer, state.to_string())
    [item] = state.get_interruptions()
    assert (item.kind, item.agent.name) == ("in_doubt", "inner")
    state.resolve(item, "ran", "it did")
    result = await plain(outer, state)
    assert outputs(result.to_input_list()) == {"o1": "inside"}
    assert outputs(asked(inner)[-1].input) == {"i1": "it did"}
    assert world.done == ["began"]


async def test_several_in_flight_at_once(world: World) -> None:
    slow = Slow(world)
    agent = slow_agent(slow, [call("slow", f"c{n}") for n in range(4)], "done")
    items = (await cut_off(agent, "go", slow.began.wait, False)).interruptions
    assert [(item.call_id, item.kind) for item in items] == [(f"c{n}", "in_doubt") for n in range(4)]
    assert world.done == ["began"] * 4


async def test_a_thread_in_flight_is_in_doubt_and_ends_by_itself(world: World) -> None:
    began, let_go = threading.Event(), threading.Event()

    @function_tool
    def slow() -> str:
        began.set()
        let_go.wait(5)
        world.done.append("ended")
        return "slow"

    agent = Agent("a", model=model([call("slow", "c1")], "done"), tools=[slow])
    task = asyncio.ensure_future(Runner.run(agent, "go"))
    await until(began.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    let_go.set()
    await until(lambda: world.done)
    state = raised.value.run_data.to_state()
    state.resolve(state.get_interruptions()[0], "ran", "it ended")
    assert outputs((await plain(agent, state)).to_input_list()) == {"c1": "it ended"}
    assert world.done == ["ended"]


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another"])
async def test_a_tool_that_will_not_be_stopped_has_its_result_and_the_run_stops(world: World, beside: bool) -> None:
    began = asyncio.Event()

    @function_tool
    async def stubborn() -> str:
        began.set()
        try:
            await never()
        except asyncio.CancelledError:
            world.done.append("stubborn")
        return "finished all the same"

    calls = [call("stubborn", "c1"), *([call("free", "c2")] if beside else [])]
    agent = Agent("a", model=model(calls, "never"), tools=[stubborn, world.tool("free")])
    task = asyncio.ensure_future(Runner.run(agent, "go"))
    await began.wait()
    await turns_of_the_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as raised:
        await task
    assert len(asked(agent)) == 1
    state = raised.value.run_data.to_state()
    assert state.get_interruptions() == []
    agent.model.enqueue("again")
    result = await plain(agent, state)
    assert outputs(result.to_input_list())["c1"] == "finished all the same"
    assert world.count("stubborn") == 1


async def test_cancelled_twice_what_was_in_flight_is_recorded(world: World) -> None:
    slow = Slow(world)
    agent = slow_agent(slow)
    state: RunState[Any] = RunState(None, "go", agent)
    task = asyncio.ensure_future(Runner.run(agent, state))
    await slow.began.wait()
    task.cancel()
    await turns_of_the_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until_alone()
    assert [item.kind for item in (await plain(agent, state)).interruptions] == ["in_doubt"]
    assert world.done == ["began"]


async def test_a_timeout_around_the_run_is_a_cancel(world: World) -> None:
    slow = Slow(world)
    agent = slow_agent(slow)
    state: RunState[Any] = RunState(None, "go", agent)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Runner.run(agent, state), 0.05)
    fresh = slow_agent(Slow(world))

    async def timed() -> None:
        async with asyncio.timeout(0.05):
            await Runner.run(fresh, "go")

    with pytest.raises(TimeoutError):
        await timed()
    assert [item.kind for item in (await plain(agent, state)).interruptions] == ["in_doubt"]
    assert world.done == ["began", "began"]


async def test_a_run_can_be_started_by_code_that_is_being_cancelled(world: World) -> None:
    """A cleanup that runs an agent is not cancelled a second time by the first cancel."""
    ended: list[Any] = []

    async def work() -> None:
        try:
            await never()
        except asyncio.CancelledError:
            agent = Agent(
                "a", model=model([call("free", "c1"), call("free", "c2")], "done"), tools=[world.tool("free")]
            )
            ended.append((await Runner.run(agent, "tidy up")).final_output)
            raise

    task = asyncio.ensure_future(work())
    await turns_of_the_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (ended, world.done) == (["done"], ["free(0)", "free(0)"])


# A stream that is told to stop.


async def test_a_stream_cancelled_before_it_began(world: World) -> None:
    agent = Agent("a", model=model("done"))
    stream = Runner.run_streamed(agent, "go")
    stream.cancel()
    assert [event async for event in stream.stream_events()] == []
    assert stream.is_complete
    assert asked(agent) == []


async def test_a_stream_cancelled_after_its_end_changes_nothing(world: World) -> None:
    agent = Agent("a", model=model("done"))
    stream = Runner.run_streamed(agent, "go")
    await read(stream)
    stream.cancel()
    assert (stream.final_output, stream.is_complete) == ("done", True)


async def test_stopping_after_the_turn_lets_its_tools_end(world: World) -> None:
    slow = Slow(world)
    session = MemorySession("s")
    agent = slow_agent(slow)
    stream = Runner.run_streamed(agent, "go", session=session)
    names: list[str] = []
    async for event in stream.stream_events():
        if event.type == "run_item_stream_event":
            names.append(event.name)
        if names == ["tool_called"] and not slow.let_go.is_set():
            await slow.began.wait()
            stream.cancel(mode="after_turn")
            slow.let_go.set()
    assert names == ["tool_called", "tool_output"]
    assert (stream.final_output, stream.interruptions, world.done) == (None, [], ["began", "ended"])
    assert shape(await session.get_items()) == ["user", "call c1", "output c1"]
    result = await streamed(agent, stream.to_state(), session=session)
    assert (result.final_output, world.done) == ("done", ["began", "ended"])
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "assistant"]


async def test_stopping_after_the_turn_inside_a_nested_agent(world: World) -> None:
    slow = Slow(world)
    inner = Agent("inner", model=model([call("slow", "i1")], "inside"), tools=[slow.tool])
    outer = Agent("outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "a")])
    stream = Runner.run_streamed(outer, "go")
    await asyncio.wait_for(slow.began.wait(), 5)
    stream.cancel(mode="after_turn")
    slow.let_go.set()
    await read(stream)
    assert (stream.final_output, world.done) == (None, ["began", "ended"])
    result = await plain(outer, await state_of(stream.run_loop_task.result(), outer, True))
    assert (result.final_output, outputs(result.to_input_list())) == ("done", {"o1": "inside"})
    assert world.done == ["began", "ended"]


async def test_stopping_after_the_turn_at_a_pause_is_the_pause(world: World) -> None:
    agent = Agent("a", model=model([call("ask", "c1")], "done"), tools=[world.tool("ask", needs_approval=True)])
    stream = Runner.run_streamed(agent, "go")
    async for _event in stream.stream_events():
        stream.cancel(mode="after_turn")
    if not stream.interruptions:  # it was told before its first turn
        result = await plain(agent, stream.to_state())
    else:
        result = stream.run_loop_task.result()
    assert [item.call_id for item in result.interruptions] == ["c1"]
    assert (await plain(agent, await approved(result, agent, saved=True))).final_output == "done"


async def test_stopping_after_the_turn_does_not_stop_a_final_answer(world: World) -> None:
    agent = Agent("a", model=model(ModelStep("done", delay=0.01)))
    stream = Runner.run_streamed(agent, "go")
    await until(lambda: asked(agent))
    stream.cancel(mode="after_turn")
    await read(stream)
    assert stream.final_output == "done"


async def test_a_cancelled_run_and_its_session(world: World, saved: bool) -> None:
    """What ran before the cancel is in the session; what is in doubt is told once it is known."""
    slow = Slow(world)
    session = MemorySession("s")
    agent = slow_agent(slow, [call("free", "c0")], [call("slow", "c1")], "done", tools=[world.tool("free")])
    cut = await cut_off(agent, "go", slow.began.wait, False, session=session)
    assert shape(await session.get_items())[:3] == ["user", "call c0", "output c0"]
    state = await state_of(cut, agent, saved)
    state.resolve(state.get_interruptions()[0], "ran", "it did")
    await plain(agent, state, session=session)
    assert shape(await session.get_items()) == ["user", "call c0", "output c0", "call c1", "output c1", "assistant"]
    assert world.done == ["free(0)", "began"]
