"""The loopback server is honest: OpenAI's own client talks to it, and what that client's types forbid is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from openai import AsyncOpenAI, AuthenticationError
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError

from keyturn.testing.loopback.realtime import (
    AskApproval,
    Call,
    Frame,
    Gate,
    HangUp,
    RealtimeServer,
    Say,
    SessionExpires,
    Turn,
    UserSpeaks,
    Write,
    silence,
    tone,
)
from keyturn.testing.loopback.realtime_line import RealtimeLine
from tests.table import each
from tests.waiting import turns_of_the_loop


@asynccontextmanager
async def client_of(server: RealtimeServer, key: str = "k") -> AsyncIterator[Any]:
    client = AsyncOpenAI(api_key=key, base_url=server.base_url)
    try:
        async with client.realtime.connect(model="gpt-realtime") as connection:
            assert (await connection.recv()).type == "session.created"
            yield connection
    finally:
        await client.close()


async def until(connection: Any, kind: str) -> list[Any]:
    """All events up to the first of a kind."""
    found: list[Any] = []
    async with asyncio.timeout(10):
        while not found or found[-1].type != kind:
            found.append(await connection.recv())
    return found


async def say(connection: Any, text: str) -> None:
    content = [{"type": "input_text", "text": text}]
    await connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})


async def test_openais_client_hears_a_response_with_audio_and_transcript() -> None:
    async with RealtimeServer(["Hello to you."]) as server, client_of(server) as connection:
        await connection.session.update(session={"type": "realtime", "instructions": "Be brief."})
        updated = (await until(connection, "session.updated"))[-1]
        assert updated.session.instructions == "Be brief."
        await say(connection, "hi")
        await connection.response.create()
        events = await until(connection, "response.done")
    kinds = [event.type for event in events]
    assert kinds[:6] == [
        "conversation.item.added",
        "conversation.item.done",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
    ]
    told = "".join(event.delta for event in events if event.type == "response.output_audio_transcript.delta")
    audio = b"".join(base64.b64decode(event.delta) for event in events if event.type == "response.output_audio.delta")
    assert told == "Hello to you."
    assert audio == tone(40) * 3
    done = events[-1].response
    assert (done.status, done.usage.total_tokens, done.output[0].content[0].transcript) == ("completed", 30, told)
    assert server.errors == []


async def test_openais_client_hears_calls_and_answers_them() -> None:
    script = [[Call("pay", {"to": "ann"}, "c1"), Call("look", call_id="c2")], Turn(Write("Done."))]
    async with RealtimeServer(script) as server, client_of(server) as connection:
        await connection.response.create()
        events = await until(connection, "response.done")
        calls = [event for event in events if event.type == "response.function_call_arguments.done"]
        assert [(call.call_id, call.name, call.arguments) for call in calls] == [
            ("c1", "pay", '{"to": "ann"}'),
            ("c2", "look", "{}"),
        ]
        for call in calls:
            item = {"type": "function_call_output", "call_id": call.call_id, "output": "ok"}
            await connection.conversation.item.create(item=item)
        assert await server.answered("c2") == "ok"
        await connection.response.create()
        events = await until(connection, "response.done")
    assert [event.text for event in events if event.type == "response.output_text.done"] == ["Done."]
    assert server.outputs == {"c1": ["ok"], "c2": ["ok"]}
    previous = [item["type"] for item in server.line.items]
    assert previous == ["function_call", "function_call", "function_call_output", "function_call_output", "message"]


async def test_a_key_that_is_wrong_is_refused() -> None:
    async with RealtimeServer(keys=["right"]) as server:
        async with client_of(server, "right"):
            pass
        with pytest.raises((AuthenticationError, Exception), match="401"):
            async with client_of(server, "wrong"):
                pass
        assert len(server.lines) == 1
        assert len(server.refused) == 1


@each(
    ("message", "code"),
    [
        ({"type": "no.such.thing"}, "invalid_value"),
        ({"no": "type"}, "invalid_json"),
        ({"type": "session.update"}, "invalid_value"),
        ({"type": "session.update", "session": {"type": "realtime", "voice": "ash"}}, "unknown_parameter"),
        (
            {"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text", "audio"]}},
            "invalid_value",
        ),
        ({"type": "conversation.item.create", "item": {"type": "message", "role": "user"}}, "invalid_value"),
        (
            {
                "type": "conversation.item.create",
                "item": {"type": "function_call_output", "call_id": "c9", "output": ""},
            },
            "invalid_value",
        ),
        ({"type": "conversation.item.delete", "item_id": "nothing"}, "item_not_found"),
        (
            {"type": "conversation.item.truncate", "item_id": "x", "content_index": 0, "audio_end_ms": 0},
            "item_not_found",
        ),
        ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty"),
        ({"type": "input_audio_buffer.append", "audio": "?"}, "invalid_value"),
        ({"type": "response.cancel"}, "response_cancel_not_active"),
        ({"type": "response.create", "response": {"speed": 2}}, "unknown_parameter"),
        ({"type": "response.create"}, "script_ended"),
    ],
)
async def test_what_the_real_server_refuses_is_refused(message: dict[str, Any], code: str) -> None:
    async with RealtimeServer() as server, client_of(server) as connection:
        await connection.send_raw(json.dumps({**message, "event_id": "mine"}))
        refused = await connection.recv()
        assert (refused.type, refused.error.code, refused.error.event_id) == ("error", code, "mine")
        assert [error["code"] for error in server.errors] == [code]


async def test_a_frame_that_is_no_json_is_refused() -> None:
    async with RealtimeServer() as server, client_of(server) as connection:
        await connection.send_raw("no json")
        assert (await connection.recv()).error.code == "invalid_json"


async def test_a_second_response_is_refused_while_one_is_active() -> None:
    gate = Gate()
    async with RealtimeServer([Turn(Say("One"), gate, Say("more"))]) as server, client_of(server) as connection:
        await connection.response.create()
        await gate.reached()
        await connection.response.create()
        refused = (await until(connection, "error"))[-1]
        assert refused.error.code == "conversation_already_has_active_response"
        await connection.response.cancel()
        done = (await until(connection, "response.done"))[-1].response
        assert (done.status, done.status_details.reason) == ("cancelled", "client_cancelled")


async def test_turn_detection_hears_speech_and_answers_it() -> None:
    async with RealtimeServer(["Noon."], heard=["What time is it?"]) as server, client_of(server) as connection:
        detection = {"type": "server_vad", "silence_duration_ms": 200}
        audio = {"input": {"turn_detection": detection, "transcription": {"model": "gpt-4o-mini-transcribe"}}}
        await connection.session.update(session={"type": "realtime", "audio": audio})
        for piece in (silence(100), tone(300), silence(100), silence(150)):
            await connection.input_audio_buffer.append(audio=base64.b64encode(piece).decode())
        events = await until(connection, "response.done")
    kinds = [event.type for event in events if "conversation.item.a" not in event.type][1:8]
    assert kinds == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
    ]
    [heard] = [event.transcript for event in events if event.type.endswith("transcription.completed")]
    assert heard == "What time is it?"


async def test_a_user_who_speaks_cuts_the_response_off() -> None:
    script = [Turn(Say("One two"), UserSpeaks(), Say("never heard"))]
    async with RealtimeServer(script) as server, client_of(server) as connection:
        await connection.response.create()
        events = await until(connection, "response.done")
    assert "input_audio_buffer.speech_started" in [event.type for event in events]
    done = events[-1].response
    assert (done.status, done.status_details.reason, len(done.output)) == ("cancelled", "turn_detected", 1)


async def test_a_turn_can_be_told_twice_and_in_another_order() -> None:
    script = [Turn(Write("a b"), twice=True), Turn(Write("a b"), arrange=lambda events: events[::-1])]
    async with RealtimeServer(script) as server, client_of(server) as connection:
        await connection.response.create()
        first = [(event.type, event.event_id) for event in await until(connection, "response.done")]
        assert len({*first}) < len(first)
        await server.idle()
        await connection.response.create()
        await until(connection, "response.created")
        types = [event["type"] for event in server.line.events]
        assert types.index("response.done", types.index("response.done") + 2) < len(types) - 5


async def test_a_session_that_expires_says_so_and_ends() -> None:
    async with RealtimeServer([Turn(SessionExpires())]) as server, client_of(server) as connection:
        await connection.response.create()
        assert (await until(connection, "error"))[-1].error.code == "session_expired"
        await server.disconnected()


@each("part", [HangUp(), HangUp(code=1011, reason="oops"), HangUp(abrupt=True)])
async def test_the_line_ends_where_the_script_says(part: HangUp) -> None:
    async with RealtimeServer([Turn(Say("One"), part, Say("two"))]) as server, client_of(server) as connection:
        await connection.response.create()
        await server.disconnected()
        kinds = [event["type"] for event in server.line.events]
        assert "response.done" not in kinds
        assert kinds.count("response.output_audio.delta") == 1


async def test_an_approval_request_is_an_item_that_waits_for_its_answer() -> None:
    script = [AskApproval("wiki", "search", '{"q":"x"}', id="mcpr_1")]
    async with RealtimeServer(script) as server, client_of(server) as connection:
        await connection.response.create()
        await until(connection, "response.done")
        item = {"type": "mcp_approval_response", "id": "a1", "approval_request_id": "mcpr_1", "approve": False}
        await connection.conversation.item.create(item=item)
        await server.received("conversation.item.create")
        await until(connection, "conversation.item.done")
        assert server.approvals == {"mcpr_1": [False]}


async def test_a_script_may_be_a_function_and_a_mistake_in_it_is_told() -> None:
    def script(line: Any) -> Any:
        return Turn(Write(f"You said {len(line.messages)} things."))

    async with RealtimeServer(script) as server, client_of(server) as connection:
        await connection.response.create()
        events = await until(connection, "response.done")
    assert [event.text for event in events if event.type == "response.output_text.done"] == ["You said 1 things."]
    async with RealtimeServer([Turn(Say("x", word_ms=-5))]) as server, client_of(server) as connection:
        await connection.response.create()
        await server.idle()
    with pytest.raises(ValueError, match="cannot play 5"):
        Turn(5)
    with pytest.raises(ValueError, match="no item of type 'reasoning'"):
        Turn({"type": "reasoning"})


async def test_a_line_that_breaks_is_no_mistake_of_the_script() -> None:
    """Seen once in some thousand races: the line was gone, and what waits for its messages had not heard of it."""

    class Broken:
        request = SimpleNamespace(path="/", headers=Headers())

        async def send(self, data: str) -> None:
            raise ConnectionClosedError(None, None)

    async def no_turn(line: RealtimeLine) -> Turn:
        raise AssertionError(line)

    line = RealtimeLine(Broken(), 1, no_turn, lambda: None)
    await line.respond(Turn(Say("One")))
    await turns_of_the_loop()
    assert line.response is None
    assert not line.errors


async def test_garbage_is_sent_as_it_is() -> None:
    async with RealtimeServer([Turn(Frame("garbage"))]) as server:
        import websockets

        async with websockets.connect(server.url, additional_headers={"Authorization": "Bearer k"}) as socket:
            await socket.recv()
            await socket.send('{"type": "response.create"}')
            frames = [await socket.recv() for _ in range(3)]
        assert frames[1] == "garbage"


async def test_waiting_in_vain_says_what_came() -> None:
    async with RealtimeServer() as server, client_of(server) as connection:
        await connection.input_audio_buffer.clear()
        await server.received("input_audio_buffer.clear")
        with pytest.raises(AssertionError, match=r"waited 0.01 s for 1 of response.create; clients last sent"):
            await server.received("response.create", timeout=0.01)
