"""Convert a streamed chat completion to Responses events, chunk by chunk.

Texts, thoughts and the arguments of a call are told as they come. Pieces of several calls may come mixed: one call is
told at a time, and the others as soon as it is whole. The reply is made from what came, as one that came whole is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ..reading import charged
from ..reply_events import StreamEvent
from ..telling import ReplyEvents
from .chat_calls import CallInPieces, CallsInPieces
from .chat_reply import (
    SEALED,
    THOUGHTS,
    chat_reasoning_item,
    chat_response,
    chat_usage,
    check_finish,
    check_lost_calls,
    fields_of,
    message_items,
)
from .written_calls import Offered, written_call


@dataclass
class _Said:
    """Collects a message as far as it came."""

    text: list[str] = field(default_factory=list[str])
    refusal: list[str] = field(default_factory=list[str])
    logprobs: list[Any] = field(default_factory=list[Any])

    def items(self) -> list[Item]:
        return message_items("".join(self.text), "".join(self.refusal), self.logprobs)


@dataclass
class _Thought:
    """Collects a thought as far as it came, in the fields that it came in."""

    fields: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def take(self, name: str, piece: object) -> None:
        said = self.fields.setdefault(name, [])
        if said and type(said[0]) is not type(piece):
            said.clear()
        said.append(piece)

    def items(self) -> list[Item]:
        return [chat_reasoning_item({name: _joined(said) for name, said in self.fields.items()})]


class ChatStream:
    """Converts the chunks of one reply to events."""

    def __init__(self, asked: Offered) -> None:
        self._asked = asked
        self._teller = ReplyEvents()
        self._calls = CallsInPieces()
        self._parts: list[_Said | _Thought | CallInPieces] = []
        self._waiting: list[CallInPieces] = []
        self._id: str | None = None
        self._request_id: str | None = None
        self._usage: Any = None
        self._finish: Any = None

    def take(self, chunk: object, request_id: str | None = None) -> Iterator[StreamEvent]:
        """Convert one chunk."""
        self._request_id = request_id
        if not isinstance(chunk, dict):
            raise ModelBehaviorError(f"the model's stream has a chunk that is a {type(chunk).__name__}, not an object")
        fields = cast("Item", chunk)
        self._id = self._id or fields.get("id")
        self._usage = fields.get("usage") or self._usage
        if not self._teller.started:
            yield from self._teller.start(self._id)
        choices: Any = fields.get("choices") or []
        if not isinstance(choices, list):
            raise ModelBehaviorError("the model's stream has a chunk whose choices are not a list")
        for choice in cast("list[Any]", choices)[:1]:
            said = fields_of(choice)
            self._finish = said.get("finish_reason") or self._finish
            yield from self._delta(said, fields_of(said.get("delta")))

    def _delta(self, choice: Item, delta: Item) -> Iterator[StreamEvent]:
        for name in (*THOUGHTS, SEALED):
            if piece := delta.get(name):
                yield from self._thought(name, piece)
        for name, tell in (("content", self._teller.text), ("refusal", self._teller.refusal)):
            if piece := delta.get(name):
                yield from self._turn_to(_Said)
                message = cast("_Said", self._parts[-1])
                (message.text if name == "content" else message.refusal).append(str(piece))
                message.logprobs += _logprobs(choice)
                yield from tell(str(piece))
        if calls := _pieces(delta):
            for call, added in self._calls.take(calls):
                yield from self._call(call, added)

    def _turn_to(self, kind: type[_Said] | type[_Thought]) -> Iterator[StreamEvent]:
        """Make the newest part one of that kind."""
        if not self._parts or not isinstance(self._parts[-1], kind):
            yield from self._close()
            self._parts.append(kind())
            if kind is _Thought:
                yield from self._teller.begin({"type": "reasoning", "summary": []})

    def _thought(self, name: str, piece: object) -> Iterator[StreamEvent]:
        yield from self._turn_to(_Thought)
        thought = cast("_Thought", self._parts[-1])
        # Some give the same thought under both names: people read it once.
        read = name in THOUGHTS and not any(other in thought.fields for other in THOUGHTS if other != name)
        thought.take(name, piece)
        if read:
            yield from self._teller.thought(str(piece))

    def _call(self, call: CallInPieces, added: str) -> Iterator[StreamEvent]:
        last = self._parts[-1] if self._parts else None
        if call is last:
            if added:
                yield from self._teller.arguments(added)
        elif all(call is not other for other in (*self._parts, *self._waiting)):
            self._waiting.append(call)
        yield from self._next_call()

    def _next_call(self, *, end: bool = False) -> Iterator[StreamEvent]:
        """Begin the next waiting call once its name is complete and the call before it is whole."""
        while self._waiting:
            last, call = self._parts[-1] if self._parts else None, self._waiting[0]
            if not end and (not call.begun or (isinstance(last, CallInPieces) and not last.whole)):
                return
            yield from self._close()
            self._waiting.pop(0)
            self._parts.append(call)
            yield from self._teller.begin({**call.item(), _text_of(call): ""})
            if call.text:
                yield from self._teller.arguments("".join(call.text))

    def _close(self) -> list[StreamEvent]:
        last = self._parts[-1] if self._parts else None
        whole = [] if last is None else [last.item()] if isinstance(last, CallInPieces) else last.items()
        return self._teller.close(whole[0] if whole else None)

    def end(self) -> Iterator[StreamEvent]:
        """Return the remaining events and the whole reply."""
        if self._finish is None:
            raise ModelBehaviorError("the model's stream ended before its reply was complete; nothing of it was used")
        with charged(chat_usage(self._usage)):
            last = [*self._parts, *self._waiting][-1:]
            check_finish(self._finish, {"name": last[0].name} if last and isinstance(last[0], CallInPieces) else None)
            yield from self._next_call(end=True)
            yield from self._close()
            items = self._items()
            if written := written_call(items, self._asked):
                yield from self._teller.begin({**written, "arguments": ""})
                yield from self._teller.arguments(written["arguments"])
                yield from self._teller.close(written)
                items.append(written)
            yield from self._teller.finish(chat_response(items, self._usage, self._id, self._request_id))

    def _items(self) -> list[Item]:
        items: list[Item] = []
        for part in self._parts:
            items += [part.item()] if isinstance(part, CallInPieces) else part.items()
        check_lost_calls(self._finish, items)
        return items


def _pieces(delta: Item) -> Any:
    legacy = delta.get("function_call")
    return delta.get("tool_calls") or ([{"index": 0, "function": legacy}] if legacy else [])


def _logprobs(choice: Item) -> list[Any]:
    if not choice.get("logprobs"):
        return []
    given = fields_of(choice.get("logprobs")).get("content")
    return cast("list[Any]", given) if isinstance(given, list) else []


def _joined(pieces: list[Any]) -> Any:
    """Join texts to one text and lists to one list; of anything else keep the last."""
    if isinstance(pieces[0], str):
        return "".join(pieces)
    return [entry for piece in pieces for entry in piece] if isinstance(pieces[0], list) else pieces[-1]


def _text_of(call: CallInPieces) -> str:
    return "input" if call.kind == "custom" else "arguments"
