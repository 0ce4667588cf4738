"""A provider that floods a realtime session costs no more than so much, and a reader who never reads is told so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import GuardrailFunctionOutput, output_guardrail
from keyturn.realtime import RealtimeRunner, event_buffer, recording
from keyturn.realtime import model_events as me
from keyturn.realtime.event_buffer import EventBuffer, EventsDropped
from keyturn.realtime.items import AssistantMessageItem, AssistantText
from keyturn.realtime.openai_reading import ServerReader
from keyturn.realtime.session_events import RealtimeHistoryUpdated, RealtimeRawModelEvent
from keyturn.realtime.session_events import held as held_by
from tests.realtime.attending import OwnModel, Reader, talking_to
from tests.realtime.desk import support
from tests.waiting import never, turns_of_the_loop, until


def said(number: int, text: str = "hi") -> me.RealtimeModelItemUpdatedEvent:
    item = AssistantMessageItem(item_id=f"m{number}", status="completed", content=[AssistantText(text=text)])
    return me.RealtimeModelItemUpdatedEvent(item)


async def test_a_reader_who_never_reads_has_an_end_and_the_session_goes_on() -> None:
    """What is never dropped has a bound, too: there the events end, with the reason; calls are decided all the same."""
    model = OwnModel()
    session = await RealtimeRunner(support(), model=model).run()
    async with session:
        for _ in range(event_buffer.MOST * 3):
            await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r1"))
        assert len(session._events) <= event_buffer.MOST * 2 + 10
        await model.calls("refund", '{"order": "A1"}')
        await until(lambda: session.pending_approvals)
        await session.approve_tool_call("c1")
        await until(model.outputs)
        assert len(session._events) <= event_buffer.MOST * 2 + 10
        told = Reader(session)
        await asyncio.wait_for(told.task, 5)
        assert isinstance(told.ended, EventsDropped)
        assert "pending_approvals" in str(told.ended)


@pytest.mark.parametrize("kind", ["raw", "other", "error", "item"])
async def test_events_of_any_kind_are_bounded_by_their_size(kind: str) -> None:
    """Whatever field a large text stands in, an unread session does not hold it a thousand times."""
    text = "x" * 1_000_000
    raws: dict[str, Any] = {
        "raw": lambda number: me.RealtimeModelRawServerEvent({"type": "new", "deep": [{"in": text + str(number)}]}),
        "other": lambda number: me.RealtimeModelOtherEvent({"type": "new", "field": text + str(number)}),
        "error": lambda number: me.RealtimeModelErrorEvent(ValueError(text + str(number))),
        "item": lambda number: said(number, text + str(number)),
    }
    model = OwnModel()
    session = await RealtimeRunner(support(), model=model).run()
    async with session:
        for number in range(150):
            await model.tell(raws[kind](number))
        held = [
            event for queue in (session._events._kept, session._events._droppable) for _place, event, _size in queue
        ]
        distinct = {id(held_by(event, "data")) for event in held if isinstance(event, RealtimeRawModelEvent)}
        assert len(distinct) * len(text) <= event_buffer.MOST_BYTES + 2 * len(text)


@pytest.mark.trial
async def test_what_a_long_history_costs_an_unread_session_is_bounded() -> None:
    model = OwnModel()
    session = await RealtimeRunner(support(), model=model).run()
    async with session:
        for number in range(4_200):
            await model.tell(said(number))
        held = [
            event for _place, event, _size in session._events._droppable if isinstance(event, RealtimeHistoryUpdated)
        ]
        assert sum(len(held_by(event, "history")) for event in held) * 8 <= event_buffer.MOST_BYTES


async def test_a_reader_remembers_no_arguments_of_thousands_of_calls() -> None:
    reader = ServerReader()
    text = "x" * 200_000
    for number in range(200):
        item = {"id": f"i{number}", "type": "function_call", "call_id": f"c{number}", "name": "pay", "arguments": "{}"}
        begun = {**item, "arguments": text + str(number), "status": "in_progress"}
        reader.read({"type": "response.output_item.added", "item": begun})
        reader.read({"type": "response.output_item.done", "item": {**item, "arguments": text + str(number)}})

    kept = sum(len(str(value)) for value in (*reader._begun.values(), *reader._calls.values()))
    assert kept < 1_000_000


async def test_guardrails_that_are_slow_are_asked_a_few_times_at_once() -> None:
    at_once = [0, 0]
    go_on = asyncio.Event()

    @output_guardrail
    async def slow(_context: Any, _agent: Any, text: Any) -> GuardrailFunctionOutput:
        at_once[0] += 1
        at_once[1] = max(at_once)
        await go_on.wait()
        at_once[0] -= 1
        return GuardrailFunctionOutput(None, tripwire_triggered="secret" in text)

    model = OwnModel()
    config: Any = {"guardrails_settings": {"debounce_text_length": 1}}
    async with talking_to(model, support(output_guardrails=[slow]), config=config) as (_session, told):
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r1"))
        for number in range(500):
            await model.tell(me.RealtimeModelTranscriptDeltaEvent("m1", "secret" if number == 300 else "a", "r1"))
            await turns_of_the_loop(1)
        assert at_once[1] <= 10
        go_on.set()
        await told.until("guardrail_tripped")


async def test_a_guardrail_begins_no_look_after_the_end() -> None:
    looked: list[str] = []

    @output_guardrail
    async def hangs(_context: Any, _agent: Any, text: Any) -> GuardrailFunctionOutput:
        looked.append(text)
        await never()
        raise AssertionError

    before = asyncio.all_tasks()
    model = OwnModel()
    async with talking_to(model, support(output_guardrails=[hangs])) as (_session, _told):
        await model.tell(me.RealtimeModelTurnStartedEvent(response_id="r1"))
        await model.tell(me.RealtimeModelTranscriptDeltaEvent("m1", "half", "r1"))
    await turns_of_the_loop(10)
    assert asyncio.all_tasks() == before


async def test_the_buffer_tells_its_bytes_as_they_are() -> None:
    """What was put in and taken out again is not counted any more."""
    info: Any = None
    events = EventBuffer(info)
    for number in range(100):
        events.put(RealtimeRawModelEvent(me.RealtimeModelOtherEvent({"a": "x" * number}), info))
    for _ in range(100):
        await events.get()
    assert events._bytes == 0


async def test_calls_that_wait_are_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that calls and calls what nobody decides is told to wait: each open call costs at every step."""
    monkeypatch.setattr(recording, "MOST_OPEN", 5)
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        for number in range(8):
            await model.calls("refund", f'{{"order": "A{number}"}}', f"c{number}")
        await until(lambda: len(model.outputs()) == 3)
        assert [call for call, _said in model.outputs()] == ["c5", "c6", "c7"]
        assert "too many" in model.outputs()[0][1]
        assert len(session.pending_approvals) == 5
        await session.reject_tool_call("c0")
        await told.until("tool_end")
        await model.calls("refund", '{"order": "B"}', "c8")
        await told.until("tool_approval_required", 6)
        assert told.ended is None


async def test_a_guardrail_that_fails_is_told_and_not_only_logged() -> None:
    @output_guardrail
    async def broken(_context: Any, _agent: Any, _text: Any) -> GuardrailFunctionOutput:
        raise LookupError("no such rule")

    model = OwnModel()
    async with talking_to(model, support(output_guardrails=[broken])) as (_session, told):
        await model.says("Hello.")
        await told.until("error")
        assert isinstance(told.errors()[0], LookupError)
        assert told.ended is None
