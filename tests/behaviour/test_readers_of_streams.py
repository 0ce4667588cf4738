"""Whoever reads a stream can stop its run in time, and a run whose reader is gone is not lost."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from keyturn import Agent, Conflict, MemoryJournal, MemorySession, Runner, RunState, UserError, function_tool
from keyturn.engine.stream import followed
from keyturn.server.api.run_events import run_lines
from keyturn.testing import ScriptedModel
from tests.playing import Carry, World, approved, asked, asking, call, model, outputs, plain, read, shape, streamed
from tests.waiting import never, until


def worker(world: World) -> Agent[Any]:
    """An agent that works twice; its model and its tools wait for nothing."""
    rounds = [[call("free", "c1", x=1)], [call("free", "c2", x=2)], "done"]
    return Agent("a", model=model(*rounds), tools=[world.tool("free")])


def told(event: Any) -> str:
    """What a reader may react to: an item by its name, everything else by its type."""
    return event.name if event.type == "run_item_stream_event" else event.type


async def stopped_at(agent: Agent[Any], wanted: str, mode: Any, relayed: bool = False) -> Any:
    """Read a run to its end, and cancel it once an event of that name is read, here or by whom it is passed on to."""
    stream = Runner.run_streamed(agent, "go")

    async def relay() -> None:
        async for event in stream.stream_events():
            await passed_on.put(event)
        await passed_on.put(None)

    if not relayed:
        async for event in stream.stream_events():
            if told(event) == wanted:
                stream.cancel(mode)
        return stream
    passed_on: asyncio.Queue[Any] = asyncio.Queue()
    task = asyncio.ensure_future(relay())
    while (event := await passed_on.get()) is not None:
        if told(event) == wanted:
            stream.cancel(mode)
    await task
    return stream


@pytest.mark.parametrize("relayed", [False, True], ids=["read", "passed on"])
@pytest.mark.parametrize("mode", ["immediate", "after_turn"])
@pytest.mark.parametrize("wanted", ["raw_response_event", "tool_called", "tool_output"])
async def test_a_cancel_stops_what_has_not_begun_however_fast_the_model_is(
    world: World, carry: Carry, wanted: str, mode: str, relayed: bool
) -> None:
    agent = worker(world)
    stream = await stopped_at(agent, wanted, mode, relayed)
    ran = wanted == "tool_output" or mode == "after_turn"
    assert (world.done, len(asked(agent))) == (["free(1)"] if ran else [], 1)
    assert (stream.final_output, stream.interruptions, stream.is_complete) == (None, [], True)
    result = await plain(agent, await carry(agent, stream.to_state()))
    assert (result.final_output, world.done) == ("done", ["free(1)", "free(2)"])


async def test_a_cancel_at_a_call_stops_its_siblings_too(world: World) -> None:
    agent = Agent("a", model=model([call("free", "c1"), call("free", "c2")], "done"), tools=[world.tool("free")])
    stream = await stopped_at(agent, "tool_called", "immediate")
    assert (world.done, stream.interruptions) == ([], [])
    assert outputs((await plain(agent, stream.to_state())).to_input_list()) == {"c1": "free(0)", "c2": "free(0)"}


async def test_a_reader_who_is_busy_elsewhere_holds_nothing_up_and_misses_no_event(world: World) -> None:
    prompt = [told(event) async for event in Runner.run_streamed(worker(world), "go").stream_events()]
    world.done.clear()
    stream = Runner.run_streamed(worker(world), "go")
    heard: list[str] = []
    async for event in stream.stream_events():
        await asyncio.wait_for(stream.run_loop_task, 30)
        heard.append(told(event))
    assert (stream.final_output, world.done) == ("done", ["free(1)", "free(2)"])
    assert heard == prompt


async def test_a_run_that_nobody_reads_goes_on(world: World) -> None:
    stream = Runner.run_streamed(worker(world), "go")
    assert (await asyncio.wait_for(stream.run_loop_task, 30)).final_output == "done"


class Slow:
    """An agent whose tool waits for ever, once, and a reader of its run."""

    def __init__(self, **settings: Any) -> None:
        self.began = asyncio.Event()
        self.ended: list[str] = []

        @function_tool(**settings)
        async def slow() -> str:
            self.began.set()
            if not self.ended:
                self.ended.append("begun")
                await never()
            return "slow"

        self.agent: Agent[Any] = Agent("a", model=model([call("slow", "c1")], "done"), tools=[slow])

    async def lost(self, how: str, **options: Any) -> Any:
        """Run it, and lose its reader while the tool runs; give back the stream."""
        stream = Runner.run_streamed(self.agent, "go", **options)

        async def at_the_stream() -> None:
            async for _event in stream.stream_events():
                pass

        async def in_the_body() -> None:
            async for event in stream.stream_events():
                if told(event) == "tool_called":
                    await never()

        async def closing() -> None:
            async with aclosing(stream.stream_events()) as events:
                async for event in events:
                    if told(event) == "tool_called":
                        break

        readers = {"at the stream": at_the_stream, "in the body": in_the_body, "closing": closing}
        reader = asyncio.ensure_future(readers[how]())
        if how == "closing":
            await reader
            return stream
        await asyncio.wait_for(self.began.wait(), 30)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        return stream


@pytest.mark.parametrize("how", ["at the stream", "in the body"])
async def test_a_run_whose_reader_was_cancelled_can_be_resumed_at_once(how: str) -> None:
    slow = Slow(idempotent=True)
    stream = await slow.lost(how)
    state = stream.to_state()
    result = await plain(slow.agent, state)
    assert (result.final_output, slow.ended) == ("done", ["begun"])
    assert stream.run_loop_task.done()


async def test_what_ran_when_the_reader_was_cancelled_is_in_doubt(carry: Carry) -> None:
    slow = Slow()
    stream = await slow.lost("at the stream")
    assert stream.is_complete
    assert stream.run_loop_task.done()
    assert [item.kind for item in stream.interruptions] == ["in_doubt"]
    state = await carry(slow.agent, stream.to_state())
    state.resolve(state.get_interruptions()[0], "ran", "it did")
    result = await plain(slow.agent, state)
    assert (result.final_output, outputs(result.to_input_list())) == ("done", {"c1": "it did"})


async def test_a_reader_who_closes_the_stream_stops_the_run(world: World) -> None:
    slow = Slow()
    stream = await slow.lost("closing")
    assert stream.run_loop_task.done()
    assert len(asked(slow.agent)) == 1
    assert [event async for event in stream.stream_events()] == []


async def test_a_reader_who_only_breaks_can_read_on(world: World) -> None:
    stream = Runner.run_streamed(worker(world), "go")
    names = list[str]()
    async for event in stream.stream_events():
        names.append(told(event))
        if names[-1] == "tool_called":
            break
    assert not stream.is_complete
    names += [told(event) async for event in stream.stream_events()]
    assert names.count("tool_output") == 2
    assert (stream.final_output, world.done) == ("done", ["free(1)", "free(2)"])


async def test_a_run_that_goes_on_says_so_and_its_state_stays_usable(world: World) -> None:
    let_go = asyncio.Event()

    @function_tool
    async def slow() -> str:
        await let_go.wait()
        return "slow"

    agent = Agent("a", model=model([call("slow", "c1")], "done"), tools=[slow])
    stream = Runner.run_streamed(agent, "go")
    async for event in stream.stream_events():
        if told(event) == "tool_called":
            break
    with pytest.raises(Conflict, match="in progress; wait for it"):
        await plain(agent, stream.to_state())
    let_go.set()
    await read(stream)
    assert (await plain(agent, stream.to_state())).final_output == "done"


async def test_a_stream_that_was_told_to_stop_can_be_resumed_at_once(world: World) -> None:
    slow = Slow(idempotent=True)
    stream = Runner.run_streamed(slow.agent, "go")
    await asyncio.wait_for(slow.began.wait(), 30)
    stream.cancel()
    assert (await plain(slow.agent, stream.to_state())).final_output == "done"


async def test_of_two_who_resume_a_lost_run_one_goes_on(world: World) -> None:
    slow = Slow(idempotent=True)
    stream = await slow.lost("in the body")
    states = [stream.to_state(), stream.to_state()]
    both = await asyncio.gather(*(plain(slow.agent, state) for state in states), return_exceptions=True)
    assert sorted(type(one).__name__ for one in both) == ["Conflict", "RunResult"]


async def test_a_lost_reader_in_a_journal_leaves_the_run_to_whoever_takes_it_up(world: World) -> None:
    slow = Slow(idempotent=True)
    journal, session = MemoryJournal(), MemorySession("s")
    stream = await slow.lost("at the stream", journal=journal, session=session)
    state = await RunState.load(journal, stream.run_id, slow.agent)
    assert (await plain(slow.agent, state, session=session)).final_output == "done"
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "assistant"]


async def test_a_timeout_around_a_reader_stops_its_run(world: World) -> None:
    slow = Slow(idempotent=True)
    stream = Runner.run_streamed(slow.agent, "go")
    begins = asyncio.ensure_future(slow.began.wait())

    async def in_time() -> None:
        async with asyncio.timeout(None) as limit:
            begins.add_done_callback(lambda _: limit.reschedule(0))  # the time is up as the tool works
            await read(stream)

    with pytest.raises(TimeoutError):
        await in_time()
    await until(stream.run_loop_task.done)
    assert (await plain(slow.agent, stream.to_state())).final_output == "done"


# ----------------------------------------------------------------------------------------- what is refused at the call


@pytest.mark.parametrize(
    "kept", [{"conversation_id": "c"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}]
)
async def test_a_session_beside_a_conversation_of_the_provider_is_refused_at_the_call(kept: Any) -> None:
    agent = Agent("a", model=model("hello"))
    [name] = kept
    with pytest.raises(UserError, match=f"session= and {name}= exclude each other"):
        Runner.run_streamed(agent, "go", session=MemorySession("s"), **kept)
    with pytest.raises(UserError, match=f"session= and {name}= exclude each other"):
        await Runner.run(agent, "go", session=MemorySession("s"), **kept)
    assert asked(agent) == []


async def test_a_resume_that_lacks_something_is_refused_at_the_call(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    session = MemorySession("s")
    state = await approved(await streamed(agent, "go", session=session), agent, saved=True)
    with pytest.raises(UserError, match="pass the same session="):
        Runner.run_streamed(agent, state)
    other = asking(world, [call("ask", "c1")], "done")
    ruled = await approved(await streamed(other, "go", policy=lambda _view, _context: None), other, saved=True)
    with pytest.raises(UserError, match="pass policy="):
        Runner.run_streamed(other, ruled)
    assert (await read(Runner.run_streamed(agent, state, session=session))).final_output == "done"


async def test_a_stream_of_a_run_that_failed_and_was_resumed_has_all_of_it() -> None:
    """It ended at the first failure, for whoever came later as well."""
    journal, down = MemoryJournal(), [True]

    def says(_request: object) -> str:
        if down.pop():
            raise OSError("the provider is down")
        return "done"

    agent = Agent("a", model=ScriptedModel(says))
    with pytest.raises(OSError, match="down"):
        await Runner.run(agent, "go", journal=journal)
    [row] = await journal.runs()
    down.append(False)
    await Runner.run(agent, await RunState.load(journal, row.run, agent))
    lines = [line async for line in run_lines(journal, row.run, -1)]
    assert len(lines) == await journal.head(row.run)
    assert [event.type async for event in followed(journal, row.run, agent)][-1] == "run_item_stream_event"
