"""Read a reply of Chat Completions into items and usage.

The same for a reply that came whole and for one that was put together from a stream. A reply that was cut or filtered
is an error, and so is one that has nothing of a reply in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ..base import ModelResponse, TokenDetails, Usage
from ..reading import charged, in_call
from ..turns import with_own
from .chat_calls import CallInPieces, CallsInPieces
from .chat_messages import PROVIDER
from .reply import ResponseFailed, check_output
from .wire import OpenAIAnswer
from .written_calls import Offered, written_call

#: The fields in which servers give what the model thought; the first that holds text is what people read.
THOUGHTS = ("reasoning_content", "reasoning")
#: What belongs to a thought besides: signed or sealed pieces that a server wants back as they are.
SEALED = "reasoning_details"

_REMEDIES = {
    "length": "; raise ModelSettings.max_tokens",
    "content_filter": "; the provider's filter stopped it",
}


def checked_chat(answer: OpenAIAnswer, asked: Offered) -> ModelResponse:
    """Check a whole chat completion and return its reply to what was asked."""
    body = answer.body
    choices: Any = body.get("choices")
    first: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    message: Any = cast("Item", first).get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ModelBehaviorError("the model's reply has no message among its choices; nothing of it was used")
    with charged(chat_usage(body.get("usage"))):
        check_finish(cast("Item", first).get("finish_reason"), _last_call(cast("Item", message)))
        return _response_of(answer, cast("Item", first), cast("Item", message), asked)


def _response_of(answer: OpenAIAnswer, choice: Item, message: Item, asked: Offered) -> ModelResponse:
    calls = CallsInPieces()
    calls.take_whole(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):  # what calls were before there could be several
        calls.take_whole([{"function": message["function_call"]}])
    thought = {name: message[name] for name in (*THOUGHTS, SEALED) if message.get(name)}
    items = [chat_reasoning_item(thought)] if thought else []
    items += message_items(message.get("content"), message.get("refusal"), _logprobs(choice))
    items += call_items(calls.made)
    check_lost_calls(choice.get("finish_reason"), items)
    written = written_call(items, asked)
    items += [] if written is None else [written]
    return chat_response(items, answer.body.get("usage"), answer.body.get("id"), answer.request_id)


def check_lost_calls(reason: object, items: list[Item]) -> None:
    """Refuse a reply that ended with calls and holds nothing: the server could not read what its model wrote."""
    if reason == "tool_calls" and all(item["type"] == "reasoning" for item in items):
        raise ModelBehaviorError("the model's reply ended with tool calls and holds none: the server lost them")


def chat_response(items: list[Item], usage: object, response_id: object, request_id: str | None) -> ModelResponse:
    """Make a reply of these items."""
    label = response_id if isinstance(response_id, str) else None
    return ModelResponse(cast("list[Any]", check_output(items)), chat_usage(usage), label, request_id)


def _last_call(message: Item) -> object:
    entries: Any = message.get("tool_calls")
    last = fields_of(cast("list[Any]", entries)[-1]) if isinstance(entries, list) and entries else {}
    return last.get("function") or last.get("custom")


def check_finish(reason: object, last_call: object = None) -> None:
    """Refuse a reply that did not end by itself; one that was cut says in which call."""
    if isinstance(reason, str) and reason in _REMEDIES:
        raise ResponseFailed("incomplete", reason, in_call(last_call) + _REMEDIES[reason])
    if reason == "error":
        raise ResponseFailed("failed", "error", ": the provider does not say why")


def chat_reasoning_item(thought: Mapping[str, Any]) -> Item:
    """Convert what was thought: a summary to read, and the fields to send back as they came."""
    text = next((thought[name] for name in THOUGHTS if isinstance(thought.get(name), str)), "")
    summary = [{"type": "summary_text", "text": text}] if text else []
    return with_own({"type": "reasoning", "summary": summary}, PROVIDER, thought)


def message_items(content: object, refusal: object, logprobs: list[Any] | None = None) -> list[Item]:
    """Convert what was said to one message, or to none."""
    parts: list[Item] = []
    text = _text(content)
    if text:
        parts.append({"type": "output_text", "text": text, "annotations": []})
        if logprobs:
            parts[0]["logprobs"] = logprobs
    if refusal:
        parts.append({"type": "refusal", "refusal": str(refusal)})
    return [{"type": "message", "role": "assistant", "status": "completed", "content": parts}] if parts else []


def call_items(calls: Iterable[CallInPieces]) -> list[Item]:
    """Convert the calls to items."""
    return [call.item() for call in calls]


def _text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise ModelBehaviorError(f"the model's message is a JSON {type(content).__name__}, not a text")
    parts = [cast("Item", part) for part in cast("list[Any]", content) if isinstance(part, dict)]
    return "".join(str(part.get("text") or "") for part in parts)


def _logprobs(choice: Item) -> list[Any] | None:
    given: Any = choice.get("logprobs")
    return cast("Item", given).get("content") if isinstance(given, dict) else None


def chat_usage(given: object) -> Usage:
    """Return the usage of a reply."""
    cached, written = (
        _number(given, "prompt_tokens_details", name) for name in ("cached_tokens", "cache_write_tokens")
    )
    cached = cached or _number(given, "prompt_cache_hit_tokens")  # DeepSeek's name for it
    read = TokenDetails(cached_tokens=cached, cache_write_tokens=written)
    thought = TokenDetails(reasoning_tokens=_number(given, "completion_tokens_details", "reasoning_tokens"))
    sent, received = _number(given, "prompt_tokens"), _number(given, "completion_tokens")
    return Usage(1, sent, read, received, thought, _number(given, "total_tokens") or sent + received)


def _number(counts: object, *path: str) -> int:
    for name in path:
        counts = fields_of(counts).get(name)
    return counts if type(counts) is int else 0


def fields_of(value: object) -> Item:
    """Return the fields of a JSON object; what is no object has none."""
    return cast("Item", value) if isinstance(value, dict) else {}
