"""What OpenAI's realtime model makes of what the server sends: each thing once, and garbage is an error event."""

from __future__ import annotations

import asyncio
import base64
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn.realtime import (
    RealtimeModelSendAudio,
    RealtimeModelSendRawMessage,
    RealtimeModelSendUserInput,
    RealtimeServerError,
)
from keyturn.realtime import model_events as me
from keyturn.realtime.openai_items import Malformed
from keyturn.realtime.openai_reading import ServerReader, parse
from keyturn.realtime.openai_turns import ResponseTurns
from keyturn.testing.loopback.realtime import (
    Call,
    Event,
    Frame,
    Say,
    ServerError,
    Turn,
    Write,
)
from keyturn.testing.loopback.realtime_rules import _classes
from tests.effort import some
from tests.realtime.listening import stillness, talking
from tests.table import each

CALL = {"type": "function_call", "id": "i1", "call_id": "c1", "name": "pay", "arguments": "{}", "status": "completed"}
WHERE = {"response_id": "r1", "output_index": 0, "event_id": "e"}
DONE = {"type": "response.function_call_arguments.done", "item_id": "i1", **WHERE}


def read(*events: Any) -> list[Any]:
    reader = ServerReader()
    return [told for event in events for told in reader.read(event)]


def calls(*events: Any) -> list[Any]:
    return [told for told in read(*events) if told.type == "function_call"]


class TestACall:
    async def test_its_events_come_in_their_order_with_usage_and_end(self) -> None:
        async with talking([[Call("pay", {"to": "ann"}, "c1")]]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay ann"))
            await heard.until("turn_ended")
            assert heard.kinds()[2:] == [
                "item_updated",
                "turn_started",
                "item_updated",
                "function_call",
                "usage",
                "turn_ended",
            ]
            [call], [usage] = heard.of("function_call"), heard.of("usage")
            user = heard.of("item_updated")[0].item
            assert (call.name, call.call_id, call.arguments) == ("pay", "c1", '{"to": "ann"}')
            assert call.previous_item_id == user.item_id
            item = heard.of("item_updated")[1].item
            assert (item.item_id, item.status, item.output) == (call.id, "in_progress", None)
            assert (usage.usage.requests, usage.usage.total_tokens) == (1, 30)
            assert usage.usage.input_tokens_details.cached_tokens == 4
            assert usage.input_tokens_details.cached_tokens_details.text_tokens == 4
            assert usage.output_tokens_details.audio_tokens == 4
            assert heard.of("turn_ended")[0].response_id == heard.of("turn_started")[0].response_id

    def test_told_by_either_event_it_is_one(self) -> None:
        arguments = {**DONE, "name": "pay", "call_id": "c1", "arguments": "{}"}
        item = {"type": "response.output_item.done", "item": CALL, **WHERE}
        response = {"type": "response.done", "response": {"id": "r1", "status": "completed", "output": [CALL]}}
        end = {"type": "response.done", "response": {"id": "r1", "status": "completed"}}
        assert calls(arguments) == []  # its response may be cut off yet
        for events in ([arguments, end], [item], [response], [arguments, item, response, item, arguments]):
            [call] = calls(*events)
            assert (call.name, call.call_id, call.arguments, call.id) == ("pay", "c1", "{}", "i1")

    def test_its_name_may_stand_in_its_beginning(self) -> None:
        begun = {"type": "response.output_item.added", "item": {**CALL, "arguments": ""}, **WHERE}
        end = {"type": "response.done", "response": {"id": "r1", "status": "completed"}}
        [call] = calls(begun, {**DONE, "arguments": '{"a":1}'}, end)
        assert (call.name, call.call_id, call.arguments) == ("pay", "c1", '{"a":1}')

    @each("wrong", [{"name": None}, {"name": ""}, {"call_id": None}, {"call_id": 5}, {"arguments": {"to": "ann"}}])
    def test_without_what_makes_it_one_it_is_an_error(self, wrong: Any) -> None:
        item = {name: value for name, value in {**CALL, **wrong}.items() if value is not None}
        [error] = read({"type": "response.output_item.done", "item": item, **WHERE})
        assert (error.type, error.error.type, error.error.code) == ("error", "protocol_error", "malformed_event")
        [error] = read({**DONE, "name": "pay", "call_id": "c1", "arguments": "{}", **wrong})
        assert error.type == "error"

    def test_other_arguments_the_second_time_are_an_error_and_never_run(self) -> None:
        other = {**CALL, "arguments": '{"amount":5000}'}
        events = [{"type": "response.output_item.done", "item": item, **WHERE} for item in (CALL, other, CALL)]
        told = read(*events)
        assert [event.type for event in told] == ["item_updated", "function_call", "error"]
        assert "second time" in told[2].error.message
        assert "5000" not in told[2].error.message

    async def test_one_that_was_cut_off_is_none(self) -> None:
        async with talking([[Call("pay", {"to": "ann"}, "c1", cut_off=True)]]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay ann"))
            await heard.until("turn_ended")
            assert heard.of("function_call", "error") == []

    def test_one_of_a_cancelled_response_is_none(self) -> None:
        assert calls({"type": "response.done", "response": {"id": "r1", "status": "cancelled", "output": [CALL]}}) == []


HOSTED = {"type": "mcp_call", "id": "mcp_1", "approval_request_id": "mcpr_1", "server_label": "wiki", "name": "search"}
ENDS: dict[str, list[Any]] = {
    "by its item": [{"type": "response.output_item.done", "item": HOSTED}],
    "by its name": [
        {"type": "conversation.item.added", "item": HOSTED},
        {"type": "response.mcp_call.failed", "item_id": "mcp_1"},
    ],
    "by its result": [{"type": "conversation.item.retrieved", "item": {**HOSTED, "error": {"type": "http_error"}}}],
    "by its response": [{"type": "response.done", "response": {"id": "r1", "output": [7, HOSTED]}}],
}


@pytest.mark.parametrize("how", ENDS)
def test_the_end_of_a_call_that_the_provider_made_is_told_once(how: str) -> None:
    asked = {**HOSTED, "approval_request_id": None}
    others: list[Any] = [
        {"type": "response.mcp_call.completed", "item_id": "mcp_1"},
        {"type": "response.mcp_call.completed"},
        {"type": "conversation.item.added", "item": {**HOSTED, "id": None}},
        {"type": "conversation.item.done", "item": asked},
        {"type": "conversation.item.added", "item": HOSTED},
    ]
    assert [told for told in read(*others) if told.type == "hosted_call_ended"] == []
    told = [told for told in read(*others, *ENDS[how], *ENDS[how]) if told.type == "hosted_call_ended"]
    assert [each.request_id for each in told] == ["mcpr_1"]


class TestWhatIsSaid:
    async def test_audio_text_and_items(self) -> None:
        async with talking([Turn(Say("Hello there"), Write("Bye"))]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            audio = heard.of("audio")
            assert [len(event.data) for event in audio] == [1920, 1920]
            assert heard.of("audio_done")[0].item_id == audio[0].item_id
            assert [event.delta for event in heard.of("transcript_delta")] == ["Hello", " there"]
            assert [event.delta for event in heard.of("output_text_delta")] == ["Bye"]
            items = {event.item.item_id: event.item for event in heard.of("item_updated")}
            user, said, wrote = items.values()
            assert user.content[0].text == "hi"
            assert (said.status, said.content[0].transcript) == ("completed", "Hello there")
            assert (said.previous_item_id, wrote.previous_item_id) == (user.item_id, said.item_id)
            assert wrote.content[0].text == "Bye"

    async def test_what_the_user_said_and_what_was_deleted(self) -> None:
        async with talking(settings={"turn_detection": None}) as (model, server, heard):
            await model.send_event(RealtimeModelSendAudio(bytes(4800), commit=True))
            [told] = await heard.until("input_audio_transcription_completed")
            item = heard.of("item_updated")[0].item
            assert (told.item_id, told.transcript) == (item.item_id, "...")
            assert item.content[0].type == "input_audio"
            other: Any = {"type": "conversation.item.delete", "other_data": {"item_id": item.item_id}}
            await model.send_event(RealtimeModelSendRawMessage(other))
            [deleted] = await heard.until("item_deleted")
            assert deleted.item_id == item.item_id
            where = {"item_id": "i9", "audio_start_ms": 1, "audio_end_ms": 2, "event_id": "e"}
            await server.send({"type": "input_audio_buffer.timeout_triggered", **where})
            [timeout] = await heard.until("input_audio_timeout_triggered")
            assert (timeout.item_id, timeout.audio_start_ms, timeout.audio_end_ms) == ("i9", 1, 2)

    def test_a_part_of_a_newer_kind_is_left_out(self) -> None:
        content = [{"type": "hologram"}, {"type": "output_text", "text": "hi"}]
        item = {"id": "i1", "type": "message", "role": "assistant", "content": content}
        [told] = read({"type": "conversation.item.added", "item": item})
        assert [part.text for part in told.item.content] == ["hi"]

    def test_an_approval_request_is_told_once_and_its_shape_is_checked(self) -> None:
        item = {"type": "mcp_approval_request", "id": "m1", "server_label": "w", "name": "s", "arguments": "{}"}
        event = {"type": "conversation.item.done", "item": item}
        done = {"type": "response.output_item.done", "item": item, **WHERE}
        assert [told.type for told in read(event, done, event)] == ["mcp_approval_request"]
        other = {**event, "item": {**item, "arguments": '{"x":1}'}}
        assert [told.type for told in read(event, other)] == ["mcp_approval_request", "error"]
        assert [told.type for told in read({**event, "item": {**item, "name": None}})] == ["error"]

    def test_an_approval_request_is_one_once_it_is_whole(self) -> None:
        """As it begins it has no arguments, and what was cut off is none."""
        item = {"type": "mcp_approval_request", "id": "m1", "server_label": "w", "name": "s", "arguments": ""}
        whole = {**item, "arguments": '{"amount":900}', "status": "completed"}
        begun = [
            {"type": kind, "item": item, **WHERE} for kind in ("response.output_item.added", "conversation.item.added")
        ]
        [told] = read(*begun, {"type": "response.output_item.done", "item": whole, **WHERE})
        assert told.item["arguments"] == '{"amount":900}'
        cut = {**whole, "status": "incomplete"}
        assert list(read(*begun, {"type": "response.output_item.done", "item": cut, **WHERE})) == []


class TestErrors:
    async def test_an_error_of_the_server_is_told_and_the_session_goes_on(self) -> None:
        async with talking([Turn(ServerError("Slow down.", "rate_limited"), Write("Hi"))]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            [told] = heard.of("error")
            assert told.error == RealtimeServerError("Slow down.", "server_error", "rate_limited")
            assert heard.of("output_text_delta")[0].delta == "Hi"

    async def test_garbage_is_told_and_the_session_goes_on(self) -> None:
        garbage: list[Any] = [
            Frame("no json"),
            Frame(b"\x00\x01binary"),
            Frame("[1, 2]"),
            Frame('{"no": "type"}'),
            Frame('{"type": 5}'),
            Frame("[" * 100_000),
            Frame('{"type": "x", "n": ' + "9" * 5000 + "}"),
            Event({"type": "brand.new", "a": 1}),
            Event({"type": "response.output_audio.delta"}),
            Event({"type": "response.output_audio.delta", "delta": "?", "item_id": "i", "content_index": 0, **WHERE}),
            Event({"type": "response.done"}),
            Event({"type": "response.created", "response": []}),
            Event({"type": "error"}),
            Event({"type": "conversation.item.added", "item": {"type": "message", "role": "user", "id": "i"}}),
            Event({"type": "input_audio_buffer.speech_started"}),
            Event({"type": "session.updated", "session": {"audio": 5}}),
            Event({"type": "conversation.item.truncated"}),
        ]
        async with talking([Turn(*garbage, Write("Hi"))]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            assert [event.data["type"] for event in heard.of("other")] == ["brand.new"]
            codes = [event.error.code for event in heard.of("error")]
            assert codes.count("malformed_frame") >= 6
            assert codes.count("malformed_event") == 6
            assert heard.of("exception") == []
            assert heard.of("output_text_delta")[0].delta == "Hi"
            assert model.connected

    @each("frame", [b"{}", "", "[]", "5", '"text"', "{}", '{"type": null}', "{" * 9999, "nul", '{"type": NaN}'])
    def test_a_frame_without_an_event_is_malformed(self, frame: Any) -> None:
        with pytest.raises(Malformed):
            parse(frame)

    async def test_nothing_of_a_malformed_event_is_quoted(self) -> None:
        [told] = read({"type": "response.output_item.done", "item": {**CALL, "arguments": ["s3cret"]}, **WHERE})
        assert "s3cret" not in str(told)


class TestFloods:
    async def test_a_listener_that_is_slow_slows_the_server_down(self) -> None:
        """What has not been heard waits at the server: the model reads on only when its listeners have heard."""
        audio = base64.b64encode(random.Random(1).randbytes(100_000)).decode()
        delta = {"type": "response.output_audio.delta", "delta": audio, "item_id": "i", "content_index": 0, **WHERE}
        count = 120
        flood = Turn(*(Event({**delta, "event_id": f"e{number}"}) for number in range(count)))
        async with talking([flood]) as (model, server, heard):
            gate = asyncio.Event()
            told = 0

            class Slow(type(heard)):
                async def on_event(self, event: Any) -> None:
                    nonlocal told
                    told += event.type == "audio"
                    if event.type == "audio":
                        await gate.wait()

            model.add_listener(Slow())
            await model.send_event(RealtimeModelSendUserInput("hi"))
            taken = await stillness(lambda: len(server.line.events))
            assert told == 1
            assert taken < count, "the whole flood was taken in"
            gate.set()
            await heard.until("audio", count)


# Random orders, repetitions and garbage.

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["c1", "i1", "r1", "pay"])
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
KINDS = st.sampled_from(sorted(_classes("RealtimeServerEvent")))
NAMES = "item item_id response response_id delta name call_id arguments content_index error session transcript"
FIELDS = st.sampled_from(NAMES.split(" "))
GARBAGE = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(FIELDS, JSON, max_size=6))


def _call_events(number: int) -> list[dict[str, Any]]:
    item = {**CALL, "id": f"i{number}", "call_id": f"c{number}"}
    where = {**WHERE, "response_id": f"r{number}"}
    done = {"item_id": item["id"], "call_id": item["call_id"], "name": "pay", "arguments": "{}", **where}
    return [
        {"type": "response.created", "response": {"id": f"r{number}"}},
        {"type": "response.output_item.added", "item": {**item, "arguments": "", "status": "in_progress"}, **where},
        {"type": "conversation.item.added", "item": {**item, "status": "in_progress"}, "previous_item_id": "i0"},
        {"type": "response.function_call_arguments.done", **done},
        {"type": "response.output_item.done", "item": item, **where},
        {"type": "response.done", "response": {"id": f"r{number}", "status": "completed", "output": [item]}},
    ]


HONEST = [event for number in range(3) for event in _call_events(number)]


@given(st.lists(st.sampled_from(HONEST) | GARBAGE, max_size=40))
@settings(max_examples=some(100), deadline=None)
def test_no_order_and_no_garbage_makes_two_calls_of_one_or_stops_the_reader(events: list[dict[str, Any]]) -> None:
    told = read(*events)
    found = [event.call_id for event in told if event.type == "function_call"]
    assert len(found) == len({*found})
    assert all(type(event.name) is type(event.arguments) is str for event in told if event.type == "function_call")
    honest = {
        event["item"]["call_id"] for event in events if event["type"] == "response.output_item.done" and event in HONEST
    }
    assert honest <= {*found}, "a whole call was lost"


@pytest.mark.trial
@given(st.lists(st.sampled_from(HONEST) | GARBAGE, max_size=40))
@settings(max_examples=some(100), deadline=None)
def test_no_order_and_no_garbage_blocks_responses_for_ever(events: list[dict[str, Any]]) -> None:
    turns = ResponseTurns()
    for event in events:
        turns.hear(event)
    for name in (turns.active, "r1", "r2"):
        turns.hear({"type": "response.done", "response": {"id": name}})
    turns.want({})
    assert turns.next() is not None


@given(st.text() | st.binary() | JSON.map(json.dumps))
@settings(max_examples=some(100), deadline=None)
def test_any_frame_is_an_event_or_malformed(frame: Any) -> None:
    try:
        event = parse(frame)
    except Malformed:
        return
    assert isinstance(event["type"], str)


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_a_shuffled_turn_over_the_wire_tells_each_call_once(seed: int) -> None:
    asyncio.run(_shuffled(seed))


async def _shuffled(seed: int) -> None:
    def shuffle(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        *others, end = events
        random.Random(seed).shuffle(others)
        return [*others, end]

    turn = Turn(Call("pay", {"n": 1}, "c1"), Call("pay", {"n": 2}, "c2"), Write("and"), arrange=shuffle, twice=True)
    async with talking([turn, "Done."]) as (model, _server, heard):
        await model.send_event(RealtimeModelSendUserInput("pay twice"))
        await heard.until("turn_ended")
        assert sorted((call.call_id, call.arguments) for call in heard.of("function_call")) == [
            ("c1", '{"n": 1}'),
            ("c2", '{"n": 2}'),
        ]
        await model.send_event(RealtimeModelSendUserInput("go on"))
        await heard.until("turn_ended", 2)
        assert heard.of("exception") == []


def test_every_event_of_the_protocol_is_known() -> None:
    """A type of the provider's package that nothing here has heard of is an `other` event: none is today."""

    others = [kind for kind in _classes("RealtimeServerEvent") for told in read({"type": kind}) if told.type == "other"]
    assert others == []
    assert len(_classes("RealtimeServerEvent")) >= 46


def test_a_response_that_failed_is_told_as_an_error() -> None:
    why = {"type": "failed", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Slow down."}}
    response = {"id": "r1", "status": "failed", "status_details": why}
    error, ended = ServerReader().read({"type": "response.done", "response": response})
    assert isinstance(error, me.RealtimeModelErrorEvent)
    assert (error.error.message, error.error.code, ended.type) == ("Slow down.", "rate_limit_exceeded", "turn_ended")
