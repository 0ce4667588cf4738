"""Programs of the OpenAI Agents SDK keep working after the changed import: names, fields, defaults and tags are theirs.

The tables are facts, looked up in openai-agents 0.24.0.
"""

from __future__ import annotations

import abc
import ast
import asyncio
import dataclasses
import doctest
import importlib
import inspect
import typing
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

import keyturn.realtime as realtime
from keyturn import UserError
from keyturn.realtime import model, model_events, model_inputs
from keyturn.testing.loopback import realtime_script
from tests.table import each

NO = dataclasses.MISSING

# Class: its fields in their order, each with its default.
DATACLASSES: dict[str, dict[str, Any]] = {
    "RealtimeModelErrorEvent": {"error": NO, "type": "error"},
    "RealtimeModelToolCallEvent": {
        "name": NO,
        "call_id": NO,
        "arguments": NO,
        "id": None,
        "previous_item_id": None,
        "type": "function_call",
    },
    "RealtimeModelAudioEvent": {"data": NO, "response_id": NO, "item_id": NO, "content_index": NO, "type": "audio"},
    "RealtimeModelAudioInterruptedEvent": {"item_id": NO, "content_index": NO, "type": "audio_interrupted"},
    "RealtimeModelAudioDoneEvent": {"item_id": NO, "content_index": NO, "type": "audio_done"},
    "RealtimeModelInputAudioTranscriptionCompletedEvent": {
        "item_id": NO,
        "transcript": NO,
        "type": "input_audio_transcription_completed",
    },
    "RealtimeModelInputAudioTimeoutTriggeredEvent": {
        "item_id": NO,
        "audio_start_ms": NO,
        "audio_end_ms": NO,
        "type": "input_audio_timeout_triggered",
    },
    "RealtimeModelTranscriptDeltaEvent": {"item_id": NO, "delta": NO, "response_id": NO, "type": "transcript_delta"},
    "RealtimeModelOutputTextDeltaEvent": {"item_id": NO, "delta": NO, "response_id": NO, "type": "output_text_delta"},
    "RealtimeModelItemUpdatedEvent": {"item": NO, "type": "item_updated"},
    "RealtimeModelItemDeletedEvent": {"item_id": NO, "type": "item_deleted"},
    "RealtimeModelConnectionStatusEvent": {"status": NO, "type": "connection_status"},
    "RealtimeModelEndOfStreamEvent": {"type": "end_of_stream"},
    "RealtimeModelTurnStartedEvent": {"type": "turn_started", "response_id": None},
    "RealtimeModelCachedTokensDetails": {"text_tokens": None, "audio_tokens": None, "image_tokens": None},
    "RealtimeModelInputTokensDetails": {
        "text_tokens": None,
        "audio_tokens": None,
        "image_tokens": None,
        "cached_tokens": None,
        "cached_tokens_details": None,
    },
    "RealtimeModelOutputTokensDetails": {"text_tokens": None, "audio_tokens": None},
    "RealtimeModelUsageEvent": {
        "usage": NO,
        "input_tokens_details": None,
        "output_tokens_details": None,
        "type": "usage",
    },
    "RealtimeModelTurnEndedEvent": {"type": "turn_ended", "response_id": None},
    "RealtimeModelOtherEvent": {"data": NO, "type": "other"},
    "RealtimeModelExceptionEvent": {"exception": NO, "context": None, "type": "exception"},
    "RealtimeModelRawServerEvent": {"data": NO, "type": "raw_server_event"},
    "RealtimeModelSendRawMessage": {"message": NO},
    "RealtimeModelSendUserInput": {"user_input": NO},
    "RealtimeModelSendAudio": {"audio": NO, "commit": False},
    "RealtimeModelSendToolOutput": {"tool_call": NO, "output": NO, "start_response": NO},
    "RealtimeModelSendInterrupt": {
        "force_response_cancel": False,
        "response_id": None,
        "cancel_response_only": False,
        "playback_only": False,
    },
    "RealtimeModelSendSessionUpdate": {"session_settings": NO},
}

# What is there besides: it comes last, and programs may leave it out.
ADDED: dict[str, dict[str, Any]] = {
    "RealtimeModelToolCallEvent": {"response_id": None},
    "RealtimeModelTurnStartedEvent": {"settings_pending": False},
}

DICTIONARIES: dict[str, str] = {
    "RealtimePlaybackState": "current_item_id current_item_content_index elapsed_ms",
    "RealtimeModelConfig": "api_key url headers initial_model_settings playback_tracker call_id",
    "RealtimeModelRawClientMessage": "type other_data",
    "RealtimeModelInputTextContent": "type text",
    "RealtimeModelInputImageContent": "type image_url detail",
    "RealtimeModelUserInputMessage": "type role content",
    "RealtimeCustomVoice": "id",
    "RealtimeClientMessage": "type other_data",
    "RealtimeInputAudioTranscriptionConfig": "language model prompt keywords languages delay",
    "RealtimeInputAudioNoiseReductionConfig": "type",
    "RealtimeTurnDetectionConfig": "type create_response eagerness interrupt_response prefix_padding_ms "
    "silence_duration_ms threshold idle_timeout_ms model_version",
    "RealtimeAudioInputConfig": "format noise_reduction transcription turn_detection",
    "RealtimeAudioOutputConfig": "format voice speed",
    "RealtimeAudioConfig": "input output",
    "RealtimeReasoningConfig": "effort",
    "RealtimeSessionModelSettings": "model_name instructions prompt modalities output_modalities audio voice speed "
    "max_output_tokens input_audio_format output_audio_format input_audio_transcription input_audio_noise_reduction "
    "turn_detection tool_choice parallel_tool_calls reasoning tools handoffs tracing",
    "RealtimeGuardrailsSettings": "debounce_text_length",
    "RealtimeToolExecutionConfig": "pre_approval_tool_input_guardrails",
    "RealtimeModelTracingConfig": "workflow_name group_id metadata",
    "RealtimeRunConfig": "model_settings output_guardrails guardrails_settings tracing_disabled async_tool_calls "
    "tool_execution tool_error_formatter waiting_message reconnect_attempts close_timeout usage_limits",
    "RealtimeUserInputText": "type text",
    "RealtimeUserInputImage": "type image_url detail",
    "RealtimeUserInputMessage": "type role content",
    "TransportConfig": "ping_interval ping_timeout handshake_timeout max_size",
}

MODELS: dict[str, dict[str, Any]] = {
    "InputText": {"type": "input_text", "text": None},
    "InputAudio": {"type": "input_audio", "audio": None, "transcript": None},
    "InputImage": {"type": "input_image", "image_url": None, "detail": None},
    "AssistantText": {"type": "text", "text": None},
    "AssistantAudio": {"type": "audio", "audio": None, "transcript": None},
    "SystemMessageItem": {"item_id": NO, "previous_item_id": None, "type": "message", "role": "system", "content": NO},
    "UserMessageItem": {"item_id": NO, "previous_item_id": None, "type": "message", "role": "user", "content": NO},
    "AssistantMessageItem": {
        "item_id": NO,
        "previous_item_id": None,
        "type": "message",
        "role": "assistant",
        "status": None,
        "content": NO,
    },
    "RealtimeToolCallItem": {
        "item_id": NO,
        "previous_item_id": None,
        "call_id": NO,
        "type": "function_call",
        "status": NO,
        "arguments": NO,
        "name": NO,
        "output": None,
    },
    "RealtimeResponse": {"id": NO, "output": NO},
}

METHODS = {
    "connect": ["self", "options"],
    "add_listener": ["self", "listener"],
    "remove_listener": ["self", "listener"],
    "send_event": ["self", "event"],
    "send_event_if": ["self", "event", "send_if"],
    "close": ["self"],
}


@each("name", sorted(DATACLASSES))
def test_an_event_has_the_fields_defaults_and_tag_that_programs_know(name: str) -> None:
    found = {field.name: field.default for field in dataclasses.fields(getattr(realtime, name))}
    assert list(found.items()) == [*DATACLASSES[name].items(), *ADDED.get(name, {}).items()]


@each("name", sorted(DICTIONARIES))
def test_a_dictionary_has_the_keys_that_programs_know(name: str) -> None:
    assert list(getattr(realtime, name).__annotations__) == DICTIONARIES[name].split()


@each("name", sorted(MODELS))
def test_an_item_has_the_fields_that_programs_know(name: str) -> None:
    fields = getattr(realtime, name).model_fields
    found = {key: NO if field.is_required() else field.default for key, field in fields.items()}
    assert list(found.items()) == list(MODELS[name].items())


def test_the_seam_has_the_methods_that_programs_override() -> None:
    found = {name: list(inspect.signature(getattr(realtime.RealtimeModel, name)).parameters) for name in METHODS}
    assert found == METHODS
    assert realtime.RealtimeModel.__abstractmethods__ == METHODS.keys() - {"send_event_if"}
    assert realtime.RealtimeModelListener.__abstractmethods__ == {"on_event"}
    assert issubclass(realtime.RealtimeModel, abc.ABC)


def test_all_events_are_in_the_unions() -> None:
    events = {
        each for each in vars(model_events).values() if dataclasses.is_dataclass(each) and "type" in _fields(each)
    }
    sent = {each for each in vars(model_inputs).values() if dataclasses.is_dataclass(each) and "Send" in each.__name__}
    assert {*typing.get_args(realtime.RealtimeModelEvent)} == events
    assert {*typing.get_args(realtime.RealtimeModelSendEvent)} == sent


def _fields(each: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(each)}


def test_names_stand_at_the_paths_that_programs_import_from() -> None:
    from keyturn.realtime.audio_formats import to_realtime_audio_format
    from keyturn.realtime.config import RealtimeRunConfig
    from keyturn.realtime.items import AssistantAudio
    from keyturn.realtime.openai_realtime import DEFAULT_MODEL_SETTINGS, OpenAIRealtimeSIPModel, TransportConfig

    assert to_realtime_audio_format("g711_alaw") == {"type": "audio/pcma"}
    assert (RealtimeRunConfig, AssistantAudio) == (realtime.RealtimeRunConfig, realtime.AssistantAudio)
    assert OpenAIRealtimeSIPModel is realtime.OpenAIRealtimeSIPModel
    assert TransportConfig is realtime.TransportConfig
    assert model.RealtimePlaybackTracker is realtime.RealtimePlaybackTracker
    assert DEFAULT_MODEL_SETTINGS == {
        "voice": "ash",
        "modalities": ["audio"],
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
        "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
    }


def test_every_name_of_the_table_is_there() -> None:
    assert len(realtime.__all__) > 80
    assert all(getattr(realtime, name) is not None for name in realtime.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = realtime.no_such_name


def test_type_checkers_see_the_same_names() -> None:
    stub = Path(realtime.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.asname or "" for node in imports for alias in node.names) == sorted(realtime.__all__)


@pytest.mark.trial
def test_the_examples_run() -> None:
    found = [importlib.import_module(f"keyturn.realtime.{each.name}") for each in iter_modules(realtime.__path__)]
    done = [doctest.testmod(module) for module in [*found, realtime_script]]
    assert sum(result.failed for result in done) == 0
    assert sum(result.attempted for result in done) > 30


def test_a_playback_tracker_counts_what_was_played() -> None:
    tracker = realtime.RealtimePlaybackTracker()
    nothing = {"current_item_id": None, "current_item_content_index": None, "elapsed_ms": None}
    assert tracker.get_state() == nothing
    tracker.set_audio_format("pcm16")
    tracker.on_play_bytes("i", 0, bytes(4800))
    tracker.on_play_bytes("i", 0, bytes(4800))
    tracker.on_play_ms("i", 0, 50.5)
    assert tracker.get_state() == {"current_item_id": "i", "current_item_content_index": 0, "elapsed_ms": 250.5}
    tracker.set_audio_format("g711_ulaw")
    tracker.on_play_ms("j", 1, 10)
    tracker.on_play_bytes("j", 1, bytes(800))
    assert tracker.get_state() == {"current_item_id": "j", "current_item_content_index": 1, "elapsed_ms": 110.0}
    tracker.on_interrupted()
    assert tracker.get_state() == nothing


class TestKeys:
    def test_a_key_is_a_text_or_a_function(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def later() -> str:
            return "async"

        monkeypatch.setenv("OPENAI_API_KEY", "of the environment")
        found = [asyncio.run(realtime.get_api_key(key)) for key in ("text", lambda: "function", later, None)]
        assert found == ["text", "function", "async", "of the environment"]

    @each("key", ["", lambda: None, lambda: ""])
    def test_what_is_no_key_is_refused(self, key: Any) -> None:
        with pytest.raises(UserError, match="api_key must be a text"):
            asyncio.run(realtime.get_api_key(key))


async def test_a_model_of_ones_own_needs_five_methods() -> None:
    class Own(realtime.RealtimeModel):
        def __init__(self) -> None:
            self.sent: list[Any] = []

        async def connect(self, options: realtime.RealtimeModelConfig) -> None: ...

        def add_listener(self, listener: realtime.RealtimeModelListener) -> None: ...

        def remove_listener(self, listener: realtime.RealtimeModelListener) -> None: ...

        async def send_event(self, event: realtime.RealtimeModelSendEvent) -> None:
            self.sent.append(event)

        async def close(self) -> None: ...

    own = Own()
    event = realtime.RealtimeModelSendUserInput("hi")
    assert await own.send_event_if(event, lambda: False) is False
    assert await own.send_event_if(event, lambda: True) is True
    assert own.sent == [event]
