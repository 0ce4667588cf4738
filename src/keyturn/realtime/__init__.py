"""Realtime agents: a model that is talked to while its calls wait for people.

`model.py` is the seam of models, `model_events.py` and `model_inputs.py` what goes through it; files that begin with
`openai_` are OpenAI's member. Each name is imported when first used, so that a model's package is needed only by
whoever uses that model.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AssistantAudio": "items",
    "AssistantMessageItem": "items",
    "AssistantText": "items",
    "DEFAULT_MODEL_SETTINGS": "openai_session",
    "EventsDropped": "event_buffer",
    "InputAudio": "items",
    "InputImage": "items",
    "InputText": "items",
    "OpenAIRealtimeSIPModel": "openai_sip",
    "OpenAIRealtimeWebSocketModel": "openai_websocket",
    "RealtimeAgent": "agent",
    "RealtimeAgentEndEvent": "session_events",
    "RealtimeAgentHooks": "agent",
    "RealtimeAgentStartEvent": "session_events",
    "RealtimeAudio": "session_events",
    "RealtimeAudioConfig": "config",
    "RealtimeAudioEnd": "session_events",
    "RealtimeAudioFormat": "config",
    "RealtimeAudioInputConfig": "config",
    "RealtimeAudioInterrupted": "session_events",
    "RealtimeAudioOutputConfig": "config",
    "RealtimeClientMessage": "config",
    "RealtimeConnectionStatus": "model_events",
    "RealtimeCustomVoice": "config",
    "RealtimeDisconnected": "model",
    "RealtimeError": "session_events",
    "RealtimeEventInfo": "session_events",
    "RealtimeGuardrailTripped": "session_events",
    "RealtimeGuardrailsSettings": "config",
    "RealtimeHandoffEvent": "session_events",
    "RealtimeHistoryAdded": "session_events",
    "RealtimeHistoryUpdated": "session_events",
    "RealtimeInputAudioNoiseReductionConfig": "config",
    "RealtimeInputAudioTimeoutTriggered": "session_events",
    "RealtimeInputAudioTranscriptionConfig": "config",
    "RealtimeItem": "items",
    "RealtimeMessageItem": "items",
    "RealtimeModel": "model",
    "RealtimeModelApprovalRequestEvent": "model_events",
    "RealtimeModelAudioDoneEvent": "model_events",
    "RealtimeModelAudioEvent": "model_events",
    "RealtimeModelAudioInterruptedEvent": "model_events",
    "RealtimeModelCachedTokensDetails": "model_events",
    "RealtimeModelConfig": "model",
    "RealtimeModelConnectionStatusEvent": "model_events",
    "RealtimeModelEndOfStreamEvent": "model_events",
    "RealtimeModelErrorEvent": "model_events",
    "RealtimeModelEvent": "model_events",
    "RealtimeModelExceptionEvent": "model_events",
    "RealtimeModelInputAudioTimeoutTriggeredEvent": "model_events",
    "RealtimeModelInputAudioTranscriptionCompletedEvent": "model_events",
    "RealtimeModelInputImageContent": "model_inputs",
    "RealtimeModelInputTextContent": "model_inputs",
    "RealtimeModelInputTokensDetails": "model_events",
    "RealtimeModelItemDeletedEvent": "model_events",
    "RealtimeModelItemUpdatedEvent": "model_events",
    "RealtimeModelListener": "model",
    "RealtimeModelName": "config",
    "RealtimeModelOtherEvent": "model_events",
    "RealtimeModelOutputTextDeltaEvent": "model_events",
    "RealtimeModelOutputTokensDetails": "model_events",
    "RealtimeModelRawClientMessage": "model_inputs",
    "RealtimeModelRawServerEvent": "model_events",
    "RealtimeModelSendAudio": "model_inputs",
    "RealtimeModelSendEvent": "model_inputs",
    "RealtimeModelSendInterrupt": "model_inputs",
    "RealtimeModelSendRawMessage": "model_inputs",
    "RealtimeModelSendSessionUpdate": "model_inputs",
    "RealtimeModelSendToolOutput": "model_inputs",
    "RealtimeModelSendUserInput": "model_inputs",
    "RealtimeModelToolCallEvent": "model_events",
    "RealtimeModelTracingConfig": "config",
    "RealtimeModelTranscriptDeltaEvent": "model_events",
    "RealtimeModelTurnEndedEvent": "model_events",
    "RealtimeModelTurnStartedEvent": "model_events",
    "RealtimeModelUsageEvent": "model_events",
    "RealtimeModelUserInput": "model_inputs",
    "RealtimeModelUserInputMessage": "model_inputs",
    "RealtimePlaybackState": "playback",
    "RealtimePlaybackTracker": "playback",
    "RealtimeRawModelEvent": "session_events",
    "RealtimeReasoningConfig": "config",
    "RealtimeReasoningEffort": "config",
    "RealtimeResponse": "items",
    "RealtimeRunConfig": "config",
    "RealtimeRunHooks": "agent",
    "RealtimeRunner": "runner",
    "RealtimeServerError": "openai_reading",
    "RealtimeSession": "session",
    "RealtimeSessionEvent": "session_events",
    "RealtimeSessionModelSettings": "config",
    "RealtimeToolApprovalDecided": "session_events",
    "RealtimeToolApprovalRequired": "session_events",
    "RealtimeToolCallItem": "items",
    "RealtimeToolEnd": "session_events",
    "RealtimeToolExecutionConfig": "config",
    "RealtimeToolStart": "session_events",
    "RealtimeTurnDetectionConfig": "config",
    "RealtimeUserInput": "config",
    "RealtimeUserInputImage": "config",
    "RealtimeUserInputMessage": "config",
    "RealtimeUserInputText": "config",
    "RealtimeVoice": "config",
    "SystemMessageItem": "items",
    "TransportConfig": "openai_socket",
    "UserMessageItem": "items",
    "get_api_key": "model",
    "realtime_handoff": "agent",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list; the stub spells it out


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
