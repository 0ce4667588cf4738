"""Calls that a realtime model repeats, renames, or makes as somebody else: none runs on a word about another."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import MemoryJournal, NotPending, RunState, ToolContext, UserError, function_tool
from keyturn.core.errors import Conflict
from keyturn.deferred import ApprovalRequired
from keyturn.inbox.desk import Inbox
from keyturn.realtime import RealtimeAgent, RealtimeRunner
from keyturn.realtime import model_events as me
from keyturn.realtime.openai_reading import ServerReader
from keyturn.testing.loopback.realtime import Call, Event, Turn
from tests.realtime.attending import OwnModel, conversing, talking_to
from tests.realtime.desk import ran, refund, support
from tests.waiting import turns_of_the_loop, until


async def test_an_id_that_was_used_before_approves_no_other_call() -> None:
    """Somebody saw c1 for A1; it is decided elsewhere, and the model calls with the same id for B2: c1 is not B2."""
    model, journal = OwnModel(), MemoryJournal()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        [row] = await Inbox(journal).list()
        await Inbox(journal).reject(row, by="ann")
        await told.until("tool_end")
        await model.calls("refund", '{"order": "B2"}')
        second = await told.until("tool_approval_required", 2)
        for decide in (session.approve_tool_call, session.reject_tool_call):
            with pytest.raises(NotPending, match=r"event\.item"):
                await decide("c1")
        await turns_of_the_loop(200)
        assert ran == []
        await session.approve_tool_call(second.item)
        await told.until("tool_end", 2)
    assert ran == ["B2"]


async def test_an_id_that_was_used_before_the_session_approves_no_other_call() -> None:
    journal = MemoryJournal()
    async with talking_to(model := OwnModel(), support(), journal=journal) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        run = session.run_id
    [row] = await Inbox(journal).list()
    await Inbox(journal).reject(row, by="ann")
    async with talking_to(model := OwnModel(), support(), journal=journal, resume=run) as (session, told):
        await until(lambda: "c1" in str(model.sent))
        await model.calls("refund", '{"order": "B2"}')
        second = await told.until("tool_approval_required")
        with pytest.raises(NotPending, match=r"event\.item"):
            await session.approve_tool_call("c1")
        await session.approve_tool_call(second.request_id)
        await told.until("tool_end")
    assert ran == ["B2"]


async def test_a_call_named_as_the_request_of_another_is_no_way_to_it() -> None:
    """A model that learned a request's id calls with it: whoever names that request decides it and nothing else."""
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        first = await told.until("tool_approval_required")
        await model.calls("refund", '{"order": "B2"}', call_id=first.request_id)
        await told.until("tool_approval_required", 2)
        await session.approve_tool_call(first.request_id)
        await told.until("tool_end")
        await turns_of_the_loop(200)
        assert ran == ["A1"]
        with pytest.raises(NotPending):
            await session.approve_tool_call(first.request_id)
    assert ran == ["A1"]


async def test_a_call_that_is_told_twice_while_it_is_open_is_one_call() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        await model.calls("refund", '{"order": "A1"}')
        await turns_of_the_loop(200)
        assert len(session.pending_approvals) == 1
        await session.approve_tool_call("c1")
        await told.until("tool_end")
        await turns_of_the_loop(200)
        assert session.pending_approvals == []
    assert ran == ["A1"]


async def test_a_call_that_a_provider_replays_after_a_reconnect_runs_no_second_time() -> None:
    """The new connection was told of c1 and its result, and says c1 again, in every way there is."""
    item = {"id": "i9", "type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    item["status"] = "completed"
    replay = [
        Event({"type": "response.output_item.added", "response_id": "r", "output_index": 0, "item": item}),
        Event({"type": "response.output_item.done", "response_id": "r", "output_index": 0, "item": item}),
        Event({"type": "conversation.item.done", "item": item}),
    ]
    script = [Call("weather", {}, "c1"), "Sunny.", Turn(*replay, "Again."), "Well.", "Well."]
    async with conversing(support(), script) as (session, server, told):
        await session.send_message("Weather?")
        await told.until("agent_end", 2)
        await server.hang_up()
        await server.connected(2)
        await session.send_message("And now?")
        await told.until("agent_end", 3)
        await turns_of_the_loop(300)
        assert ran == ["weather"]
        assert told.ended is None
        assert any("c1" in str(error) for error in told.errors())


async def test_a_call_that_an_own_model_replays_after_a_reconnect_runs_no_second_time() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        await model.calls("weather")
        await until(model.outputs)
        await session.reconnect()
        await model.calls("weather")
        await until(lambda: len(model.outputs()) == 2)  # it is told the result that there is
        assert model.outputs()[1] == ("c1", "sunny")
        await model.calls("weather", call_id="c2")
        await until(lambda: len(model.outputs()) == 3)
        assert told.ended is None
    assert ran == ["weather", "weather"]


async def test_a_call_of_one_agent_runs_not_as_the_same_name_of_the_next() -> None:
    """The model was given an asking `pay` when it called: that another agent took over since lets nothing run."""
    started, go_on = asyncio.Event(), asyncio.Event()

    @function_tool(name_override="pay", needs_approval=True)
    def asks(amount: int) -> str:
        """Pay."""
        ran.append(("asks", amount))
        return "paid"

    @function_tool(name_override="pay")
    def pays(amount: int) -> str:
        """Pay."""
        ran.append(("pays", amount))
        return "paid"

    second = RealtimeAgent("second", tools=[pays])
    first = RealtimeAgent("first", tools=[asks], handoffs=[second])

    class Slow(OwnModel):
        async def send_event(self, event: Any) -> None:
            if type(event).__name__ == "RealtimeModelSendSessionUpdate":
                started.set()
                await go_on.wait()
            await super().send_event(event)

    model = Slow()
    async with talking_to(model, first) as (session, told):
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r1"))
        await model.calls("transfer_to_second", call_id="c1")
        await asyncio.wait_for(started.wait(), 5)
        await model.calls("pay", '{"amount": 5}', call_id="c2")
        await turns_of_the_loop(300)
        go_on.set()
        await until(lambda: "c2" in dict(model.outputs()) or session.pending_approvals or ran)
        await model.calls("pay", '{"amount": 6}', call_id="c3")  # still of that response
        await turns_of_the_loop(300)
        assert ran == []
        await model.tell(me.RealtimeModelTurnEndedEvent(response_id="r1"))
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r2"))
        await model.calls("pay", '{"amount": 7}', call_id="c4")
        await until(lambda: "c4" in dict(model.outputs()))
        assert told.ended is None
    assert ran == [("pays", 7)]


async def test_a_state_taken_while_the_session_lives_runs_no_call_a_second_time() -> None:
    model = OwnModel()
    agent = support()
    async with talking_to(model, agent) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        state = await RunState.from_string(agent, session.to_state().to_string())
        state.approve(state.get_interruptions()[0])
        other = await RealtimeRunner(agent, model=OwnModel()).run(resume=state)
        with pytest.raises((Conflict, UserError)):
            await other.enter()
        await other.close()
        await session.approve_tool_call("c1")
        await told.until("tool_end")
        await turns_of_the_loop(200)
    assert ran == ["A1"]


async def test_always_reaches_no_other_tool_and_no_other_agent() -> None:
    @function_tool(name_override="refund", needs_approval=True)
    def other_refund(order: str) -> str:
        """Refund an order twice."""
        ran.append((order, "other"))
        return "refunded twice"

    second = RealtimeAgent("second", tools=[other_refund])
    model = OwnModel()
    async with talking_to(model, support(refund, handoffs=[second])) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        await session.approve_tool_call("c1", always=True)
        await told.until("tool_end")
        await session.update_agent(second)
        await until(lambda: any("SessionUpdate" in type(each).__name__ for each in model.sent))
        await model.calls("refund", '{"order": "B2"}', call_id="c2")
        await told.until("tool_approval_required", 2)
        await turns_of_the_loop(200)
    assert ran == ["A1"]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"order": "A1", "order": "B2"}',
        '{"order": ' + "[" * 50_000,
        '{"order": "\\ud800"}',
        '{"order": "A\\u00001"}',
        '{"order": "\\u001b[2J"}',
        '{"order": "' + "x" * 1_000_000 + '"}',
        '{"order": "A1"} {"order": "B2"}',
        '\ufeff{"order": "A1"}',
        '{"order": NaN}',
    ],
    ids=["twice", "deep", "surrogate", "null", "escape", "long", "two", "mark", "nan"],
)
async def test_whatever_arguments_are_nothing_runs_unasked_and_the_session_goes_on(arguments: str) -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        await model.calls("refund", arguments)
        await until(lambda: model.outputs() or session.pending_approvals)
        await model.calls("weather", call_id="fine")
        await until(lambda: ("fine", "sunny") in model.outputs())
        assert told.ended is None
    assert ran == ["weather"]


@pytest.mark.parametrize("status", ["cancelled", "incomplete", "failed"])
def test_a_call_whose_response_was_cut_off_is_none_though_its_arguments_are_told_as_done(status: str) -> None:
    """The provider tells them as done when the user interrupts, too: "pay ann, no, stop!" pays nobody."""
    reader = ServerReader()
    item = {"id": "i1", "type": "function_call", "call_id": "c1", "name": "pay", "arguments": ""}
    where = {"response_id": "r1", "output_index": 0}
    events: list[Any] = [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.added", "item": {**item, "status": "in_progress"}, **where},
        {"type": "response.function_call_arguments.done", "item_id": "i1", "arguments": '{"to": "ann"}', **where},
        {"type": "response.output_item.done", "item": {**item, "arguments": '{"to"', "status": "incomplete"}, **where},
        {"type": "response.done", "response": {"id": "r1", "status": status, "output": []}},
    ]
    for left_out in (None, 3):
        told = [each for place, event in enumerate(events) if place != left_out for each in reader.read(event)]
        assert [each.type for each in told if each.type != "error"] in (
            ["turn_started", "turn_ended"],
            ["turn_started"],
        )


def test_a_call_runs_with_the_arguments_of_its_item_whatever_was_told_on_the_way() -> None:
    reader = ServerReader()
    item = {"id": "i1", "type": "function_call", "call_id": "c1", "name": "pay", "arguments": '{"to": "ann"}'}
    where = {"response_id": "r1", "output_index": 0}
    events: list[Any] = [
        {"type": "response.output_item.added", "item": {**item, "name": "steal", "arguments": ""}, **where},
        {"type": "response.function_call_arguments.delta", "item_id": "i1", "delta": '{"to": "eve"}', **where},
        {"type": "response.function_call_arguments.done", "item_id": "i1", "arguments": '{"to": "eve"}', **where},
        {"type": "response.output_item.done", "item": {**item, "status": "completed"}, **where},
        {"type": "response.function_call_arguments.done", "item_id": "i1", "arguments": '{"to": "eve"}', **where},
        {"type": "response.done", "response": {"id": "r1", "status": "completed", "output": [item]}},
    ]
    told = [each for event in events for each in reader.read(event) if each.type == "function_call"]
    assert [(each.name, each.arguments) for each in told] == [("pay", '{"to": "ann"}')]


async def test_a_tool_that_asks_by_itself_and_was_not_asked_about_before_is_named_by_its_id() -> None:
    """Its first asking counted as a second one, since the call had been started before it."""

    @function_tool
    def pay(context: ToolContext[Any]) -> str:
        """Pay."""
        if context.approval is None:
            raise ApprovalRequired
        ran.append("paid")
        return "paid"

    model = OwnModel()
    async with talking_to(model, support(pay)) as (session, told):
        await model.calls("pay")
        await told.until("tool_approval_required")
        await session.approve_tool_call("c1")
        await until(lambda: ("c1", "paid") in model.outputs())
    assert ran == ["paid"]
