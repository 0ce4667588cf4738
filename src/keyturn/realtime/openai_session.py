"""Convert settings of a realtime session to the `session` object of OpenAI's realtime protocol, and send nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..core.errors import UserError
from ..models.openai.tools import chosen
from ..models.request_parts import function_of, own_words
from .audio_formats import to_realtime_audio_format
from .config import RealtimeSessionModelSettings

DEFAULT_REALTIME_MODEL = "gpt-realtime-2.1"
DEFAULT_MODEL_SETTINGS: RealtimeSessionModelSettings = {
    "voice": "ash",
    "modalities": ["audio"],
    "input_audio_format": "pcm16",
    "output_audio_format": "pcm16",
    "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
    "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
}

# Settings that go onto the wire as they are, and where the others stand there: under `audio`, in one direction.
_AS_THEY_ARE = ("instructions", "prompt", "max_output_tokens", "parallel_tool_calls", "reasoning", "tracing")
_INPUT = {
    "input_audio_format": "format",
    "input_audio_transcription": "transcription",
    "input_audio_noise_reduction": "noise_reduction",
    "turn_detection": "turn_detection",
}
_OUTPUT = {"output_audio_format": "format", "voice": "voice", "speed": "speed"}
_CAN_BE_OFF = frozenset({"turn_detection", "input_audio_noise_reduction", "noise_reduction", "tracing"})
_SERVER_VAD = frozenset({"threshold", "silence_duration_ms", "prefix_padding_ms", "idle_timeout_ms"})
_MODALITIES = ("text", "audio")


def session_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the session as `session.update` has it: what is not named in the settings is not in it.

    >>> session_of({"instructions": "Be brief.", "voice": "ash"})
    {'type': 'realtime', 'instructions': 'Be brief.', 'audio': {'output': {'voice': 'ash'}}}
    """
    _check_names(settings)
    settings = _meant(settings)
    session: dict[str, Any] = {"type": "realtime"}
    if "model_name" in settings:
        session["model"] = settings["model_name"]
    session |= {name: settings[name] for name in _AS_THEY_ARE if name in settings}
    modalities: Any = settings.get("output_modalities", settings.get("modalities"))
    if modalities is not None:
        session["output_modalities"] = _modalities(modalities)
    audio = _audio(settings)
    if audio:
        session["audio"] = audio
    tools = tools_of(settings.get("tools") or (), settings.get("handoffs") or ())
    if "tools" in settings or "handoffs" in settings:
        session["tools"] = tools
    if "tool_choice" in settings:
        session["tool_choice"] = chosen(settings["tool_choice"], tools)
    return session


def tools_of(tools: Iterable[Any], handoffs: Iterable[Any]) -> list[dict[str, Any]]:
    """Return tools and handoffs as the session has them: functions, and MCP servers that the provider calls."""
    return [_tool(tool) for tool in (*tools, *handoffs)]


def _tool(tool: object) -> dict[str, Any]:
    own = own_words(tool)
    if own is not None and own.get("type") == "mcp":
        # Said in words, so that no default of the provider lets a call run that nobody was asked about.
        return {"require_approval": "always", **own}
    if own is None or own.get("type") == "function" or getattr(tool, "also_function", False):
        return {"type": "function", **function_of(tool, "a realtime model")}
    raise UserError(
        f"the tool {getattr(tool, 'name', tool)!r} ({own.get('type')}) does not run in a realtime session: "
        "use function tools, handoffs and HostedMCPTool"
    )


def _meant(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without those that are None, except where None switches something off."""
    return {name: value for name, value in settings.items() if value is not None or name in _CAN_BE_OFF}


def _check_names(settings: Mapping[str, Any]) -> None:
    unknown = settings.keys() - RealtimeSessionModelSettings.__annotations__.keys()
    if unknown:
        raise UserError(
            f"model settings have no {sorted(unknown)}; they have "
            f"{', '.join(sorted(RealtimeSessionModelSettings.__annotations__))}"
        )


def _modalities(given: Any) -> list[str]:
    if isinstance(given, str) or not given or not set(given) <= set(_MODALITIES):
        raise UserError(f"modalities must be ['text'] or ['audio'], not {given!r}")
    # Audio always comes with its transcript, and the provider refuses both words together.
    return ["audio"] if "audio" in given else ["text"]


def _audio(settings: Mapping[str, Any]) -> dict[str, Any]:
    nested: Any = settings.get("audio") or {}
    found: dict[str, Any] = {}
    for direction, names in (("input", _INPUT), ("output", _OUTPUT)):
        told = {short: settings[name] for name, short in names.items() if name in settings}
        told |= _meant(cast("Mapping[str, Any]", nested.get(direction) or {}))
        if "format" in told:
            told["format"] = to_realtime_audio_format(told["format"])
        if told.get("turn_detection") is not None:
            told["turn_detection"] = _turn_detection(told["turn_detection"])
        if told:
            found[direction] = told
    return found


def _turn_detection(given: Mapping[str, Any]) -> dict[str, Any]:
    if "type" in given:
        return dict(given)
    return {"type": "server_vad" if given.keys() & _SERVER_VAD else "semantic_vad", **given}
