"""Convert a whole reply to the Responses events that would have streamed it.

What is known only whole is told in pieces here, in the order of the Responses API. Nothing here waits, and nothing
knows where the reply came from, so that a model which cannot stream may use it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NoReturn, cast

from ..core.items import Item, RawItem
from .base import ModelResponse, Usage


class StreamEvent(RawItem):
    """Holds one event of a model's stream, readable as attributes and as a mapping; it is immutable.

    >>> event = StreamEvent("response.output_text.delta", delta="hel")
    >>> event.type, event["delta"]
    ('response.output_text.delta', 'hel')
    """

    __slots__ = ()

    def __init__(self, type: str, **fields: Any) -> None:
        super().__init__(type=type, **fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return _event, (dict(self),)


def _refuse(_event: StreamEvent, *_args: Any, **_kept: Any) -> NoReturn:
    raise TypeError("a stream event cannot be changed; make another: StreamEvent(**{**event, 'delta': ...})")


# Set from outside: dict's overloads cannot be overridden by one method in a way that a type checker accepts.
for _change in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(StreamEvent, _change, _refuse)


def _event(fields: dict[str, Any]) -> StreamEvent:
    return StreamEvent(**fields)


def reply_events(response: ModelResponse, chunk: int | None = None) -> Iterator[StreamEvent]:
    """Yield the events of a reply, from `response.created` to `response.completed`.

    Text and arguments come in pieces of `chunk` characters, or word by word.

    >>> reply = ModelResponse([{"type": "message", "role": "assistant", "content": "to be"}], response_id="r1")
    >>> [event.delta for event in reply_events(reply) if event.type.endswith(".delta")]
    ['to ', 'be']
    """
    number = count()
    yield StreamEvent(
        "response.created", response=response_fields(response, "in_progress", []), sequence_number=next(number)
    )
    for index, item in enumerate(cast("list[Item]", response.output)):
        kind, plain = item.get("type", "message"), dict(item)
        begin, inside = _KINDS.get(kind, (dict, _nothing))
        yield StreamEvent(
            "response.output_item.added", item=begin(plain), output_index=index, sequence_number=next(number)
        )
        place = {"item_id": item.get("id") or f"item_{index}", "output_index": index}
        yield from inside(plain, place, _Pieces(number, chunk))
        yield StreamEvent("response.output_item.done", item=plain, output_index=index, sequence_number=next(number))
    whole = response_fields(response, "completed", [dict(item) for item in response.output])
    yield StreamEvent("response.completed", response=whole, sequence_number=next(number))


def pieces(text: str, chunk: int | None = None) -> list[str]:
    """Cut a text into deltas: words with the space behind them, or `chunk` characters each.

    >>> pieces("to be, or"), pieces("to be", 3)
    (['to ', 'be, ', 'or'], ['to ', 'be'])
    """
    if chunk is None:
        return re.findall(r"\S+\s*|\s+", text)
    return [text[start : start + chunk] for start in range(0, len(text), chunk)]


class _Pieces:
    """Yields one text as `<name>.delta` events and a `<name>.done` that repeats it whole."""

    def __init__(self, number: Iterator[int], chunk: int | None) -> None:
        self.number = number
        self._chunk = chunk

    def tell(self, name: str, field: str, text: str, place: Mapping[str, Any]) -> Iterator[StreamEvent]:
        delta, number = f"{name}.delta", self.number
        for piece in pieces(text, self._chunk):
            yield StreamEvent(delta, delta=piece, sequence_number=next(number), **place)
        yield StreamEvent(f"{name}.done", **{field: text}, sequence_number=next(number), **place)


_PARTS = {"output_text": ("text", "response.output_text"), "refusal": ("refusal", "response.refusal")}


def _message(item: Item, place: Item, teller: _Pieces) -> Iterator[StreamEvent]:
    content: str | list[Item] = item.get("content") or []
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content, "annotations": []}]
    for index, part in enumerate(content):
        field, name = _PARTS.get(part.get("type", ""), ("", ""))
        here = {**place, "content_index": index}
        empty = {**part, field: ""} if field else part
        yield StreamEvent("response.content_part.added", part=empty, sequence_number=next(teller.number), **here)
        if field:
            yield from teller.tell(name, field, part.get(field) or "", here)
        yield StreamEvent("response.content_part.done", part=part, sequence_number=next(teller.number), **here)


def _function_call(item: Item, place: Item, teller: _Pieces) -> Iterator[StreamEvent]:
    return teller.tell("response.function_call_arguments", "arguments", item.get("arguments") or "", place)


def _custom_call(item: Item, place: Item, teller: _Pieces) -> Iterator[StreamEvent]:
    return teller.tell("response.custom_tool_call_input", "input", item.get("input") or "", place)


def _reasoning(item: Item, place: Item, teller: _Pieces) -> Iterator[StreamEvent]:
    summary = cast("list[Item]", item.get("summary") or [])
    for index, part in enumerate(summary):
        here, empty = {**place, "summary_index": index}, {**part, "text": ""}
        yield StreamEvent(
            "response.reasoning_summary_part.added", part=empty, sequence_number=next(teller.number), **here
        )
        yield from teller.tell("response.reasoning_summary_text", "text", part.get("text") or "", here)
        yield StreamEvent(
            "response.reasoning_summary_part.done", part=part, sequence_number=next(teller.number), **here
        )


def _nothing(_item: Item, _place: Item, _told: _Pieces) -> Iterator[StreamEvent]:
    return iter(())


_Begin = Callable[[Item], Item]
_Inside = Callable[[Item, Item, _Pieces], Iterator[StreamEvent]]

# What an item is before its first delta, and how its inside is told. Every other kind is added and done.
_KINDS: dict[str, tuple[_Begin, _Inside]] = {
    "message": (lambda item: {**item, "status": "in_progress", "content": []}, _message),
    "function_call": (lambda item: {**item, "arguments": ""}, _function_call),
    "custom_tool_call": (lambda item: {**item, "input": ""}, _custom_call),
    "reasoning": (lambda item: {**item, "summary": []}, _reasoning),
}


def response_fields(response: ModelResponse, status: str, output: list[Item]) -> Item:
    """Return the `response` of the first and the last event of a reply, as the Responses API has it.

    >>> response_fields(ModelResponse([], response_id="r1"), "in_progress", [])["id"]
    'r1'
    """
    made: Item = {"id": response.response_id, "object": "response", "status": status, "output": output, "usage": None}
    if status == "completed":
        made["usage"] = _counts(response.usage)
        made["_request_id"] = response.request_id
    return made


def _counts(usage: Usage) -> Item:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.input_tokens_details.cached_tokens,
            "cache_write_tokens": usage.input_tokens_details.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.output_tokens_details.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
