"""OpenAI's Chat Completions on 127.0.0.1: JSON and server-sent chunks, in the protocol's words or a server's own.

A `ChatDialect` says how a compatible server differs: where it puts thoughts, how it cuts calls. It refuses what the
real one refuses: calls without results, results without calls. HTTP and faults are in `server.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ...core.items import Item, message_text, refusal_text
from ...models.base import Usage
from ...models.reply_events import pieces
from ...models.scripted.script import ModelStep
from .server import HttpReply, HttpRequest, LoopbackServer


@dataclass(frozen=True)
class ChatDialect:
    """Describes how a server writes what the protocol leaves open, or gets wrong.

    `index` of a call: right, missing, or 0 for every call. `label`, its id: in the first piece, in every piece, in the
    last, or never. `name`: whole, cut in pieces, or repeated in every piece. `arguments`: in pieces, or an object.
    `mixed` sends the pieces of several calls in turn. `thoughts` is the field of what was thought.
    """

    index: Literal["right", "missing", "zero"] = "right"
    label: Literal["first", "every", "last", "never"] = "first"
    name: Literal["whole", "cut", "every"] = "whole"
    arguments: Literal["pieces", "object"] = "pieces"
    mixed: bool = False
    thoughts: str = "reasoning_content"
    usage: Literal["last", "every"] = "last"
    done: bool = True


class ChatServer(LoopbackServer):
    """Answers `POST /v1/chat/completions`.

    >>> with ChatServer(["hello"]) as server:
    ...     server.base_url.endswith("/v1")
    True
    """

    base_path: ClassVar[str] = "/v1"

    def __init__(self, script: Any = (), dialect: ChatDialect | None = None) -> None:
        super().__init__(script)
        self.dialect = dialect or ChatDialect()

    def error(self, status: int, message: str) -> Item:
        """Return an error as OpenAI's API does."""
        kind = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        return {
            "error": {"message": message, "type": kind.get(status, "server_error"), "param": None, "code": None},
        }

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return what the real one would not accept."""
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return 404, f"Invalid URL ({request.method} {request.path})"
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return 401, "You didn't provide an API key."
        wrong = _unanswered(request.json["messages"])
        return None if wrong is None else (400, wrong)

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Return the step as a chat completion."""
        headers = {"x-request-id": step.request_id or f"req_{self.answered}"}
        if step.stream_events is not None:
            return HttpReply.stream(step.stream_events, headers)  # pyright: ignore[reportArgumentType]  # a list of them
        body = request.json
        head = {"id": step.response_id or f"chatcmpl-{self.answered}", "created": 1_760_000_000, "model": body["model"]}
        message = self._message(step.output)
        ending = "tool_calls" if message.get("tool_calls") else "stop"
        usage = _counts(step.usage or Usage(1, 10, output_tokens=5, total_tokens=15))
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": ending}
            return HttpReply.json(
                {**head, "object": "chat.completion", "choices": [choice], "usage": usage}, headers=headers
            )
        options: Item = body.get("stream_options") or {}
        asked = options.get("include_usage")
        return HttpReply.stream(self._chunks(head, message, ending, usage if asked else None), headers)

    def _message(self, items: list[Item]) -> Item:
        said: Item = {"role": "assistant", "content": None, "refusal": None}
        for item in items:
            kind = item.get("type", "message")
            if kind == "reasoning":
                said[self.dialect.thoughts] = "".join(part["text"] for part in item["summary"])
            elif kind == "message":
                said["content"] = message_text(item) or None
                said["refusal"] = refusal_text(item) or None
            else:
                said.setdefault("tool_calls", []).append(self._call(item))
        return said

    def _call(self, item: Item) -> Item:
        if item["type"] == "custom_tool_call":
            return {"id": item["call_id"], "type": "custom", "custom": {"name": item["name"], "input": item["input"]}}
        return {
            "id": item["call_id"],
            "type": "function",
            "function": {"name": item["name"], "arguments": item["arguments"]},
        }

    def _chunks(self, head: Item, message: Item, ending: str, usage: Item | None) -> Iterator[Item | str]:
        for delta, finish in self._deltas(message, ending):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
            yield {**chunk, "usage": usage if self.dialect.usage == "every" else None} if usage else chunk
        if usage and self.dialect.usage == "last":
            yield {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
        if self.dialect.done:
            yield "[DONE]"

    def _deltas(self, message: Item, ending: str) -> Iterator[tuple[Item, str | None]]:
        yield {"role": "assistant", "content": "" if message["content"] else None}, None
        for name in (self.dialect.thoughts, "content", "refusal"):
            for piece in pieces(message.get(name) or ""):
                yield {name: piece}, None
        cut = [list(self._cut(call, place)) for place, call in enumerate(message.get("tool_calls", ()))]
        for piece in _in_turn(cut) if self.dialect.mixed else (piece for one in cut for piece in one):
            yield {"tool_calls": [piece]}, None
        yield {}, ending

    def _cut(self, call: Item, place: int) -> Iterator[Item]:
        """Cut one call into pieces in this server's dialect."""
        said, kind = self.dialect, call["type"]
        field = "input" if kind == "custom" else "arguments"
        name, text = call[kind]["name"], call[kind][field]
        names = [name[:2], name[2:]] if said.name == "cut" else [name]
        # One object is one piece, and comes with the name.
        parts = [""] * (len(names) - 1) + [""] + [text[start : start + 5] for start in range(0, len(text), 5)]
        if said.arguments == "object":
            parts = [""] * (len(names) - 1) + [json.loads(text)]
        for number, part in enumerate(parts):
            piece: Item = {} if said.index == "missing" else {"index": 0 if said.index == "zero" else place}
            when = {"first": number == 0, "every": True, "last": number == len(parts) - 1, "never": False}
            if when[said.label]:
                piece["id"] = call["id"]
            if number == 0:
                piece["type"] = kind
            told: Item = {field: part}
            if number < len(names) or said.name == "every":
                told["name"] = names[number] if number < len(names) else name
            yield {**piece, kind: told}


def _in_turn(cut: list[list[Item]]) -> Iterator[Item]:
    for number in range(max((len(one) for one in cut), default=0)):
        yield from (one[number] for one in cut if number < len(one))


def _counts(usage: Usage) -> Item:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.output_tokens_details.reasoning_tokens},
    }


def _unanswered(messages: list[Mapping[str, Any]]) -> str | None:
    """Return what is wrong with the order of calls and results, in the words of the real one."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return (
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding message with "
                    "'tool_calls'."
                )
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            break
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    if waiting:
        return (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}"
        )
    return None
