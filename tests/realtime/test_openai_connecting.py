"""A connection of OpenAI's realtime model: how it begins, how it ends, and that another one begins afresh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from keyturn import UserError, set_default_openai_key
from keyturn.models.openai.defaults import OPENAI
from keyturn.realtime import (
    OpenAIRealtimeSIPModel,
    OpenAIRealtimeWebSocketModel,
    RealtimeDisconnected,
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelToolCallEvent,
)
from keyturn.testing.loopback.realtime import Call, Frame, Gate, HangUp, RealtimeServer, Say, SessionExpires, Turn
from tests.realtime.listening import Heard, talking
from tests.table import each
from tests.waiting import never, turns_of_the_loop

CALL = RealtimeModelToolCallEvent("pay", "c1", "{}")
EVENTS = [
    RealtimeModelSendUserInput("hi"),
    RealtimeModelSendAudio(b"\0\0"),
    RealtimeModelSendToolOutput(CALL, "ok", start_response=True),
    RealtimeModelSendSessionUpdate({"instructions": "x"}),
    RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"}),
    RealtimeModelSendInterrupt(force_response_cancel=True),
]


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncGenerator[int]:
    """Serve one connection at a port; at the end its socket is closed, for else a later test is blamed for it."""
    closed = asyncio.Event()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    await closed.wait()
    server.close()
    await server.wait_closed()


async def test_the_first_message_is_the_session() -> None:
    async with talking(settings={"instructions": "Be brief.", "voice": "marin"}) as (_, server, heard):
        await server.sent("session.updated")
        await heard.until(lambda: heard.raw("session.updated"))
        assert [event.status for event in heard.of("connection_status")] == ["connecting", "connected"]
        [message] = server.messages
        assert message == {
            "type": "session.update",
            "event_id": "keyturn_settings_1",
            "session": {
                "type": "realtime",
                "model": "gpt-realtime-2.1",
                "instructions": "Be brief.",
                "output_modalities": ["audio"],
                "audio": {
                    "input": {
                        "format": {"type": "audio/pcm", "rate": 24000},
                        "transcription": {"model": "gpt-4o-mini-transcribe"},
                        "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
                    },
                    "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin"},
                },
            },
        }
        assert "tracing" not in message["session"], "nothing is traced that nobody asked for"
        assert server.errors == []


class TestHeaders:
    async def test_the_key_is_a_bearer_token(self) -> None:
        async def key() -> str:
            return "sk-later"

        for given in ("sk-later", lambda: "sk-later", key):
            async with talking(api_key=given) as (_, server, _heard):
                assert server.line.headers["authorization"] == "Bearer sk-later"
                assert server.line.headers["user-agent"].startswith("Keyturn/")
                assert "openai-beta" not in server.line.headers

    async def test_headers_of_the_caller_replace_the_key(self) -> None:
        async with talking(headers={"Authorization": "Bearer mine", "X-Team": "a"}) as (_, server, _heard):
            assert server.line.headers["authorization"] == "Bearer mine"
            assert server.line.headers["x-team"] == "a"

    async def test_the_default_key_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(OPENAI, "key", None)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
        async with RealtimeServer(keys=["sk-environment", "sk-default"]) as server:
            for number, wanted in enumerate(("sk-environment", "sk-default"), 1):
                model = OpenAIRealtimeWebSocketModel()
                await model.connect({"url": server.url})
                line = await server.connected(number)
                assert line.headers["authorization"] == f"Bearer {wanted}"
                await model.close()
                set_default_openai_key("sk-default")

    async def test_without_any_key_the_remedy_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(OPENAI, "key", None)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(UserError, match="set OPENAI_API_KEY"):
            await OpenAIRealtimeWebSocketModel().connect({"url": "ws://127.0.0.1:1/v1/realtime"})


class TestRefusals:
    async def test_a_wrong_key_is_no_connection_and_can_be_mended(self) -> None:
        async with RealtimeServer(keys=["right"]) as server:
            model = OpenAIRealtimeWebSocketModel()
            with pytest.raises(RealtimeDisconnected, match="401") as refused:
                await model.connect({"url": server.url, "api_key": "wrong-secret"})
            assert "wrong-secret" not in str(refused.value)
            assert not model.connected
            await model.connect({"url": server.url, "api_key": "right"})
            assert model.connected
            await model.close()

    async def test_nobody_listens(self) -> None:
        with pytest.raises(RealtimeDisconnected, match="could not be connected"):
            await OpenAIRealtimeWebSocketModel().connect({"url": "ws://127.0.0.1:1/v1/realtime", "api_key": "k"})

    @each(
        "location", ["/v1/realtime?model=other", "ws://127.0.0.1:{port}/elsewhere", "ws://localhost:{port}/v1/realtime"]
    )
    async def test_a_redirect_is_not_followed(self, location: str) -> None:
        asked: list[bytes] = []

        async def redirects(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            head = f"HTTP/1.1 302 Found\r\nLocation: {location.format(port=port)}\r\nContent-Length: 0\r\n\r\n"
            writer.write(head.encode())

        async with answering(redirects) as port:
            url = f"ws://127.0.0.1:{port}/v1/realtime"
            with pytest.raises(RealtimeDisconnected, match="302"):
                await OpenAIRealtimeWebSocketModel().connect({"url": url, "headers": {"api-key": "s3cret"}})
            assert len(asked) == 1

    async def test_what_is_none_is_as_if_it_were_not_given(self) -> None:
        none: Any = {"headers": None, "call_id": None, "playback_tracker": None}
        async with talking(settings={"voice": None, "tools": None, "audio": None}, **none) as (_, server, _heard):
            await server.sent("session.updated")
            assert "tools" not in server.messages[0]["session"]
            assert server.errors == []

    async def test_a_handshake_that_takes_too_long(self) -> None:
        async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await reader.read()

        model = OpenAIRealtimeWebSocketModel(transport_config={"handshake_timeout": 0.05})
        async with answering(silent) as port:
            with pytest.raises(RealtimeDisconnected, match="could not be connected"):
                await model.connect({"url": f"ws://127.0.0.1:{port}/v1/realtime", "api_key": "k"})

    @each(
        ("options", "said"),
        [
            ({"url": "http://x"}, "no websocket address"),
            ({"uri": "ws://x"}, r"has no \['uri'\]"),
            ({"initial_model_settings": {"vocie": "ash"}}, r"have no \['vocie'\]"),
            ({"initial_model_settings": {"modalities": ["video"]}}, "modalities must be"),
            ({"initial_model_settings": {"input_audio_format": "mp3"}}, "audio format 'mp3' is not known"),
            ({"api_key": ""}, "api_key must be a text"),
        ],
    )
    async def test_what_is_wrong_is_named_before_anything_is_sent(self, options: Any, said: str) -> None:
        with pytest.raises(UserError, match=said):
            await OpenAIRealtimeWebSocketModel().connect({"api_key": "k", **options})

    async def test_transport_settings_are_checked(self) -> None:
        with pytest.raises(UserError, match=r"has no \['max_queue'\]"):
            OpenAIRealtimeWebSocketModel(transport_config={"max_queue": 1})

    async def test_connecting_twice_is_refused(self) -> None:
        async with talking() as (model, server, _):
            with pytest.raises(UserError, match="connected already"):
                await model.connect({"url": server.url, "api_key": "k"})


class TestNotConnected:
    @each("event", EVENTS)
    async def test_an_event_is_never_lost_silently(self, event: Any) -> None:
        with pytest.raises(RealtimeDisconnected, match="not connected"):
            await OpenAIRealtimeWebSocketModel().send_event(event)
        async with talking() as (model, server, heard):
            await server.hang_up(abrupt=True)
            with pytest.raises(RealtimeDisconnected):
                await self._until_it_is_noticed(model, event)
            await heard.until("connection_status", 3)
            await model.close()
            with pytest.raises(RealtimeDisconnected, match="not connected"):
                await model.send_event_if(event, lambda: True)

    async def test_closing_what_is_not_open_does_nothing(self) -> None:
        model = OpenAIRealtimeWebSocketModel()
        await model.close()
        assert not model.connected

    @staticmethod
    async def _until_it_is_noticed(model: OpenAIRealtimeWebSocketModel, event: Any) -> None:
        while True:  # what the operating system took until then was handed over
            await model.send_event(event)
            await turns_of_the_loop()


class TestTheEnd:
    @each(
        ("part", "clean"),
        [
            (HangUp(), True),
            (HangUp(code=1001), True),
            (HangUp(code=1011, reason="oops"), False),
            (HangUp(abrupt=True), False),
            (SessionExpires(), True),
        ],
    )
    async def test_it_is_told_once_and_an_unclean_one_with_its_exception(self, part: Any, clean: bool) -> None:
        async with talking([Turn(Say("One"), part)]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("connection_status", 3)
            await server.disconnected()
            assert [event.status for event in heard.of("connection_status")][2:] == ["disconnected"]
            assert len(heard.of("exception")) == (0 if clean else 1)
            assert not model.connected
            await model.close()
            assert len(heard.of("connection_status")) == 3

    async def test_an_oversized_message_ends_the_connection_and_says_why(self) -> None:
        big = Turn(Frame('{"type":"x","data":"' + "a" * 5000 + '"}'))
        async with talking([big], transport={"max_size": 4096}) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("connection_status", 3)
            [told] = heard.of("exception")
            assert "too big" in str(told.exception) or "1009" in str(told.exception)

    async def test_closing_tells_it_before_it_returns(self) -> None:
        async with talking() as (model, server, heard):
            await model.close()
            assert heard.events[-1].status == "disconnected"
            await server.disconnected()
            assert heard.of("exception") == []

    async def test_a_listener_may_close_the_model(self) -> None:
        class Closes(Heard):
            async def on_event(self, event: Any) -> None:
                await super().on_event(event)
                if event.type == "turn_started":
                    await model.close()

        async with RealtimeServer(["One two three"]) as server:
            model = OpenAIRealtimeWebSocketModel()
            heard = Closes()
            model.add_listener(heard)
            await model.connect({"url": server.url, "api_key": "k"})
            await model.send_event(RealtimeModelSendUserInput("hi"))
            async with asyncio.timeout(5):
                await server.disconnected()
            assert [event.status for event in heard.of("connection_status")][-1] == "disconnected"
            assert len(heard.of("connection_status")) == 3

    async def test_a_listener_that_fails_stops_nobody(self, caplog: pytest.LogCaptureFixture) -> None:
        class Fails(Heard):
            async def on_event(self, event: Any) -> None:
                raise RuntimeError("a listener's mistake")

        async with talking(["Hello."]) as (model, _server, heard):
            model.add_listener(Fails())
            model.add_listener(heard)  # once is enough
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            assert len(heard.of("turn_started")) == 1
        assert "a listener of the realtime model failed" in caplog.text


class TestAgain:
    async def test_a_new_connection_knows_nothing_of_the_old_one(self) -> None:
        script = [
            Turn(Call("pay", call_id="c1"), HangUp(abrupt=True)),
            Turn(Call("pay", call_id="c1")),
            Turn(Say("Done.")),
        ]
        async with talking(script) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay"))
            await heard.until("connection_status", 3)
            await model.connect({"url": server.url, "api_key": "k"})
            assert [event.status for event in heard.of("connection_status")][3:] == ["connecting", "connected"]
            # The old response never ended. It keeps no new one from starting, and its call is one of this connection.
            await model.send_event(RealtimeModelSendUserInput("pay"))
            calls = await heard.until("function_call", 2)
            await heard.until("turn_ended")
            await model.send_event(RealtimeModelSendToolOutput(calls[1], "ok", start_response=True))
            await heard.until("turn_ended", 2)
            assert server.outputs == {"c1": ["ok"]}
            assert [len(line.outputs) for line in server.lines] == [0, 1]
            assert server.errors == []

    async def test_a_result_of_the_old_connection_is_delivered_on_the_new_one(self) -> None:
        script = [Turn(Call("pay", {"to": "ann"}, "c1"), HangUp(abrupt=True)), "Paid."]
        async with talking(script) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay ann"))
            [call] = await heard.until("function_call")
            await heard.until("connection_status", 3)
            with pytest.raises(RealtimeDisconnected):
                await model.send_event(RealtimeModelSendToolOutput(call, "paid", start_response=True))
            await model.connect({"url": server.url, "api_key": "k"})
            await model.send_event(RealtimeModelSendToolOutput(call, "paid", start_response=True))
            await heard.until("turn_ended")
            assert server.outputs == {"c1": ["paid"]}
            called, answer, _ = server.line.items
            assert (called["type"], called["name"], called["arguments"]) == ("function_call", "pay", '{"to": "ann"}')
            assert (answer["type"], answer["call_id"]) == ("function_call_output", "c1")
            assert len(heard.of("function_call")) == 1, "the model did not call it again"
            assert server.errors == []

    async def test_a_call_that_the_session_told_again_is_not_told_twice(self) -> None:
        call = RealtimeModelToolCallEvent("pay", "c1", "{}")
        item = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
        again: Any = {"type": "conversation.item.create", "other_data": {"item": item}}
        async with talking() as (model, server, _heard):
            await model.send_event(RealtimeModelSendRawMessage(again))
            for output in ("one", "two"):
                await model.send_event(RealtimeModelSendToolOutput(call, output, start_response=False))
            await server.received("conversation.item.create", 3)
            await server.sent("conversation.item.done", 3)
            assert [each["type"] for each in server.line.items].count("function_call") == 1

    async def test_whoever_is_cancelled_while_connecting_leaves_no_connection(self) -> None:
        class Waits(Heard):
            async def on_event(self, event: Any) -> None:
                await super().on_event(event)
                if event.type == "connection_status" and event.status == "connected":
                    await never()

        async with RealtimeServer() as server:
            model = OpenAIRealtimeWebSocketModel()
            heard = Waits()
            model.add_listener(heard)
            connecting = asyncio.create_task(model.connect({"url": server.url, "api_key": "k"}))
            await heard.until("connection_status", 2)
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            assert not model.connected
            await server.disconnected()

    async def test_it_may_begin_before_a_listener_has_heard_of_the_end(self) -> None:
        class Reconnects(Heard):
            async def on_event(self, event: Any) -> None:
                await super().on_event(event)
                if event.type != "function_call" or len(self.of("function_call")) > 1:
                    return
                await server.hang_up(abrupt=True)
                with pytest.raises(RealtimeDisconnected):
                    await TestNotConnected._until_it_is_noticed(model, RealtimeModelSendToolOutput(event, "ok", True))
                await model.connect({"url": server.url, "api_key": "k"})

        async with RealtimeServer([Turn(Call("pay", call_id="c1"), Gate()), "Again."]) as server:
            model = OpenAIRealtimeWebSocketModel()
            heard = Reconnects()
            model.add_listener(heard)
            await model.connect({"url": server.url, "api_key": "k"})
            await model.send_event(RealtimeModelSendUserInput("pay"))
            await heard.until(lambda: len(server.lines) == 2)
            await heard.until(lambda: [event.status for event in heard.of("connection_status")][-1] == "connected")
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            statuses = [event.status for event in heard.of("connection_status")]
            assert statuses == ["connecting", "connected", "disconnected", "connecting", "connected"]
            await model.close()

    async def test_wishes_of_the_old_connection_are_not_asked_for_again(self) -> None:
        gate = Gate()
        async with talking([Turn(Say("One"), gate)]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await gate.reached()
            await heard.until("audio")
            await model.send_event(RealtimeModelSendUserInput("and?"))
            await server.hang_up(abrupt=True)
            await heard.until("connection_status", 3)
            await model.connect({"url": server.url, "api_key": "k"})
            await server.sent(lambda event: event["type"] == "session.updated", 2)
            assert [message["type"] for message in server.line.messages] == ["session.update"]


class TestCalls:
    async def test_a_call_is_attached_to_by_its_id(self) -> None:
        async with RealtimeServer() as server:
            model = OpenAIRealtimeSIPModel()
            url = server.url.replace("model=gpt-realtime-2.1", "call_id=rtc_1")
            await model.connect({"url": url, "api_key": "k", "call_id": "rtc_1"})
            await server.received("session.update")
            assert server.line.path == "/v1/realtime?call_id=rtc_1"
            await model.close()

    async def test_without_an_id_there_is_no_call(self) -> None:
        with pytest.raises(UserError, match="give call_id"):
            await OpenAIRealtimeSIPModel().connect({"api_key": "k"})

    def test_the_provider_is_asked_for_a_model_or_for_a_call(self) -> None:
        model = OpenAIRealtimeWebSocketModel()
        asked = [model._url({}, {"model_name": "gpt realtime"}), model._url({"call_id": "rtc_1"}, {})]
        assert asked == [
            "wss://api.openai.com/v1/realtime?model=gpt+realtime",
            "wss://api.openai.com/v1/realtime?call_id=rtc_1",
        ]
