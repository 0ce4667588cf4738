"""What a session sends to a realtime model: one class for each kind, in no provider's format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from .config import RealtimeSessionModelSettings
from .model_events import RealtimeModelToolCallEvent


class RealtimeModelRawClientMessage(TypedDict):
    """A message in the provider's own words: its type, and its other fields in `other_data`."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeModelInputTextContent(TypedDict):
    """A text of a user's message."""

    type: Literal["input_text"]
    text: str


class RealtimeModelInputImageContent(TypedDict, total=False):
    """An image of a user's message, as a data URL; `detail` is "auto", "low" or "high"."""

    type: Literal["input_image"]
    image_url: str
    detail: str


class RealtimeModelUserInputMessage(TypedDict):
    """A user's message of several parts."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeModelInputTextContent | RealtimeModelInputImageContent]


RealtimeModelUserInput = str | RealtimeModelUserInputMessage


@dataclass(slots=True)
class RealtimeModelSendRawMessage:
    """Sends a message in the provider's own words.

    >>> RealtimeModelSendRawMessage({"type": "input_audio_buffer.clear"}).message["type"]
    'input_audio_buffer.clear'
    """

    message: RealtimeModelRawClientMessage


@dataclass(slots=True)
class RealtimeModelSendUserInput:
    """Sends a message of the user and asks for a response to it.

    >>> RealtimeModelSendUserInput("Hello").user_input
    'Hello'
    """

    user_input: RealtimeModelUserInput


@dataclass(slots=True)
class RealtimeModelSendAudio:
    """Sends audio of the user, in the session's input format; `commit` says that the user has finished.

    >>> RealtimeModelSendAudio(b"").commit
    False
    """

    audio: bytes
    commit: bool = False


@dataclass(slots=True)
class RealtimeModelSendToolOutput:
    """Sends a call's result; `start_response` asks the model to go on with it."""

    tool_call: RealtimeModelToolCallEvent
    output: str
    start_response: bool


@dataclass(slots=True)
class RealtimeModelSendInterrupt:
    """Cuts the model off: its response is cancelled, and it is told how much of it was heard.

    `force_response_cancel` sends the cancellation even if no response is known to be under way, `response_id` names
    the response that is meant, `cancel_response_only` leaves playback alone, `playback_only` leaves the response alone.
    """

    force_response_cancel: bool = False
    response_id: str | None = None
    cancel_response_only: bool = False
    playback_only: bool = False


@dataclass(slots=True)
class RealtimeModelSendSessionUpdate:
    """Sends new settings; those that are not named stay as they are."""

    session_settings: RealtimeSessionModelSettings


RealtimeModelSendEvent = (
    RealtimeModelSendRawMessage
    | RealtimeModelSendUserInput
    | RealtimeModelSendAudio
    | RealtimeModelSendToolOutput
    | RealtimeModelSendInterrupt
    | RealtimeModelSendSessionUpdate
)
