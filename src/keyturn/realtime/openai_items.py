"""Convert items and counts of OpenAI's realtime protocol to ours; what has another shape is a `Malformed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..core.usage import TokenDetails, Usage
from .items import RealtimeItem, message_class
from .model_events import (
    RealtimeModelCachedTokensDetails,
    RealtimeModelInputTokensDetails,
    RealtimeModelOutputTokensDetails,
    RealtimeModelUsageEvent,
)

Wire = Mapping[str, Any]

# The wire's names of what a message is made of, and ours.
_PARTS = {
    "input_text": "input_text",
    "input_audio": "input_audio",
    "input_image": "input_image",
    "output_text": "text",
    "output_audio": "audio",
    "text": "text",
    "audio": "audio",
}
_FIELDS = ("text", "audio", "transcript", "image_url", "detail")
_OF_ROLE = {
    "system": {"input_text"},
    "user": {"input_text", "input_audio", "input_image"},
    "assistant": {"text", "audio"},
}
_STATES = ("in_progress", "completed", "incomplete")


class Malformed(Exception):
    """Says which field of what the server sent has another shape than the protocol gives it."""


def text(told: Wire, name: str) -> str:
    """Return a field that must be a text."""
    found = told.get(name)
    if not isinstance(found, str):
        raise Malformed(f"{name} must be a text, not {_kind(found)}")
    return found


def whole(told: Wire, name: str) -> int:
    """Return a field that must be a number that is not negative."""
    found = told.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise Malformed(f"{name} must be a number, not {_kind(found)}")
    return found


def mapping(told: Wire, name: str) -> dict[str, Any]:
    """Return a field that must be an object."""
    found = told.get(name)
    if not isinstance(found, dict):
        raise Malformed(f"{name} must be an object, not {_kind(found)}")
    return cast("dict[str, Any]", found)


def _kind(found: object) -> str:
    return "nothing" if found is None else type(found).__name__


def message_of(item: Wire, previous: str | None) -> RealtimeItem | None:
    """Return a message of the wire as ours, None where it has a role that we have no class for."""
    role = item.get("role")
    made = message_class(role)
    if made is None:
        return None
    content: Any = item.get("content")
    if not isinstance(content, list):
        raise Malformed(f"content must be a list, not {_kind(content)}")
    parts = [part for each in cast("list[Any]", content) if (part := _part(each, cast("str", role))) is not None]
    fields: dict[str, Any] = {"item_id": text(item, "id"), "previous_item_id": previous, "content": parts}
    if role == "assistant" and item.get("status") in _STATES:
        fields["status"] = item["status"]
    return made(**fields)


def _part(given: object, role: str) -> dict[str, Any] | None:
    if not isinstance(given, Mapping):
        raise Malformed(f"content has a part that is no object but {_kind(given)}")
    told = cast("Wire", given)
    kind = told.get("type")
    ours = _PARTS.get(kind) if isinstance(kind, str) else None
    if ours not in _OF_ROLE[role]:
        return None  # a part of a kind that is newer than this file
    fields = {name: told[name] for name in _FIELDS if told.get(name) is not None}
    wrong = [name for name, value in fields.items() if not isinstance(value, str)]
    if wrong:
        raise Malformed(f"{wrong[0]} of content must be a text, not {_kind(fields[wrong[0]])}")
    return {"type": ours, **fields}


def usage_of(given: object) -> RealtimeModelUsageEvent | None:
    """Return what a response used, None where the server did not say it."""
    if not isinstance(given, Mapping):
        return None
    told = cast("Wire", given)
    came = _object(told, "input_token_details")
    went = _object(told, "output_token_details")
    cached = _object(came, "cached_tokens_details")
    usage = Usage(
        requests=1,
        input_tokens=_count(told, "input_tokens") or 0,
        input_tokens_details=TokenDetails(cached_tokens=_count(came, "cached_tokens") or 0),
        output_tokens=_count(told, "output_tokens") or 0,
        total_tokens=_count(told, "total_tokens") or 0,
    )
    details = RealtimeModelInputTokensDetails(
        text_tokens=_count(came, "text_tokens"),
        audio_tokens=_count(came, "audio_tokens"),
        image_tokens=_count(came, "image_tokens"),
        cached_tokens=_count(came, "cached_tokens"),
        cached_tokens_details=RealtimeModelCachedTokensDetails(
            _count(cached, "text_tokens"), _count(cached, "audio_tokens"), _count(cached, "image_tokens")
        )
        if cached
        else None,
    )
    output = RealtimeModelOutputTokensDetails(_count(went, "text_tokens"), _count(went, "audio_tokens"))
    return RealtimeModelUsageEvent(usage, details if came else None, output if went else None)


def failure_of(response: Wire) -> tuple[str, str, str | None] | None:
    """Return message, type and code of why a response failed; None where it did not."""
    if response.get("status") != "failed":
        return None
    error = _object(_object(response, "status_details"), "error")
    kind, code, message = (error.get(name) for name in ("type", "code", "message"))
    known = code if isinstance(code, str) else None
    words = message if isinstance(message, str) else f"the response failed{f' ({known})' if known else ''}"
    return words, kind if isinstance(kind, str) else "response_failed", known


def _object(told: Wire, name: str) -> Wire:
    found = told.get(name)
    return cast("Wire", found) if isinstance(found, Mapping) else {}


def _count(told: Wire, name: str) -> int | None:
    """Return a count, None where there is none or it is no number of tokens."""
    found = told.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 2**53 else None
