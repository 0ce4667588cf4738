"""A stream is a subscription to the one loop, with the events and the order that users know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    AgentUpdatedStreamEvent,
    ApprovalRequestedStreamEvent,
    ModelBehaviorError,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    Runner,
    RunResultStreaming,
    ToolApprovalItem,
)
from keyturn.models.scripted.model import ModelStep, reasoning
from tests.playing import (
    World,
    approved,
    asked,
    asking,
    call,
    model,
    plain,
    read,
    state_of,
    streamed,
)

STARTED = "response.created"


def name(event: Any) -> str:
    """What a reader of a stream would write down of an event."""
    if isinstance(event, RawResponsesStreamEvent):
        return "raw"
    if isinstance(event, AgentUpdatedStreamEvent):
        return f"agent {event.new_agent.name}"
    if isinstance(event, ApprovalRequestedStreamEvent):
        return f"approval {event.item.call_id}"
    assert isinstance(event, RunItemStreamEvent)
    return event.name


async def listen(agent: Agent[Any], given: Any, **options: Any) -> tuple[RunResultStreaming, list[Any]]:
    stream = Runner.run_streamed(agent, given, **options)
    return stream, [event async for event in stream.stream_events()]


def told(events: list[Any]) -> list[str]:
    return [name(event) for event in events if name(event) != "raw"]


async def test_the_order_over_a_pause(world: World, saved: bool) -> None:
    agent = asking(world, ["hm", call("free", "c1"), call("ask", "c2")], "done")
    stream, events = await listen(agent, "go")
    called = ["message_output_created", "tool_called", "tool_called"]
    assert told(events) == ["agent a", *called, "tool_output", "approval c2"]
    assert (stream.final_output, [item.call_id for item in stream.interruptions]) == (None, ["c2"])
    stream, events = await listen(agent, await approved(stream.run_loop_task.result(), agent, saved))
    assert told(events) == ["agent a", "tool_output", "message_output_created"]
    assert (stream.final_output, stream.is_complete, stream.interruptions) == ("done", True, [])


async def test_the_approval_in_the_stream_can_be_decided(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    stream, events = await listen(agent, "go")
    [event] = [event for event in events if event.type == "approval_requested_stream_event"]
    assert isinstance(event.item, ToolApprovalItem)
    state = stream.to_state()
    state.approve(event.item)
    assert (await streamed(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


async def test_an_idle_resume_tells_of_the_approval_again(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    stream, _events = await listen(agent, "go")
    _stream, events = await listen(agent, stream.to_state())
    assert told(events) == ["agent a", "approval c1"]


async def test_a_handoff_in_a_stream(world: World, saved: bool) -> None:
    second = asking(world, [call("ask", "c1")], "done")
    second.name = "second"
    first = Agent("first", model=model([call("free", "c0"), call("transfer_to_second", "h")]), handoffs=[second])
    first.tools = [world.tool("free")]
    stream, events = await listen(first, "go")
    one = ["agent first", "tool_called", "handoff_requested", "tool_output", "handoff_occured"]
    assert told(events) == [*one, "agent second", "tool_called", "approval c1"]
    assert stream.current_agent is second
    _stream, events = await listen(first, await approved(stream.run_loop_task.result(), first, saved))
    assert told(events) == ["agent second", "tool_output", "message_output_created"]


async def test_raw_events_are_those_of_the_responses_api(world: World) -> None:
    agent = Agent("a", model=model([reasoning("why"), *["to", "be"]]))
    stream, events = await listen(agent, "go")
    raw = [event.data for event in events if event.type == "raw_response_event"]
    assert (raw[0].type, raw[-1].type) == ("response.created", "response.completed")
    assert "".join(each.delta for each in raw if each.type == "response.output_text.delta") == "tobe"
    assert [each.sequence_number for each in raw] == list(range(len(raw)))
    kinds = ["reasoning_item_created", "message_output_created", "message_output_created"]
    assert told(events) == ["agent a", *kinds]
    assert stream.final_output == "be"


async def test_items_come_after_their_deltas_and_before_the_next_reply(world: World) -> None:
    agent = asking(world, [call("free", "c1")], "done")
    _stream, events = await listen(agent, "go")
    kinds = [name(event) for event in events]
    created = [
        place for place, kind in enumerate(kinds) if kind == "raw" and events[place].data.type.endswith("created")
    ]
    assert len(created) == 2
    assert kinds.index("tool_called") < kinds.index("tool_output") < created[1]
    assert kinds[0] == "agent a"
    assert kinds[-1] == "message_output_created"


async def test_deltas_arrive_while_the_model_is_still_speaking(world: World) -> None:
    going_on = asyncio.Event()

    async def events(_request: Any) -> Any:
        from keyturn.models.base import ModelResponse
        from keyturn.models.reply_events import reply_events
        from keyturn.models.scripted.model import assistant_message

        for event in reply_events(ModelResponse([assistant_message("to be or not")], response_id="r")):
            yield event
            if event.type == "response.output_text.delta":
                await asyncio.wait_for(going_on.wait(), 5)

    agent = Agent("a", model=model(ModelStep(stream_events=events)))
    stream = Runner.run_streamed(agent, "go")
    heard: list[str] = []
    async for event in stream.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            heard.append(event.data.delta)
            assert not stream.is_complete
            going_on.set()
    assert ("".join(heard), stream.final_output) == ("to be or not", "to be or not")


async def test_a_nested_agents_events_are_not_the_outer_streams(world: World) -> None:
    inner = asking(world, [call("ask", "i1")], "inside")
    outer = Agent("outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "a")])
    stream, events = await listen(outer, "go")
    assert told(events) == ["agent outer", "tool_called", "approval i1"]
    assert stream.interruptions[0].agent is inner
    _stream, events = await listen(outer, await approved(stream.run_loop_task.result(), outer))
    assert told(events) == ["agent outer", "tool_output", "message_output_created"]


async def test_a_stream_need_not_be_read(world: World) -> None:
    agent = asking(world, [call("free", "c1")], "done")
    stream = Runner.run_streamed(agent, "go")
    result = await stream.run_loop_task
    assert (result.final_output, world.done) == ("done", ["free(0)"])
    assert not stream.is_complete
    assert told([event async for event in stream.stream_events()])[0] == "agent a"
    assert stream.is_complete
    assert [event async for event in stream.stream_events()] == []


async def test_a_reader_that_leaves_early_does_not_stop_the_run(world: World) -> None:
    agent = asking(world, [call("free", "c1")], "done")
    stream = Runner.run_streamed(agent, "go")
    async for _event in stream.stream_events():
        break
    assert (await stream.run_loop_task).final_output == "done"
    assert stream.final_output == "done"


async def test_a_result_can_be_looked_at_while_it_grows(world: World) -> None:
    agent = asking(world, [call("free", "c1")], "done")
    stream = Runner.run_streamed(agent, "go", context="ctx")
    seen: list[tuple[int, int]] = []
    async for event in stream.stream_events():
        if event.type == "run_item_stream_event":
            seen.append((len(stream.new_items), stream.current_turn))
        assert stream.input == "go"
    assert seen[-1] == (3, 2)
    assert (stream.run_id, stream.max_turns, stream.usage.requests) == (stream.to_state().run_id, 10, 2)
    assert stream.context_wrapper.context == "ctx"
    assert [len(reply.output) for reply in stream.raw_responses] == [1, 1]
    assert stream.final_output_as(str) == "done"


async def test_an_error_is_raised_after_the_events_and_kept(world: World) -> None:
    agent = asking(world, [call("free", "c1")], OSError("down"))
    stream = Runner.run_streamed(agent, "go")
    heard: list[Any] = []

    async def read() -> None:
        async for event in stream.stream_events():
            heard.append(event)

    with pytest.raises(OSError, match="down"):
        await read()
    assert told(heard) == ["agent a", "tool_called", "tool_output"]
    assert isinstance(stream.run_loop_exception, OSError)
    assert (stream.is_complete, stream.final_output) == (True, None)
    assert [item.type for item in stream.new_items] == ["tool_call_item", "tool_call_output_item"]


async def test_a_stream_that_ends_too_soon_is_no_reply(world: World, saved: bool) -> None:
    agent = asking(world, ModelStep([call("free", "c1")], break_after=4), [call("ask", "c2")], "done")
    stream = Runner.run_streamed(agent, "go")
    with pytest.raises(ModelBehaviorError, match="ended before") as raised:
        await read(stream)
    assert (world.done, raised.value.run_data.new_items) == ([], [])
    result = await streamed(agent, await state_of(raised.value.run_data, agent, saved))
    assert [item.call_id for item in result.interruptions] == ["c2"]
    assert (await streamed(agent, await approved(result, agent, saved))).final_output == "done"
    assert asked(agent)[1].input == asked(agent)[0].input


async def test_after_a_failure_the_agent_is_announced_once(world: World) -> None:
    agent = asking(world, OSError("down"), "done")
    stream = Runner.run_streamed(agent, "go")
    with pytest.raises(OSError, match="down"):
        await read(stream)
    _stream, events = await listen(agent, stream.to_state())
    assert told(events) == ["agent a", "message_output_created"]


async def test_an_error_handlers_answer_is_told(world: World) -> None:
    agent = asking(world, [call("free", "c1")])
    handlers = {"max_turns": lambda data: "gave up"}
    stream, events = await listen(agent, "go", max_turns=1, error_handlers=handlers)
    assert told(events) == ["agent a", "tool_called", "tool_output", "message_output_created"]
    assert stream.final_output == "gave up"


async def test_added_input_is_no_item_of_the_stream(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    stream, _events = await listen(agent, "go")
    state = await approved(stream.run_loop_task.result(), agent)
    state.add_input("and hurry")
    _stream, events = await listen(agent, state)
    assert told(events) == ["agent a", "tool_output", "message_output_created"]


async def test_resuming_a_finished_run_streams_its_agent_and_ends(world: World) -> None:
    agent = asking(world, "done")
    stream, _events = await listen(agent, "go")
    again, events = await listen(agent, stream.to_state())
    assert told(events) in ([], ["agent a"])
    assert again.final_output == "done"


def steps(result: Any) -> list[Any]:
    """The log of a run without what differs between any two runs: ids and times."""
    from keyturn.core import events as ev

    kept = [event for step in result.to_state().live.log.steps for event in step.events]
    plain_events: list[Any] = []
    for event in kept:
        if isinstance(event, ev.RunStarted):
            plain_events.append(("started", event.input, event.about))
        elif isinstance(event, ev.CallDecided):
            plain_events.append(("decided", event.decision.call, event.decision.verdict, event.decision.args))
        elif isinstance(event, ev.CallScreened):
            plain_events.append(("screened", event.call, event.action, event.reason))
        else:
            plain_events.append(event)
    return plain_events


async def test_the_log_of_a_streamed_run_is_the_log_of_a_plain_one(world: World) -> None:
    def build() -> Agent[Any]:
        inner = asking(world, [call("ask", "i1")], "inside")
        second = asking(world, [call("ask", "s1"), call("inner", "s2", input="x")], "done")
        second.name, second.tools = "second", [*second.tools, inner.as_tool("inner", "asks", needs_approval=True)]
        first = asking(world, [call("free", "f1"), call("ask", "f2"), call("transfer_to_second", "h")])
        first.handoffs = [second]
        return first

    logs: list[Any] = []
    for run in (plain, streamed):
        agent = build()
        result = await run(agent, "go")
        while result.interruptions:
            result = await run(agent, await approved(result, agent))
        logs.append((steps(result), result.final_output, result.to_input_list()))
    assert logs[0] == logs[1]


@pytest.mark.trial
async def test_many_deltas_and_many_streams(world: World) -> None:
    text = " ".join(str(n) for n in range(2000))
    agents = [Agent(f"a{n}", model=model(text)) for n in range(5)]
    heard = await asyncio.gather(*(listen(agent, "go") for agent in agents))
    for stream, events in heard:
        raw = [event.data for event in events if event.type == "raw_response_event"]
        assert "".join(each.delta for each in raw if each.type == "response.output_text.delta") == text
        assert stream.final_output == text


async def test_a_run_that_is_cancelled_has_no_more_events(world: World) -> None:
    agent = Agent("a", model=model([call("free", "c1")], "done"), tools=[world.tool("free")])
    result = Runner.run_streamed(agent, "go")
    read: list[str] = []
    async for event in result.stream_events():
        read.append(event.type)
        if len(read) == 2:
            result.cancel()
    assert (len(read), world.done, result.is_complete, result.final_output) == (2, [], True, None)
