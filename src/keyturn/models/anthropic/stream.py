"""Convert the stream of the Messages API to Responses events while collecting the reply.

One event of theirs in, some of ours out. The reply is the same as if it had come whole: it is read by
`anthropic_reply`, and nothing here decides what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ...core.errors import ModelBehaviorError
from ...core.items import Item
from ..reading import plain_json
from ..reply_events import StreamEvent
from ..telling import ReplyEvents
from .messages import PROVIDER, THINKING, Block
from .reply import (
    AnthropicReply,
    anthropic_usage,
    call_item,
    check_block,
    cited,
    reasoning_item,
    server_item,
    text_part,
)

Event = dict[str, Any]
Told = list[StreamEvent]

# Where a block grows: the kind of delta, and the field of the delta and of the block.
_GROWS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "arguments"),
}


class MessageEvents:
    """Converts the events of one reply; where the model paused, of more than one message."""

    def __init__(self, reply: AnthropicReply) -> None:
        self.reply = reply
        self.whole = False
        self._calls = reply.known_calls
        self._teller = ReplyEvents(PROVIDER)
        self._block: Block | None = None
        self._index: int | None = None
        self._grown: dict[str, list[str]] = {}
        self._usage: Event = {}
        self._end: Event = {}
        self._handlers: dict[str, Callable[[Event], Told]] = {
            "message_start": self._message_start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._message_delta,
            "message_stop": self._message_stop,
        }

    def feed(self, event: Event) -> Told:
        """Convert one event; an unknown kind of event yields nothing."""
        handler = self._handlers.get(event["type"])
        return handler(event) if handler is not None else []

    def finish(self) -> Told:
        """Return the last events once the reply is whole."""
        response = self.reply.response()
        events = self._teller.start(self.reply.id)
        if self.reply.refusal is not None:
            events += self._teller.refusal(self.reply.refusal)
        return events + self._teller.finish(response)

    def check_whole(self) -> None:
        """Raise unless the message that was begun was received to its end."""
        if not self.whole:
            raise ModelBehaviorError("Anthropic's stream ended before its reply was complete; nothing of it was used")

    def _message_start(self, event: Event) -> Told:
        self.whole = False
        self.reply.begin(event["message"])
        self._usage = dict(event["message"].get("usage") or {})
        return []  # nothing is told before there is something to tell: until then, another try is possible

    def _block_start(self, event: Event) -> Told:
        if self._block is not None:
            raise ValueError("a block begins inside another")
        block: Block = dict(event["content_block"])
        self._block = block
        self._index = event["index"]
        self._grown = {}
        kind, events = block["type"], self._teller.start(self.reply.id)
        if kind == "text":
            events += self._teller.end_part()
            return events + (self._teller.text(block["text"]) if block.get("text") else [])
        if kind in THINKING:
            return events + self._teller.begin({**reasoning_item({**block, "thinking": ""}), "summary": []})
        if kind == "tool_use":
            self._calls += 1
            begun = {**call_item({**block, "input": {}}, self._calls), "arguments": "", "status": "in_progress"}
            return events + self._teller.begin(begun)
        return events

    def _block_delta(self, event: Event) -> Told:
        block = self._open(event)
        delta: Event = event["delta"]
        if delta["type"] == "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
            return []
        source, target = _GROWS.get(delta["type"], ("", ""))
        if not target:
            return []
        piece = cast("str", delta[source])
        self._grown.setdefault(target, []).append(piece)
        if not piece:
            return []
        if target == "text":
            return self._teller.text(piece)
        if target == "thinking":
            return self._teller.thought(piece)
        return self._teller.arguments(piece) if target == "arguments" and block["type"] == "tool_use" else []

    def _block_stop(self, event: Event) -> Told:
        block = self._open(event)
        self._block = None
        for name, pieces in self._grown.items():
            block[name] = str(block.get(name) or "") + "".join(pieces)
        kind = block["type"]
        if not block.get("arguments"):
            block.pop("arguments", None)  # without deltas, the input that it began with is all of it
        elif kind == "tool_use":
            block["input"] = _understood(block["arguments"])
        else:
            block["input"] = plain_json(block.pop("arguments"))
        check_block(block)
        self.reply.blocks.append(block)
        if kind == "text":
            return self._teller.end_part(cited(block), **text_part(block))
        if kind == "tool_use":
            return self._teller.close(call_item(block, self._calls))
        if kind in THINKING:
            return self._teller.close(reasoning_item(block))
        return [*self._teller.begin(server_item(block)), *self._teller.close(server_item(block))]

    def _message_delta(self, event: Event) -> Told:
        self._end = event["delta"]
        usage: Event = event.get("usage") or {}
        self._usage |= {name: count for name, count in usage.items() if count is not None}
        return []

    def _message_stop(self, _event: Event) -> Told:
        if self._block is not None or not self._end:
            raise ValueError("the message stops before it has ended")
        self.reply.end(self._end, anthropic_usage(self._usage))
        self.whole, self._end = True, {}
        return []

    def _open(self, event: Event) -> Block:
        if self._block is None or event["index"] != self._index:
            raise ValueError(f"block {event['index']} goes on and is not open")
        return self._block


def _understood(arguments: str) -> Item:
    """Return a call's `input` beside its text, as a message that came whole has it.

    What is no object stays the call's arguments as the model wrote it, and is refused where they are read.
    """
    try:
        value = plain_json(arguments)
    except ValueError:
        return {}
    return cast("Item", value) if isinstance(value, dict) else {}
