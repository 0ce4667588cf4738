"""Anthropic's Messages API on 127.0.0.1: JSON and server-sent events, thinking with signatures.

It refuses what the real one refuses (`messages_rules.py`) and signs what its model thought, so that a thought which
comes back changed is seen. HTTP and faults are in `server.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

from ...core.items import Item
from ...models.base import Usage
from ...models.reply_events import pieces
from ...models.scripted.script import ModelStep
from .messages_rules import MessagesRefused, check_request, seal, signature
from .server import HttpReply, HttpRequest, LoopbackServer

Block = dict[str, Any]

_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class MessagesServer(LoopbackServer):
    """Answers `POST /v1/messages`.

    Of a step's items, a reasoning item is a thinking block, sealed where it has `encrypted_content`; an item of any
    type that the Responses API does not have is a block as it stands. A reply pauses behind a `server_tool_use`, and
    is cut by `max_tokens` where its last item is `incomplete`.

    >>> with MessagesServer(["hello"]) as server:
    ...     server.base_url.startswith("http://127.0.0.1:")
    True
    """

    base_path: ClassVar[str] = ""

    def error(self, status: int, message: str) -> Item:
        """Return an error as Anthropic's API does."""
        kind = _ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{self.answered}"}

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return what the real one would not accept."""
        if (request.method, request.path) != ("POST", "/v1/messages"):
            return 404, "Not found"
        if not request.headers.get("x-api-key") and not request.headers.get("authorization"):
            return 401, "x-api-key header is required"
        if not request.headers.get("anthropic-version"):
            return 400, "anthropic-version: header is required"
        try:
            check_request(request.json)
        except MessagesRefused as refused:
            return 400, str(refused)
        return None

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Return the step as a message."""
        headers = {"request-id": step.request_id or f"req_{self.answered}"}
        if step.stream_events is not None:
            return HttpReply.stream(cast("Any", step.stream_events), headers, named=True)
        message = self._message(request.json, step)
        if request.json.get("stream"):
            return HttpReply.stream(events(message), headers, named=True)
        return HttpReply.json(message, headers=headers)

    def _message(self, asked: Mapping[str, Any], step: ModelStep) -> Block:
        items = cast("list[Item]", step.output)
        content = [block for number, item in enumerate(items) for block in self._blocks(item, number)]
        refused = [part["refusal"] for item in items for part in _parts(item) if part["type"] == "refusal"]
        details = {"type": "refusal", "category": None, "explanation": refused[0]} if refused else None
        return {
            "id": step.response_id or f"msg_{self.answered}",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": content,
            "stop_reason": _stop(items, content, bool(refused)),
            "stop_sequence": None,
            "stop_details": details,
            "usage": _counted(step.usage or Usage(1, 10, output_tokens=5, total_tokens=15)),
        }

    def _blocks(self, item: Item, number: int) -> Iterator[Block]:
        kind = item.get("type", "message")
        if kind == "message":
            yield from ({"type": "text", "text": part["text"]} for part in _parts(item) if part["type"] != "refusal")
        elif kind == "function_call":
            label = {"id": item["call_id"]} if item["call_id"] else {}
            yield {"type": "tool_use", **label, "name": item["name"], "input": json.loads(item["arguments"])}
        elif kind != "reasoning":
            yield dict(item)
        elif item.get("encrypted_content"):
            yield {"type": "redacted_thinking", "data": seal(item["encrypted_content"])}
        else:
            text = "".join(part["text"] for part in item["summary"])
            nonce = f"{self.answered}.{number}"
            yield {"type": "thinking", "thinking": text, "signature": signature(text, nonce)}


def _parts(item: Item) -> list[Item]:
    return item["content"] if item.get("type", "message") == "message" else []


def _stop(items: list[Item], content: list[Block], refused: bool) -> str:
    if refused:
        return "refusal"
    if items and items[-1].get("status") == "incomplete":
        return "max_tokens"
    kinds = [block["type"] for block in content]
    if kinds and kinds[-1] == "server_tool_use":
        return "pause_turn"
    return "tool_use" if "tool_use" in kinds else "end_turn"


def _counted(usage: Usage) -> Block:
    cached, thought = usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens
    written = usage.input_tokens_details.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": thought},
        "service_tier": "standard",
    }


def _grown(block: Block) -> tuple[Block, list[Block]]:
    """Return a block as its stream begins, and the deltas by which it grows."""
    kind = block["type"]
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        given: list[Block] = block.get("citations") or []
        cited: list[Block] = [{"type": "citations_delta", "citation": each} for each in given]
        return {**block, "text": "", **({"citations": []} if cited else {})}, [*deltas, *cited]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
        return {**block, "thinking": "", "signature": ""}, [
            *deltas,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind in ("tool_use", "server_tool_use"):
        text = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
        told = ["", *pieces(text, 7)] if block["input"] else [""]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in told]
    return block, []


def events(message: Block) -> Iterator[Block]:
    """Return a whole message as the events of a stream."""
    usage = message["usage"]
    ends = ("stop_reason", "stop_sequence", "stop_details")
    begun: Block = {**message, "content": [], **dict.fromkeys(ends), "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message["content"]):
        start, deltas = _grown(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        if index == 0:
            yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    counts = {name: usage[name] for name in ("output_tokens", "output_tokens_details")}
    yield {"type": "message_delta", "delta": {name: message[name] for name in ends}, "usage": counts}
    yield {"type": "message_stop"}
