"""Read a reply of the Messages API, whole or streamed, into items of the Responses format.

Blocks that Claude must have back unchanged are kept on the items as they came. A reply that was cut inside a call, or
that is no reply, is a `ModelBehaviorError` and nothing of it is used. Nothing here asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...core.items import Item
from ..base import ModelResponse, TokenDetails, Usage
from ..reading import ResponseFailed, charged, check_text, in_call
from ..turns import with_own
from .messages import PROVIDER, THINKING, Block

# Why a reply was cut, and what to do about it.
_CUT = {
    "max_tokens": "; raise ModelSettings.max_tokens, or lower the effort of reasoning",
    "model_context_window_exceeded": "; the model's context window is full",
}
_TOOL_USE = frozenset({"type", "id", "name", "input", "arguments"})
_NO_WORDS = "The model declined to answer."


@dataclass
class AnthropicReply:
    """Collects one reply as far as it came.

    A call that streamed in has its `arguments` as the text they were written in.
    """

    known_calls: int = 0
    id: str | None = None
    request_id: str | None = None
    blocks: list[Block] = field(default_factory=list[Block])
    stop: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    usage: Usage = field(default_factory=Usage)

    def absorb(self, message: Mapping[str, Any]) -> None:
        """Add a whole message: the reply, or the continuation of a paused one."""
        for block in cast("list[Block]", message["content"]):
            check_block(block)
            self.blocks.append(block)
        self.begin(message)
        self.end(message, anthropic_usage(message["usage"]))

    def begin(self, message: Mapping[str, Any]) -> None:
        """Take the reply's id; a reply in several messages is known by the first."""
        if message.get("type") != "message" or message.get("role") != "assistant":
            raise ValueError("it is not an assistant message")
        said = message.get("id")
        self.id = self.id or (said if isinstance(said, str) else None)

    def end(self, said: Mapping[str, Any], usage: Usage) -> None:
        """Take the stop reason and the usage."""
        self.stop, self.details = said.get("stop_reason"), said.get("stop_details") or {}
        self.usage.add(usage)

    @property
    def paused(self) -> bool:
        """Return whether the model only paused, and goes on when it is sent its own words."""
        return self.stop == "pause_turn"

    @property
    def refusal(self) -> str | None:
        """Return why the model declined, None where it did not."""
        return str(self.details.get("explanation") or _NO_WORDS) if self.stop == "refusal" else None

    def sent_back(self) -> list[Block]:
        """Return the blocks to send back to the API when the model paused."""
        return [{key: value for key, value in block.items() if key != "arguments"} for block in self.blocks]

    def response(self) -> ModelResponse:
        """Return the reply as items, or raise `ModelBehaviorError` where it may not be used."""
        with charged(self.usage):
            if self.stop in _CUT:
                cut = in_call(self.blocks[-1] if self.blocks else None)
                raise ResponseFailed("incomplete", self.stop, cut + _CUT[self.stop])
            return ModelResponse(check_text(list(self._items())), self.usage, self.id, self.request_id)

    def _items(self) -> Iterator[Item]:
        texts: list[Block] = []
        calls = self.known_calls
        for block in self.blocks:
            if block["type"] == "text":
                texts += [block] if block["text"] else []
                continue
            yield from _message(texts)
            texts = []
            if block["type"] == "tool_use":
                calls += 1
                if self.refusal is None:
                    yield call_item(block, calls)
            else:
                yield reasoning_item(block) if block["type"] in THINKING else server_item(block)
        yield from _message(texts, self.refusal)


def _message(texts: list[Block], refusal: str | None = None) -> Iterator[Item]:
    parts = [text_part(block) for block in texts]
    kept = [cited(block) for block in texts]
    if refusal is not None:
        parts.append({"type": "refusal", "refusal": refusal})
        kept.append({})
    if parts:
        item: Item = {"type": "message", "role": "assistant", "status": "completed", "content": parts}
        yield with_own(item, PROVIDER, {"parts": kept} if any(kept) else {})


def check_block(block: Block) -> None:
    """Raise for a block without what its type needs."""
    kind = block["type"]
    if not isinstance(kind, str):
        raise ValueError("the type of a block is not a string")
    for name in {"text": ["text"], "tool_use": ["name", "input"], "thinking": ["thinking", "signature"]}.get(kind, []):
        wanted = dict if name == "input" else str
        if not isinstance(block[name], wanted):
            raise ValueError(f"the {name} of a {kind} block is not a {wanted.__name__}")


def text_part(block: Block) -> Item:
    """Convert a text block with the pages that it cites."""
    notes = [_annotation(each, block["text"]) for each in cited(block).get("citations", []) if each.get("url")]
    return {"type": "output_text", "text": block["text"], "annotations": notes}


def cited(block: Block) -> Item:
    """Return a text's citations as they came: Claude must get them back."""
    return {"citations": block["citations"]} if block.get("citations") else {}


def _annotation(source: Block, text: str) -> Item:
    title = source.get("title") or ""
    return {"type": "url_citation", "url": source["url"], "title": title, "start_index": 0, "end_index": len(text)}


def call_item(block: Block, number: int) -> Item:
    """Convert a call; one without an id, from a server that gives none, gets its number in the conversation."""
    arguments = block.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
    label = block.get("id") or f"claude_call_{number}"
    item: Item = {"type": "function_call", "call_id": label, "name": block["name"], "arguments": arguments or "{}"}
    rest = {key: value for key, value in block.items() if key not in _TOOL_USE and value is not None}
    return with_own({**item, "status": "completed"}, PROVIDER, rest)


def reasoning_item(block: Block) -> Item:
    """Convert what the model thought: a summary to read, and the signed block as it came."""
    text = block.get("thinking", "")
    summary = [{"type": "summary_text", "text": text}] if text else []
    kept = {key: value for key, value in block.items() if key != "thinking"}
    return with_own({"type": "reasoning", "summary": summary}, PROVIDER, kept)


def server_item(block: Block) -> Item:
    """Keep any other block as it came, such as a call of a tool that Anthropic runs and its result."""
    return {**block, "provider_data": {PROVIDER: {"verbatim": True}}}


def anthropic_usage(usage: Mapping[str, Any]) -> Usage:
    """Return one message's token usage; what was read from and written to the cache is input too.

    >>> anthropic_usage({"input_tokens": 8, "cache_read_input_tokens": 3, "output_tokens": 7}).total_tokens
    18
    """
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    sent, received = (usage.get("input_tokens") or 0) + read + written, usage.get("output_tokens") or 0
    details: Block = usage.get("output_tokens_details") or {}
    thought = details.get("thinking_tokens") or 0
    cached = TokenDetails(cached_tokens=read, cache_write_tokens=written)
    return Usage(1, sent, cached, received, TokenDetails(reasoning_tokens=thought), sent + received)
