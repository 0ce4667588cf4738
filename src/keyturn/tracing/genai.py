"""Convert requests, replies and conversation items to the attributes of OpenTelemetry's GenAI conventions.

What may be sensitive is told apart from what never is, and arguments marked secret are hidden in both. The conventions
are still in development: their names stand here and where spans are started, and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..core.items import parts_in
from ..core.preview import REDACTED, redact
from ..core.usage import Usage
from ..models.base import ModelRequest, ModelSettings

Secrets = Mapping[str, Collection[str]]
"""The secret parameters of each tool whose declaration is known, by the tool's name."""

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}


def of_settings(settings: ModelSettings) -> dict[str, Any]:
    """Return the attributes of model settings.

    >>> of_settings(ModelSettings(temperature=0.5, max_tokens=9))
    {'gen_ai.request.temperature': 0.5, 'gen_ai.request.max_tokens': 9}
    """
    given = {word: getattr(settings, field) for field, word in _SETTINGS.items()}
    return {f"gen_ai.request.{word}": value for word, value in given.items() if value is not None}


def of_model(model: object, request: ModelRequest) -> dict[str, Any]:
    """Return the attributes of a model and its settings; `provider` is its provider's name in the conventions."""
    name, provider = getattr(model, "model", None), getattr(model, "provider", None)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider if isinstance(provider, str) and provider else None,
        "gen_ai.request.model": name if isinstance(name, str) and name else None,
        "gen_ai.conversation.id": request.conversation_id,
        **of_settings(request.model_settings),
    }


def of_usage(usage: Usage) -> dict[str, Any]:
    """Return the attributes of a reply's usage."""
    told = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.input_tokens_details.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.input_tokens_details.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.output_tokens_details.reasoning_tokens or None,
    }
    return {name: count for name, count in told.items() if count is not None}


def of_request(request: ModelRequest, secrets: Secrets) -> dict[str, Any]:
    """Return the attributes of a model's request: sensitive."""
    told: dict[str, Any] = {"gen_ai.input.messages": messages(request.input, secrets)}
    if request.system_instructions:
        told["gen_ai.system_instructions"] = [{"type": "text", "content": request.system_instructions}]
    return told


def of_reply(output: Iterable[Mapping[str, Any]], secrets: Secrets) -> dict[str, Any]:
    """Return the attributes of a model's reply: sensitive."""
    parts = [part for item in output for part in _parts(item, secrets)]
    asked = any(part["type"] == "tool_call" for part in parts)
    return {
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": parts, "finish_reason": "tool_call" if asked else "stop"}
        ]
    }


def messages(items: Iterable[Mapping[str, Any]], secrets: Secrets) -> list[dict[str, Any]]:
    """Convert a conversation to the form of the conventions, one message an item.

    >>> messages([{"role": "user", "content": "hi"}], {})
    [{'role': 'user', 'parts': [{'type': 'text', 'content': 'hi'}]}]
    """
    return [{"role": _role(item), "parts": _parts(item, secrets)} for item in items]


def arguments(name: str, text: str, secrets: Secrets) -> Any:
    """Return a call's arguments as they may be shown; those of an unknown tool are not.

    >>> arguments("login", '{"user":"ann","password":"x"}', {"login": ("password",)})
    {'user': 'ann', 'password': '[redacted]'}
    >>> arguments("gone", '{"password":"x"}', {})
    '[redacted]'
    """
    hidden = secrets.get(name)
    if hidden is None:
        return REDACTED
    try:
        return redact(json.loads(text or "{}"), hidden)
    except (ValueError, RecursionError):
        return REDACTED if hidden else text


def _role(item: Mapping[str, Any]) -> str:
    kind = str(item.get("type", "message"))
    if kind == "message":
        return str(item.get("role", "user"))
    return "tool" if kind.endswith("_output") else "assistant"


def _parts(item: Mapping[str, Any], secrets: Secrets) -> list[dict[str, Any]]:
    kind = str(item.get("type", "message"))
    if kind == "message":
        content: Any = item.get("content")
        if isinstance(content, str):
            return [{"type": "text", "content": content}]
        return [_part(part) for part in parts_in(content)]
    if kind.endswith("_output"):
        return [{"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}]
    if kind == "function_call":
        name = str(item.get("name"))
        shown = arguments(name, str(item.get("arguments") or ""), secrets)
        return [{"type": "tool_call", "id": item.get("call_id"), "name": name, "arguments": shown}]
    if kind == "reasoning":
        summary = parts_in(item.get("summary"))
        return [{"type": "reasoning", "content": "".join(str(part.get("text") or "") for part in summary)}]
    return [{"type": kind}]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a part of a message: its text, or only its kind, since pictures and files stay out of traces."""
    text = part.get("text") or part.get("refusal")
    return {"type": "text", "content": text} if isinstance(text, str) else {"type": str(part.get("type"))}
