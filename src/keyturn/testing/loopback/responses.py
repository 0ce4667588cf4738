"""OpenAI's Responses API on 127.0.0.1: JSON and server-sent events, stored responses and conversations.

It keeps what the real one keeps and refuses what the real one refuses: a call without its output, an output
without its call, an item that it was sent before, an id that it does not know. HTTP and faults are in `server.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ...core.items import Item, input_items
from ...models.base import ModelResponse, Usage
from ...models.reply_events import reply_events
from ...models.scripted.script import ModelStep
from .conversation import ConversationRefused, check_items
from .server import HttpReply, HttpRequest, LoopbackServer

_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "reasoning": "rs",
    "custom_tool_call": "ctc",
    "computer_call": "cu",
    "mcp_approval_request": "mcpr",
    "mcp_list_tools": "mcpl",
    "mcp_call": "mcp",
}

# What a response repeats of its request, and what it says where the request said nothing.
_ECHOED: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}


class ResponsesServer(LoopbackServer):
    """Answers `POST /v1/responses`; `stored` is what each response left behind, `conversations` the items of each.

    >>> with ResponsesServer(["hello"]) as server:
    ...     server.base_url.startswith("http://127.0.0.1:"), server.base_url.endswith("/v1")
    (True, True)
    """

    base_path: ClassVar[str] = "/v1"

    def __init__(self, script: Any = ()) -> None:
        super().__init__(script)
        self.stored: dict[str, list[Item]] = {}
        self.conversations: dict[str, list[Item]] = {}
        self._items = 0

    def error(self, status: int, message: str) -> Item:
        """Return an error as OpenAI's API does."""
        kind = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
        return {"error": {"message": message, "type": kind.get(status, "server_error"), "param": None, "code": code}}

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return what the real one would not accept."""
        if (request.method, request.path) != ("POST", "/v1/responses"):
            return 404, f"Invalid URL ({request.method} {request.path})"
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return 401, "You didn't provide an API key."
        body = request.json
        try:
            if not body.get("model") and not body.get("prompt"):
                raise ConversationRefused("Missing required parameter: 'model'.")
            check_items(self._before(body), input_items(body.get("input") or []))
        except ConversationRefused as refused:
            return 400, str(refused)
        return None

    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Return the step as a response; it is stored, as the request asks."""
        if step.stream_events is not None:
            return HttpReply.stream(step.stream_events, named=True)  # pyright: ignore[reportArgumentType]  # a list of them
        output = [self._item(item) for item in step.output]
        body, response_id = request.json, step.response_id or f"resp_{self.answered}"
        self._keep(body, response_id, output)
        usage = step.usage or Usage(1, 10, output_tokens=5, total_tokens=15)
        response = ModelResponse(output, usage, response_id)
        headers = {"x-request-id": step.request_id or f"req_{self.answered}"}
        if body.get("stream"):
            return HttpReply.stream(_events(response, body), headers, named=True)
        return HttpReply.json(response_body(response, body), headers=headers)

    def _before(self, body: Mapping[str, Any]) -> list[Item]:
        previous, conversation = body.get("previous_response_id"), body.get("conversation")
        if previous and conversation:
            raise ConversationRefused("Mutually exclusive parameters: ['previous_response_id', 'conversation'].")
        if previous:
            if previous not in self.stored:
                raise ConversationRefused(f"Previous response with id '{previous}' not found.")
            return self.stored[previous]
        if conversation:
            name = conversation if isinstance(conversation, str) else conversation["id"]
            return self.conversations.setdefault(name, [])
        return []

    def _keep(self, body: Mapping[str, Any], response_id: str, output: list[Item]) -> None:
        kept = [*self._before(body), *input_items(body.get("input") or []), *output]
        if body.get("store", True):
            self.stored[response_id] = kept
        conversation = body.get("conversation")
        if conversation:
            self.conversations[conversation if isinstance(conversation, str) else conversation["id"]] = kept

    def _item(self, item: Mapping[str, Any]) -> Item:
        """Return an item as the API gives it: with an id, and a status where items of that kind have one."""
        self._items += 1
        kind = item.get("type", "message")
        made: Item = {"id": f"{_PREFIXES.get(kind, kind)}_{self._items}", "type": kind, **item}
        if kind in ("message", "function_call"):
            made.setdefault("status", "completed")
        if kind == "message":
            parts: list[Item] = made["content"]
            made["content"] = [{**part, "logprobs": []} if part["type"] == "output_text" else part for part in parts]
        return made


def unfinished(request: HttpRequest, status: str, **details: Any) -> HttpReply:
    """Make a response that ended badly: `failed` with its `error`, or `incomplete` with its `incomplete_details`."""
    body = request.json
    whole = {**response_body(ModelResponse([], Usage(), "resp_bad"), body), "status": status, "usage": None, **details}
    if not body.get("stream"):
        return HttpReply.json(whole)
    begun = {**whole, "status": "in_progress", **dict.fromkeys(details)}
    events = [("created", begun), ("in_progress", begun), (status, whole)]
    return HttpReply.stream(
        [
            {"type": f"response.{name}", "response": response, "sequence_number": number}
            for number, (name, response) in enumerate(events)
        ],
        named=True,
    )


def response_body(response: ModelResponse, asked: Mapping[str, Any]) -> Item:
    """Return a whole response as the API sends it, with what it repeats of the request."""
    usage = response.usage
    echoed = {name: asked.get(name, default) for name, default in _ECHOED.items()}
    conversation = asked.get("conversation")
    return {
        "id": response.response_id,
        "object": "response",
        "created_at": 1_760_000_000,
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": asked.get("model", "from-the-prompt"),
        "output": [dict(item) for item in response.output],
        "conversation": {"id": conversation} if isinstance(conversation, str) else conversation,
        **echoed,
        "usage": {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {
                "cached_tokens": usage.input_tokens_details.cached_tokens,
                "cache_write_tokens": usage.input_tokens_details.cache_write_tokens,
            },
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.output_tokens_details.reasoning_tokens},
            "total_tokens": usage.total_tokens,
        },
        "user": None,
    }


def _events(response: ModelResponse, asked: Mapping[str, Any]) -> Iterator[Item]:
    """Return the reply's events as the API words them: whole responses at both ends, and the fields only it has."""
    whole = response_body(response, asked)
    begun: Item = {**whole, "status": "in_progress", "output": [], "usage": None}
    number = -1
    for event in reply_events(response):
        number += 1
        told = {**event, "sequence_number": number}
        if "response" in told:
            told["response"] = whole if event.type == "response.completed" else begun
        elif event.type.startswith("response.output_text."):
            told["logprobs"] = []
        elif event.type == "response.function_call_arguments.done":
            told["name"] = whole["output"][event.output_index]["name"]
        yield told
        if event.type == "response.created":
            number += 1
            yield {"type": "response.in_progress", "response": begun, "sequence_number": number}
