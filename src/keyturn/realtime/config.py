"""Settings of realtime sessions, as plain dictionaries: of the model, of guardrails, of a run.

What a provider makes of them stands in that provider's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, TypedDict, cast

from ..agents.guardrail import OutputGuardrail
from ..agents.handoff import Handoff
from ..agents.limits import UsageLimits
from ..agents.prompt import Prompt
from ..agents.settings import ToolErrorFormatter
from ..core.errors import UserError
from ..core.values import is_callback, is_flag, is_number, is_whole
from ..models.tool_choice import ToolChoice

RealtimeModelName = (
    Literal["gpt-realtime", "gpt-realtime-1.5", "gpt-realtime-2", "gpt-realtime-2.1", "gpt-realtime-2.1-mini"] | str
)
RealtimeAudioFormat = Literal["pcm16", "g711_ulaw", "g711_alaw"] | str | Mapping[str, Any]
RealtimeReasoningEffort = Literal["minimal", "low", "medium", "high", "xhigh"] | str


class RealtimeCustomVoice(TypedDict):
    """A voice of one's own, by its id."""

    id: str


RealtimeVoice = str | RealtimeCustomVoice | Mapping[str, Any]


class RealtimeClientMessage(TypedDict):
    """A message in the provider's own words: its type, and its other fields in `other_data`."""

    type: str
    other_data: NotRequired[dict[str, Any]]


class RealtimeInputAudioTranscriptionConfig(TypedDict, total=False):
    """How what the user says is transcribed."""

    language: str
    model: str
    prompt: str
    keywords: list[str]
    languages: list[str]
    delay: Literal["minimal", "low", "medium", "high", "xhigh"]


class RealtimeInputAudioNoiseReductionConfig(TypedDict, total=False):
    """How noise is taken out of what the user says: a microphone near by, or far away."""

    type: Literal["near_field", "far_field"]


class RealtimeTurnDetectionConfig(TypedDict, total=False):
    """How the provider knows that the user began or finished to speak, and what it does then."""

    type: Literal["semantic_vad", "server_vad"]
    create_response: bool
    eagerness: Literal["auto", "low", "medium", "high"]
    interrupt_response: bool
    prefix_padding_ms: int
    silence_duration_ms: int
    threshold: float
    idle_timeout_ms: int
    model_version: str


class RealtimeAudioInputConfig(TypedDict, total=False):
    """Settings of what the user says."""

    format: RealtimeAudioFormat
    noise_reduction: RealtimeInputAudioNoiseReductionConfig | None
    transcription: RealtimeInputAudioTranscriptionConfig
    turn_detection: RealtimeTurnDetectionConfig | None


class RealtimeAudioOutputConfig(TypedDict, total=False):
    """Settings of what the model says."""

    format: RealtimeAudioFormat
    voice: RealtimeVoice
    speed: float


class RealtimeAudioConfig(TypedDict, total=False):
    """Settings of the audio in both directions."""

    input: RealtimeAudioInputConfig
    output: RealtimeAudioOutputConfig


class RealtimeReasoningConfig(TypedDict, total=False):
    """How much a reasoning model thinks before it speaks."""

    effort: RealtimeReasoningEffort


class RealtimeModelTracingConfig(TypedDict, total=False):
    """How the provider names its own trace of a session."""

    workflow_name: str
    group_id: str
    metadata: dict[str, Any]


class RealtimeSessionModelSettings(TypedDict, total=False):
    """Settings of a model in a session; what is not named is left to the provider.

    The names without `audio` (`voice`, `input_audio_format` and so on) say the same as those in it, which win.

    >>> settings: RealtimeSessionModelSettings = {"model_name": "gpt-realtime", "modalities": ["text"]}
    """

    model_name: RealtimeModelName
    instructions: str
    prompt: Prompt
    modalities: list[Literal["text", "audio"]]
    output_modalities: list[Literal["text", "audio"]]
    audio: RealtimeAudioConfig
    voice: RealtimeVoice
    speed: float
    max_output_tokens: int | Literal["inf"]
    input_audio_format: RealtimeAudioFormat
    output_audio_format: RealtimeAudioFormat
    input_audio_transcription: RealtimeInputAudioTranscriptionConfig
    input_audio_noise_reduction: RealtimeInputAudioNoiseReductionConfig | None
    turn_detection: RealtimeTurnDetectionConfig | None
    tool_choice: ToolChoice
    parallel_tool_calls: bool
    reasoning: RealtimeReasoningConfig
    tools: list[Any]
    handoffs: list[Handoff[Any, Any]]
    tracing: RealtimeModelTracingConfig | None


class RealtimeGuardrailsSettings(TypedDict, total=False):
    """When output guardrails look at what the model says: each time so many more characters have come."""

    debounce_text_length: int


class RealtimeToolExecutionConfig(TypedDict, total=False):
    """How tools run: whether a tool's input guardrails look at a call before a person is asked about it."""

    pre_approval_tool_input_guardrails: bool


class RealtimeRunConfig(TypedDict, total=False):
    """Settings of a realtime run.

    `waiting_message` words what the model is told of a call, by its tool's name and its id, while it waits for a
    person; None tells it nothing. A connection that is lost is made anew `reconnect_attempts` times. `close_timeout`
    is how long, in seconds, a tool that is at work when the session closes has to end. `usage_limits` end the session
    where the model has used so much, with `UsageLimitExceeded`.

    >>> config: RealtimeRunConfig = {"async_tool_calls": True, "model_settings": {"voice": "ash"}}
    """

    model_settings: RealtimeSessionModelSettings
    output_guardrails: list[OutputGuardrail[Any]]
    guardrails_settings: RealtimeGuardrailsSettings
    tracing_disabled: bool
    async_tool_calls: bool
    tool_execution: RealtimeToolExecutionConfig
    tool_error_formatter: ToolErrorFormatter
    waiting_message: Callable[[str, str], str] | None
    reconnect_attempts: int
    close_timeout: float
    usage_limits: UsageLimits | None


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _has(kind: type[Any]) -> Callable[[Any], bool]:
    names = kind.__annotations__.keys()
    return lambda value: isinstance(value, Mapping) and cast("Mapping[str, Any]", value).keys() <= names


def _guardrails(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, OutputGuardrail) for each in cast("list[Any]", value))


def _is_seconds(value: object) -> bool:
    return is_number(value) and value >= 0


# What each setting may be; a provider checks `model_settings` further, and a run its limits.
_MAY_BE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model_settings": (lambda value: isinstance(value, Mapping), "a dict"),
    "output_guardrails": (_guardrails, "a list of OutputGuardrail"),
    "guardrails_settings": (_has(RealtimeGuardrailsSettings), "a dict of debounce_text_length"),
    "tracing_disabled": (is_flag, "True or False"),
    "async_tool_calls": (is_flag, "True or False"),
    "tool_execution": (_has(RealtimeToolExecutionConfig), "a dict of pre_approval_tool_input_guardrails"),
    "tool_error_formatter": (is_callback, "a callable or None"),
    "waiting_message": (is_callback, "a callable or None"),
    "reconnect_attempts": (_is_count, "a whole number, 0 or more"),
    "close_timeout": (_is_seconds, "a number of seconds, 0 or more"),
    "usage_limits": (lambda _value: True, ""),
}


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse settings of a realtime run that nothing would hear.

    >>> check_config({"reconnect_attempts": 5})
    """
    for name, value in config.items():
        if name not in _MAY_BE:
            raise UserError(f"config has no {name!r}; it has {', '.join(sorted(_MAY_BE))}")
        fits, may_be = _MAY_BE[name]
        if not fits(value):
            raise UserError(f"{name} of a realtime config must be {may_be}, not {value!r}")
    every = config.get("guardrails_settings", {}).get("debounce_text_length", 0)
    if not _is_count(every):
        raise UserError(f"debounce_text_length of a realtime config must be a whole number, 0 or more, not {every!r}")


class RealtimeUserInputText(TypedDict):
    """A text of a user's message."""

    type: Literal["input_text"]
    text: str


class RealtimeUserInputImage(TypedDict, total=False):
    """An image of a user's message, as a data URL."""

    type: Literal["input_image"]
    image_url: str
    detail: Literal["auto", "low", "high"] | str


class RealtimeUserInputMessage(TypedDict):
    """A user's message of several parts."""

    type: Literal["message"]
    role: Literal["user"]
    content: list[RealtimeUserInputText | RealtimeUserInputImage]


RealtimeUserInput = str | RealtimeUserInputMessage
