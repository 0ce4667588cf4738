"""What OpenAI's realtime model sends: all of it is what the protocol allows, and no response is asked for too early."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest

from keyturn import Agent, HostedMCPTool, MCPToolChoice, UserError, WebSearchTool, function_tool, handoff
from keyturn.realtime import (
    RealtimeModelSendAudio,
    RealtimeModelSendInterrupt,
    RealtimeModelSendRawMessage,
    RealtimeModelSendSessionUpdate,
    RealtimeModelSendToolOutput,
    RealtimeModelSendUserInput,
    RealtimeModelToolCallEvent,
    RealtimePlaybackTracker,
)
from keyturn.realtime.openai_session import session_of
from keyturn.realtime.openai_turns import ResponseTurns
from keyturn.realtime.openai_voice import CutOff, Voice
from keyturn.testing.loopback.realtime import AskApproval, Call, Gate, Say, Turn, UserSpeaks, Write, tone
from keyturn.testing.loopback.realtime_rules import check_client
from tests.realtime.listening import stillness, talking
from tests.table import each
from tests.waiting import never


@function_tool
def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


def kinds(server: Any) -> list[str]:
    return [message["type"] for message in server.messages][1:]


class TestSettings:
    @each(
        ("settings", "wanted"),
        [
            ({}, {}),
            ({"modalities": ["text", "audio"]}, {"output_modalities": ["audio"]}),
            ({"modalities": ["audio"], "output_modalities": ["text"]}, {"output_modalities": ["text"]}),
            ({"max_output_tokens": "inf", "parallel_tool_calls": False}, None),
            ({"reasoning": {"effort": "low"}, "prompt": {"id": "pmpt_1"}}, None),
            (
                {"voice": {"id": "v"}, "speed": 1.5},
                {"audio": {"output": {"voice": {"id": "v"}, "speed": 1.5}}},
            ),
            ({"voice": "ash", "audio": {"output": {"voice": "cedar"}}}, {"audio": {"output": {"voice": "cedar"}}}),
            ({"turn_detection": None}, {"audio": {"input": {"turn_detection": None}}}),
            (
                {"turn_detection": {"silence_duration_ms": 300}},
                {"audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 300}}}},
            ),
            (
                {"turn_detection": {"eagerness": "low"}},
                {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}}},
            ),
            (
                {"input_audio_format": "g711_ulaw", "audio": {"output": {"format": {"type": "audio/pcma"}}}},
                {"audio": {"input": {"format": {"type": "audio/pcmu"}}, "output": {"format": {"type": "audio/pcma"}}}},
            ),
            (
                {"input_audio_noise_reduction": {"type": "near_field"}},
                {"audio": {"input": {"noise_reduction": {"type": "near_field"}}}},
            ),
            ({"tracing": {"workflow_name": "desk", "metadata": {"a": "b"}}}, None),
            ({"tracing": None}, None),
            ({"tool_choice": "required"}, None),
            ({"tool_choice": "pay"}, {"tool_choice": {"type": "function", "name": "pay"}}),
            (
                {"tool_choice": MCPToolChoice("wiki", "search")},
                {"tool_choice": {"type": "mcp", "server_label": "wiki", "name": "search"}},
            ),
        ],
    )
    def test_they_become_a_session_that_the_protocol_allows(self, settings: Any, wanted: Any) -> None:
        session = session_of(settings)
        assert session == {"type": "realtime", **(settings if wanted is None else wanted)}
        check_client({"type": "session.update", "session": session})

    def test_tools_and_handoffs_are_functions_and_mcp_servers_ask(self) -> None:
        wiki = HostedMCPTool({"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"})
        trusted: Any = {**wiki.tool_config, "require_approval": "never"}
        session = session_of(
            {
                "tools": [pay, wiki, HostedMCPTool(trusted)],
                "handoffs": [handoff(Agent("Billing"))],
                "tool_choice": "auto",
            }
        )
        check_client({"type": "session.update", "session": session})
        function, asks, never, transfer = session["tools"]
        assert (function["type"], function["name"], function["description"]) == ("function", "pay", "Pay somebody.")
        assert set(function["parameters"]["properties"]) == {"to", "amount"}
        assert (asks["require_approval"], never["require_approval"]) == ("always", "never")
        assert (transfer["type"], transfer["name"]) == ("function", "transfer_to_billing")

    def test_a_tool_that_cannot_run_here_is_refused(self) -> None:
        with pytest.raises(UserError, match=r"'web_search'.* does not run in a realtime session"):
            session_of({"tools": [WebSearchTool()]})

    async def test_an_update_says_only_what_it_names(self) -> None:
        async with talking(settings={"tools": [pay]}) as (model, server, _):
            await model.send_event(
                RealtimeModelSendSessionUpdate({"instructions": "x", "model_name": "gpt-realtime-2.1"})
            )
            await model.send_event(RealtimeModelSendSessionUpdate({"handoffs": [handoff(Agent("Billing"))]}))
            await model.send_event(RealtimeModelSendSessionUpdate({"turn_detection": None}))
            updates = [message["session"] for message in await server.received("session.update", 4)]
            assert updates[1] == {"type": "realtime", "instructions": "x"}
            assert [tool["name"] for tool in updates[2]["tools"]] == ["pay", "transfer_to_billing"]
            assert updates[3] == {"type": "realtime", "audio": {"input": {"turn_detection": None}}}
            await server.sent("session.updated", 4)
            assert server.errors == []


class TestUserInput:
    async def test_a_text_and_a_message_with_an_image(self) -> None:
        image = "data:image/png;base64,AAAA"
        async with talking(["One.", "Two."]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await heard.until("turn_ended")
            content: list[Any] = [
                {"type": "input_text", "text": "what is this?"},
                {"type": "input_image", "image_url": image, "detail": "low"},
            ]
            message: Any = {"type": "message", "role": "user", "content": content}
            await model.send_event(RealtimeModelSendUserInput(message))
            await heard.until("turn_ended", 2)
            assert kinds(server) == ["conversation.item.create", "response.create"] * 2
            first, second = (message["item"] for message in await server.received("conversation.item.create", 2))
            assert first == {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
            assert second["content"] == content
            assert server.errors == []

    @each(
        ("given", "said"),
        [
            (5, "user_input must be a text"),
            ({"content": "hi"}, "user_input must be a text"),
            ({"role": "system", "content": []}, "its role cannot be 'system'"),
            ({"content": [{"type": "input_audio", "audio": ""}]}, "each part of its content"),
            ({"content": [{"type": "input_text"}]}, "each part of its content"),
            ({"content": ["hi"]}, "each part of its content"),
        ],
    )
    async def test_what_is_no_input_is_refused_and_nothing_is_sent(self, given: Any, said: str) -> None:
        async with talking() as (model, server, _):
            with pytest.raises(UserError, match=said):
                await model.send_event(RealtimeModelSendUserInput(given))
            await model.send_event(RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"}))
            await server.received("input_audio_buffer.clear")
            assert kinds(server) == ["input_audio_buffer.clear"]


class TestAudio:
    async def test_it_is_appended_in_pieces_and_committed(self) -> None:
        audio = bytes(600_000)
        async with talking(settings={"turn_detection": None}) as (model, server, heard):
            await model.send_event(RealtimeModelSendAudio(audio, commit=True))
            await heard.until("item_updated")
            assert kinds(server) == ["input_audio_buffer.append"] * 3 + ["input_audio_buffer.commit"]
            sent = [base64.b64decode(each["audio"]) for each in await server.received("input_audio_buffer.append")]
            assert b"".join(sent) == audio
            assert all(len(piece) % 2 == 0 for piece in sent)
            assert server.errors == []

    async def test_speech_is_heard_transcribed_and_answered(self) -> None:
        async with talking(["Noon."]) as (model, server, heard):
            server.line.heard.append("What time is it?")
            await model.send_event(RealtimeModelSendAudio(tone(300)))
            await model.send_event(RealtimeModelSendAudio(bytes(48 * 600)))
            await heard.until("turn_ended")
            [transcribed] = heard.of("input_audio_transcription_completed")
            assert transcribed.transcript == "What time is it?"
            assert kinds(server) == ["input_audio_buffer.append"] * 2
            assert server.errors == []

    @each("given", ["text", None, [0, 1]])
    async def test_what_is_no_audio_is_refused(self, given: Any) -> None:
        async with talking() as (model, _server, _heard):
            with pytest.raises(UserError, match="audio must be bytes"):
                await model.send_event(RealtimeModelSendAudio(given))

    @pytest.mark.trial
    async def test_a_slow_server_slows_the_sender_down(self) -> None:
        """Nothing is buffered without bound: what the server does not read waits with whoever sends it."""
        handed = 0
        piece = random.Random(1).randbytes(256 * 1024)  # what cannot be made smaller on the way

        async def hears_nothing(_audio: bytes) -> None:
            await never()

        async def pour(model: Any) -> None:
            nonlocal handed
            while handed < 2_000:
                await model.send_event(RealtimeModelSendAudio(piece))
                handed += 1

        async with talking(settings={"turn_detection": None}) as (model, server, _):
            await server.sent("session.updated")
            server.line.ear.hear = hears_nothing
            pouring = asyncio.create_task(pour(model))
            await stillness(lambda: handed)
            assert 0 < handed < 200, "500 MB went somewhere"
            pouring.cancel()
            await server.hang_up(abrupt=True)


class TestResponses:
    async def test_results_of_one_turn_ask_for_one_response(self) -> None:
        gate = Gate()
        script = [Turn(Call("pay", call_id="c1"), Call("pay", call_id="c2"), gate, Call("pay", call_id="c3")), "Done."]
        async with talking(script) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay three"))
            for number in (1, 2, 3):
                call = (await heard.until("function_call", number))[number - 1]
                await model.send_event(RealtimeModelSendToolOutput(call, f"ok {number}", start_response=True))
                if number == 2:
                    gate.open()
            await heard.until("turn_ended", 2)
            assert kinds(server).count("response.create") == 2
            assert server.outputs == {"c1": ["ok 1"], "c2": ["ok 2"], "c3": ["ok 3"]}
            assert server.errors == []

    async def test_a_result_that_starts_nothing_starts_nothing(self) -> None:
        async with talking([[Call("pay", call_id="c1")]]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("pay"))
            [call] = await heard.until("function_call")
            await heard.until("turn_ended")
            await model.send_event(RealtimeModelSendToolOutput(call, "ok", start_response=False))
            assert await server.answered("c1") == "ok"
            assert kinds(server).count("response.create") == 1
            done = heard.of("item_updated")[-1].item
            assert (done.status, done.output, done.call_id) == ("completed", "ok", "c1")

    async def test_one_that_is_refused_is_asked_for_again(self) -> None:
        """The server begins one by itself at the same moment, as turn detection does."""
        gate = Gate()
        async with talking(["Second."]) as (model, server, heard):
            await server.sent("session.updated")
            await server.speak(Turn(gate, Write("First.")))
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await server.sent("error")
            gate.open()
            await heard.until("turn_ended", 2)
            assert kinds(server).count("response.create") == 2
            assert [error["code"] for error in server.errors] == ["conversation_already_has_active_response"]
            assert heard.of("error") == [], "it was mended here"
            assert (
                "".join(event.delta for event in heard.of("output_text_delta", "transcript_delta")) == "First.Second."
            )

    async def test_own_words_wait_their_turn_and_keep_them(self) -> None:
        gate = Gate()
        async with talking([Turn("One", gate), "Two", "Three"]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await gate.reached()
            wish: dict[str, Any] = {"response": {"instructions": "Sing."}}
            await model.send_event(RealtimeModelSendRawMessage({"type": "response.create", "other_data": wish}))
            await model.send_event(RealtimeModelSendRawMessage({"type": "response.create"}))
            await model.send_event(RealtimeModelSendUserInput("and?"))
            gate.open()
            await heard.until("turn_ended", 3)
            asked = [message.get("response") for message in await server.received("response.create", 3)]
            assert asked == [None, wish["response"], None]
            assert server.errors == []

    async def test_one_apart_from_the_conversation_neither_waits_nor_blocks(self) -> None:
        gate, other = Gate(), Gate()
        async with talking([Turn("One", gate), Turn(other, Write("aside")), "Two"]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("hi"))
            await gate.reached()
            apart: dict[str, Any] = {"response": {"conversation": "none"}}
            await model.send_event(RealtimeModelSendRawMessage({"type": "response.create", "other_data": apart}))
            await other.reached()
            gate.open()
            await heard.until("turn_ended")
            await model.send_event(RealtimeModelSendUserInput("more"))
            await heard.until("turn_ended", 2)
            other.open()
            await heard.until("turn_ended", 3)
            assert server.errors == []

    def test_wishes_with_words_of_their_own_are_bounded(self) -> None:
        turns = ResponseTurns()
        turns.hear({"type": "response.created", "response": {"id": "r1"}})
        for number in range(64):
            turns.want({"response": {"instructions": str(number)}})
        with pytest.raises(UserError, match="64 responses are waiting"):
            turns.want({"response": {}})

    def test_a_failure_of_another_kind_frees_the_way(self) -> None:
        turns = ResponseTurns()
        turns.want({})
        asked = turns.next()
        assert asked is not None
        turns.want({})
        assert turns.next() is None
        assert not turns.hear({"type": "error", "error": {"event_id": asked["event_id"], "code": "rate_limited"}})
        assert turns.next() is not None

    def test_an_error_that_does_not_say_what_it_is_about_blocks_nothing(self) -> None:
        turns = ResponseTurns()
        turns.want({})
        assert turns.next() is not None
        turns.hear({"type": "error", "error": {"message": "oops", "event_id": None}})
        turns.want({})
        assert turns.next() is not None

    def test_the_order_of_events_never_blocks_it_for_ever(self) -> None:
        turns = ResponseTurns()
        for event in (
            {"type": "response.done", "response": {"id": "r1"}},
            {"type": "response.created", "response": {"id": "r1"}},
            {"type": "response.done", "response": {"id": "r1"}},
            {"type": "response.created", "response": "?"},
            {"type": "response.done", "response": None},
            {"type": "error", "error": []},
        ):
            turns.hear(event)
        turns.want({})
        assert turns.next() is not None


class TestInterrupt:
    async def test_it_cancels_and_says_how_much_was_heard(self) -> None:
        tracker, gate = RealtimePlaybackTracker(), Gate()
        script = [Turn(Say("One two three four", word_ms=500), gate, Say("five")), "Again."]
        async with talking(script, playback_tracker=tracker) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            [first, *_] = await heard.until("audio", 4)
            await gate.reached()
            tracker.on_play_ms(first.item_id, first.content_index, 700)
            await model.send_event(RealtimeModelSendInterrupt())
            [cut] = await heard.until("audio_interrupted")
            assert (cut.item_id, cut.content_index) == (first.item_id, 0)
            [truncated] = await server.received("conversation.item.truncate")
            assert (truncated["item_id"], truncated["audio_end_ms"]) == (first.item_id, 700)
            [cancelled] = await server.received("response.cancel")
            assert cancelled["response_id"] == heard.of("turn_started")[0].response_id
            await heard.until("turn_ended")
            assert (await server.received("conversation.item.retrieve"))[0]["item_id"] == first.item_id
            await server.sent("conversation.item.retrieved")
            await model.send_event(RealtimeModelSendInterrupt())
            await model.send_event(RealtimeModelSendUserInput("again"))
            await heard.until("turn_ended", 2)
            assert len(heard.of("audio_interrupted")) == 1
            assert tracker.get_state()["current_item_id"] is None
            assert server.errors == []

    async def test_without_a_tracker_it_never_claims_more_than_has_come(self) -> None:
        gate = Gate()
        async with talking([Turn(Say("One", word_ms=10), gate)]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            await heard.until("audio_done")
            await gate.reached()
            await model.send_event(RealtimeModelSendInterrupt())
            await heard.until("turn_ended")
            assert all(each["audio_end_ms"] <= 10 for each in server.messages if each["type"].endswith("truncate"))
            assert server.errors == []

    def test_without_a_tracker_it_is_played_as_fast_as_it_lasts(self) -> None:
        now = 100.0
        voice = Voice(None, lambda: now)
        assert voice.cut() is None
        voice.hear(("i1", 0), 48_000)
        now = 100.4
        cut = voice.cut()
        assert cut is not None
        assert (cut.item_id, round(cut.heard_ms or 0)) == ("i1", 400)
        assert not voice.hear(("i1", 0), 48_000), "it was cut off"
        assert voice.cut() is None
        voice.hear(("i2", 0), 48_000)
        voice.finish(("i2", 0))
        now = 101.6
        cut = voice.cut()
        assert cut == CutOff("i2", 0, None), "a player may be behind, and all of it has been heard"
        voice.hear(("i3", 0), 48_000)
        voice.finish(("i3", 0))
        now = 110.0
        assert voice.cut() is None, "it ended long ago"

    async def test_what_was_cut_off_is_not_played_on(self) -> None:
        gate = Gate()
        async with talking([Turn(Say("One two", word_ms=500), gate, UserSpeaks())]) as (model, _server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            [*_, last] = await heard.until("audio", 2)
            await gate.reached()
            await model.send_event(RealtimeModelSendInterrupt(playback_only=True))
            late = {**heard.raw("response.output_audio.delta")[-1], "event_id": "late"}
            await _server.send(late)
            gate.open()
            await heard.until("turn_ended")
            assert len(heard.raw("response.output_audio.delta")) == 3
            assert heard.of("audio")[-1] is last

    async def test_speech_of_the_user_is_one(self) -> None:
        gate = Gate()
        async with talking([Turn(Say("One two", word_ms=900), gate, Say("never"))]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            await gate.reached()
            await heard.until("audio", 2)
            await model.send_event(RealtimeModelSendAudio(tone(100)))
            await heard.until("audio_interrupted")
            await heard.until("turn_ended")
            await server.received("conversation.item.truncate")
            assert "response.cancel" not in kinds(server), "the server does that itself"
            await server.sent("conversation.item.truncated")
            assert server.errors == []

    @each("settings", [{"turn_detection": {"type": "server_vad", "interrupt_response": False}}])
    async def test_speech_is_none_where_the_settings_say_so(self, settings: Any) -> None:
        gate = Gate()
        async with talking([Turn(Say("One two"), gate, Write("three"))], settings=settings) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            await gate.reached()
            await model.send_event(RealtimeModelSendAudio(tone(100)))
            await server.sent("input_audio_buffer.speech_started")
            gate.open()
            await heard.until("turn_ended")
            assert heard.of("audio_interrupted") == []
            assert heard.of("output_text_delta")[0].delta == "three"

    @each(
        ("event", "sent"),
        [
            (RealtimeModelSendInterrupt(), []),
            (RealtimeModelSendInterrupt(playback_only=True), []),
            (RealtimeModelSendInterrupt(force_response_cancel=True), ["response.cancel"]),
            (RealtimeModelSendInterrupt(response_id="resp_9"), []),
        ],
    )
    async def test_where_nothing_is_said_nothing_is_cut_off(self, event: Any, sent: list[str]) -> None:
        async with talking() as (model, server, heard):
            await model.send_event(event)
            await model.send_event(RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"}))
            await server.received("input_audio_buffer.clear")
            assert kinds(server) == [*sent, "input_audio_buffer.clear"]
            assert heard.of("audio_interrupted") == []

    async def test_a_response_can_be_cancelled_and_its_voice_left_alone(self) -> None:
        gate = Gate()
        async with talking([Turn(Say("One two", word_ms=900), gate)]) as (model, server, heard):
            await model.send_event(RealtimeModelSendUserInput("count"))
            await gate.reached()
            await heard.until("audio", 2)
            await model.send_event(RealtimeModelSendInterrupt(cancel_response_only=True))
            await heard.until("turn_ended")
            assert heard.of("audio_interrupted") == []
            assert kinds(server)[2:] == ["response.cancel"]


class TestOtherEvents:
    async def test_an_approval_request_is_answered_by_a_raw_message(self) -> None:
        async with talking([AskApproval("wiki", "search", '{"q":"x"}', id="mcpr_1"), "Done."]) as (
            model,
            server,
            heard,
        ):
            await model.send_event(RealtimeModelSendUserInput("look it up"))
            [asked] = await heard.until("mcp_approval_request")
            assert asked.item == {
                "id": "mcpr_1",
                "type": "mcp_approval_request",
                "server_label": "wiki",
                "name": "search",
                "arguments": '{"q":"x"}',
            }
            answer = {"type": "mcp_approval_response", "id": "a1", "approval_request_id": "mcpr_1", "approve": True}
            other = {"other_data": {"item": answer}}
            await model.send_event(RealtimeModelSendRawMessage({"type": "conversation.item.create", **other}))
            await server.received("conversation.item.create", 2)
            await heard.until(lambda: len(heard.raw("conversation.item.done")) == 4)
            assert [each.request_id for each in await heard.until("hosted_call_ended")] == ["mcpr_1"]
            assert server.approvals == {"mcpr_1": [True]}
            assert heard.of("function_call") == []
            assert len(heard.of("mcp_approval_request")) == 1

    @each(
        ("message", "said"),
        [
            ({}, "message must be"),
            ("response.create", "message must be"),
            ({"type": 5}, "message must be"),
            ({"type": "x", "other_data": []}, None),
            ({"type": "x", "other_data": "y"}, "other_data must be a dict"),
            ({"type": "x", "item": {}}, r"\['item'\]"),
            ({"type": "response.create", "other_data": {"response": {"metadata": {"a": float("nan")}}}}, "as JSON"),
            ({"type": "response.create", "other_data": {"response": object()}}, "as JSON"),
        ],
    )
    async def test_a_raw_message_of_another_shape_is_refused(self, message: Any, said: str | None) -> None:
        async with talking() as (model, _server, _heard):
            if said is None:
                await model.send_event(RealtimeModelSendRawMessage(message))
                return
            with pytest.raises(UserError, match=said):
                await model.send_event(RealtimeModelSendRawMessage(message))

    async def test_what_is_no_event_is_refused(self) -> None:
        async with talking() as (model, _server, _heard):
            with pytest.raises(UserError, match="cannot be sent a str"):
                await model.send_event("hi")
            call = RealtimeModelToolCallEvent("pay", "c1", "{}")
            with pytest.raises(UserError, match="output must be a text"):
                await model.send_event(RealtimeModelSendToolOutput(call, {"a": 1}, True))

    async def test_an_event_is_sent_only_if_it_still_should_be(self) -> None:
        async with talking() as (model, server, _):
            clear = RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"})
            assert await model.send_event_if(clear, lambda: False) is False
            assert await model.send_event_if(clear, lambda: True) is True
            await server.received("input_audio_buffer.clear")
            assert kinds(server) == ["input_audio_buffer.clear"]
