"""What a realtime model tells its listeners, whatever the provider: one class for each kind, told apart by `type`.

A model tells of each thing once and in the order in which it happened. What a session tells its users is another
matter and stands in `session_events.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..core.usage import Usage
from .items import RealtimeItem

RealtimeConnectionStatus = Literal["connecting", "connected", "disconnected"]


@dataclass(slots=True)
class RealtimeModelErrorEvent:
    """Tells of an error that the session survives: the provider's own, or an event of it that made no sense.

    `error` has `message`, `type`, `code`, `param` and `event_id`, as far as they are known.
    """

    error: Any
    type: Literal["error"] = "error"


@dataclass(slots=True)
class RealtimeModelToolCallEvent:
    """Tells that the model calls a tool; `arguments` is the text as the model wrote it.

    >>> RealtimeModelToolCallEvent("pay", "c1", "{}").type
    'function_call'
    """

    name: str
    call_id: str
    arguments: str
    id: str | None = None
    previous_item_id: str | None = None
    type: Literal["function_call"] = "function_call"
    #: The response in which it was made; None means the one under way.
    response_id: str | None = None


@dataclass(slots=True)
class RealtimeModelApprovalRequestEvent:
    """Tells that the provider asks whether it may call a tool of a hosted MCP server.

    `item` is the request word for word: `id`, `server_label`, `name` and `arguments`, all text. The answer is a raw
    message that creates an `mcp_approval_response` item.
    """

    item: dict[str, Any]
    type: Literal["mcp_approval_request"] = "mcp_approval_request"
    #: The response in which it was made; None means the one under way.
    response_id: str | None = None


@dataclass(slots=True)
class RealtimeModelHostedCallEndedEvent:
    """Tells that the provider has ended a call of a hosted MCP server, well or not.

    `request_id` is the id of the request that was approved. Until this is told, or the connection ends, the call is at
    work; if the connection ends first it is in doubt.
    """

    request_id: str
    type: Literal["hosted_call_ended"] = "hosted_call_ended"


@dataclass(slots=True)
class RealtimeModelAudioEvent:
    """Tells a piece of the model's voice, as bytes in the session's output format."""

    data: bytes
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass(slots=True)
class RealtimeModelAudioInterruptedEvent:
    """Tells that the model's voice was cut off: whatever is still to be played is to be dropped."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(slots=True)
class RealtimeModelAudioDoneEvent:
    """Tells that all audio of a part has been told."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass(slots=True)
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """Tells what the user said, as text."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass(slots=True)
class RealtimeModelInputAudioTimeoutTriggeredEvent:
    """Tells that the user said nothing for as long as the turn detection waits."""

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass(slots=True)
class RealtimeModelTranscriptDeltaEvent:
    """Tells more text of what the model says."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass(slots=True)
class RealtimeModelOutputTextDeltaEvent:
    """Tells more text of what the model writes."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass(slots=True)
class RealtimeModelItemUpdatedEvent:
    """Tells that an item of the conversation is new, or is now this."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


@dataclass(slots=True)
class RealtimeModelItemDeletedEvent:
    """Tells that an item is no longer in the conversation."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass(slots=True)
class RealtimeModelConnectionStatusEvent:
    """Tells whether the model is connected; "disconnected" is told once for each connection."""

    status: RealtimeConnectionStatus
    type: Literal["connection_status"] = "connection_status"


@dataclass(slots=True)
class RealtimeModelEndOfStreamEvent:
    """Tells that a model which ends by itself has nothing more to say."""

    type: Literal["end_of_stream"] = "end_of_stream"


@dataclass(slots=True)
class RealtimeModelTurnStartedEvent:
    """Tells that the model began to respond."""

    type: Literal["turn_started"] = "turn_started"
    response_id: str | None = None
    #: Whether it began before the settings that were sent last were in force.
    settings_pending: bool = False


@dataclass(slots=True)
class RealtimeModelCachedTokensDetails:
    """Counts the cached input tokens of one response by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


@dataclass(slots=True)
class RealtimeModelInputTokensDetails:
    """Counts the input tokens of one response by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: RealtimeModelCachedTokensDetails | None = None


@dataclass(slots=True)
class RealtimeModelOutputTokensDetails:
    """Counts the output tokens of one response by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None


@dataclass(slots=True)
class RealtimeModelUsageEvent:
    """Tells what one response used, as far as the provider said it."""

    usage: Usage
    input_tokens_details: RealtimeModelInputTokensDetails | None = None
    output_tokens_details: RealtimeModelOutputTokensDetails | None = None
    type: Literal["usage"] = "usage"


@dataclass(slots=True)
class RealtimeModelTurnEndedEvent:
    """Tells that a response has ended, whole or cut off."""

    type: Literal["turn_ended"] = "turn_ended"
    response_id: str | None = None


@dataclass(slots=True)
class RealtimeModelOtherEvent:
    """Tells of something of a kind that is not known here; `data` is what came."""

    data: Any
    type: Literal["other"] = "other"


@dataclass(slots=True)
class RealtimeModelExceptionEvent:
    """Tells of an exception that ended the connection; `context` says what was being done."""

    exception: Exception
    context: str | None = None
    type: Literal["exception"] = "exception"


@dataclass(slots=True)
class RealtimeModelRawServerEvent:
    """Tells what the provider sent, word for word, before anything is made of it."""

    data: Any
    type: Literal["raw_server_event"] = "raw_server_event"


RealtimeModelEvent = (
    RealtimeModelErrorEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelApprovalRequestEvent
    | RealtimeModelHostedCallEndedEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelInputAudioTimeoutTriggeredEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelConnectionStatusEvent
    | RealtimeModelEndOfStreamEvent
    | RealtimeModelTurnStartedEvent
    | RealtimeModelUsageEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelOtherEvent
    | RealtimeModelExceptionEvent
    | RealtimeModelRawServerEvent
)
