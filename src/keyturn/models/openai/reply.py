"""Check a response of the Responses API, and say what is wrong with one that is not well-formed.

A checked reply is kept exactly as it came, fields and kinds of items that nobody here knows included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...core.errors import ModelBehaviorError
from ...core.items import Item, plain_item, wrong_in
from ..base import ModelResponse, TokenDetails, Usage
from ..reading import ResponseFailed, charged, in_call
from .wire import OpenAIAnswer

_NOTHING = "nothing of it was used"

# What must be text in a call for anybody to answer it.
_CALL_FIELDS = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "computer_call": ("call_id",),
    "mcp_approval_request": ("id", "server_label", "name", "arguments"),
}

# Why a response was cut, and what to do about it.
_REMEDIES = {
    "max_output_tokens": "; raise ModelSettings.max_tokens, or lower the effort of reasoning",
    "content_filter": "; the provider's filter stopped it",
}


def checked_reply(answer: OpenAIAnswer) -> ModelResponse:
    """Check a whole response and return its reply."""
    body = answer.body
    output = body.get("output")
    usage = usage_of(body.get("usage"))
    response_id = body.get("id")
    with charged(usage):
        check_ending(body.get("status"), body.get("error"), body.get("incomplete_details"), output)
        check_output(output)
    return ModelResponse(
        cast("list[Any]", output),
        usage,
        response_id if isinstance(response_id, str) else None,
        answer.request_id,
    )


def check_ending(status: object, error: object, details: object, output: object = None) -> None:
    """Refuse a response that is not complete; one that was cut says in which call."""
    if status == "incomplete":
        code = str(_field(details, "reason") or "for no reason given")
        last = cast("list[Any]", output)[-1] if isinstance(output, list) and output else None
        raise ResponseFailed("incomplete", code, in_call({"name": _field(last, "name")}) + _REMEDIES.get(code, ""))
    if status == "failed" or error:
        message = _field(error, "message")
        raise ResponseFailed("failed", str(_field(error, "code") or "no code"), f": {message}" if message else "")
    if status not in (None, "completed"):
        raise ResponseFailed(str(status), "not completed", "")


def check_output(output: object) -> list[Item]:
    """Return the items of a reply as plain dicts, or raise for what is wrong with them."""
    if not isinstance(output, list):
        raise ModelBehaviorError(f"the model's reply has no list of output items; {_NOTHING}")
    items = [_plain(entry, place) for place, entry in enumerate(cast("list[Any]", output))]
    try:
        msgspec.json.encode(items)
    except (UnicodeEncodeError, RecursionError) as error:
        raise ModelBehaviorError(f"the model's reply cannot be written as JSON ({error.__class__.__name__})") from None
    return items


def _plain(entry: Any, place: int) -> Item:
    item = plain_item(entry) if isinstance(entry, Mapping) or hasattr(entry, "model_dump") else None
    kind = None if item is None else item.get("type")
    if item is None or not isinstance(kind, str):
        raise ModelBehaviorError(f"output item {place} of the model's reply has no type; {_NOTHING}")
    wrong = [name for name in _CALL_FIELDS.get(kind, ()) if not isinstance(item.get(name), str)]
    wrong += [] if isinstance(item.get("id"), str | None) else ["id"]
    if wrong:
        raise ModelBehaviorError(f"output item {place} is a {kind} whose {wrong[0]!r} is no text; {_NOTHING}")
    unreadable = wrong_in(item)
    if unreadable:
        raise ModelBehaviorError(f"output item {place} {unreadable}; {_NOTHING}")
    return item


def usage_of(counts: object) -> Usage:
    """Return the usage of a response, from JSON or from an object of the SDK."""
    cached, written = (
        _number(counts, "input_tokens_details", name) for name in ("cached_tokens", "cache_write_tokens")
    )
    read = TokenDetails(cached_tokens=cached, cache_write_tokens=written)
    thought = TokenDetails(reasoning_tokens=_number(counts, "output_tokens_details", "reasoning_tokens"))
    sent, received = _number(counts, "input_tokens"), _number(counts, "output_tokens")
    return Usage(1, sent, read, received, thought, _number(counts, "total_tokens") or sent + received)


def _number(counts: object, *path: str) -> int:
    for name in path:
        counts = _field(counts, name)
    return counts if type(counts) is int else 0


def _field(value: object, name: str) -> Any:
    return cast("Mapping[str, Any]", value).get(name) if isinstance(value, Mapping) else getattr(value, name, None)
