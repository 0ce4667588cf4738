"""OpenAI's API on 127.0.0.1 with a robot for a model: responses, chat completions, and what programs keep there.

Conversations, files, vector stores and decisions are answered as far as programs use them. The wire formats of models
are those of `keyturn.testing.loopback`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from keyturn.core.items import Item, input_items
from keyturn.models.scripted.script import ModelStep
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import HttpReply, HttpRequest

from .model import Asked, Robot

_MADE_AT = 1_760_000_000


class RobotService(ResponsesServer):
    """Answers as OpenAI's API does; `robot` is its model.

    >>> with RobotService() as service:
    ...     service.base_url.endswith("/v1")
    True
    """

    def __init__(self) -> None:
        super().__init__(self._answered)
        self.robot = Robot()
        self._chat = ChatServer()
        self._kept = 0

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return what the real one would not accept of a question to a model."""
        if request.path == "/v1/chat/completions":
            return self._chat.refuse(request)
        return super().refuse(request) if request.path == "/v1/responses" else None

    def _answered(self, request: HttpRequest) -> Any:
        if request.path == "/v1/responses":
            return self.robot.answer(self._asked(request.json))
        if request.path == "/v1/chat/completions":
            return self._chat.reply(request, ModelStep(self.robot.answer(_asked_by_chat(request.json))))
        name, *rest = request.path.removeprefix("/v1/").split("/")
        served = getattr(self, f"_serve_{name}", None)
        found = None if served is None else served(request, rest)
        if found is None:
            return HttpReply.json(self.error(404, f"Invalid URL ({request.method} {request.path})"), 404)
        return HttpReply.json(found)

    def _asked(self, body: Mapping[str, Any]) -> Asked:
        form = (body.get("text") or {}).get("format") or {}
        return Asked(
            [*self._before(body), *input_items(body.get("input") or [])],
            body.get("tools") or [],
            body.get("instructions") or "",
            form.get("schema"),
            body.get("tool_choice") or "auto",
            body.get("parallel_tool_calls") is not False,
            bool((body.get("reasoning") or {}).get("summary")),
        )

    def _new(self, prefix: str) -> str:
        self._kept += 1
        return f"{prefix}_{self._kept}"

    def _serve_conversations(self, request: HttpRequest, rest: list[str]) -> Item | None:
        if not rest:
            name = self._new("conv")
            given = input_items((request.json or {}).get("items") or [])
            self.conversations[name] = [self._item(_spelt_out(item)) for item in given]
            return _conversation(name)
        items = self.conversations.setdefault(rest[0], [])
        if len(rest) == 1:
            if request.method == "DELETE":
                del self.conversations[rest[0]]
            return _conversation(rest[0])
        if request.method == "POST":
            added = [self._item(_spelt_out(item)) for item in input_items(request.json["items"])]
            items += added
            return _page(added)
        if request.method == "DELETE":
            items[:] = [item for item in items if item["id"] != rest[2]]
            return _conversation(rest[0])
        return _page(items if "order=asc" in request.query else items[::-1], request.query)

    def _serve_files(self, request: HttpRequest, rest: list[str]) -> Item:
        if rest:
            return {"id": rest[0], "object": "file", "deleted": request.method == "DELETE"}
        file: Item = {"id": self._new("file"), "object": "file", "bytes": len(request.body), "filename": "example.txt"}
        return {**file, "created_at": _MADE_AT, "purpose": "assistants", "status": "processed"}

    def _serve_vector_stores(self, request: HttpRequest, rest: list[str]) -> Item:
        name = rest[0] if rest else self._new("vs")
        counts = {"in_progress": 0, "completed": 1, "failed": 0, "cancelled": 0, "total": 1}
        made: Item = {"id": name, "created_at": _MADE_AT, "status": "completed", "usage_bytes": 1}
        if request.method == "DELETE":
            return {"id": name, "object": "vector_store.deleted", "deleted": True}
        if len(rest) > 1:
            file = rest[2] if len(rest) > 2 else request.json["file_id"]
            return {**made, "id": file, "object": "vector_store.file", "vector_store_id": name, "last_error": None}
        return {**made, "object": "vector_store", "name": "store", "file_counts": counts, "metadata": {}}

    def _serve_decisions(self, request: HttpRequest, _rest: list[str]) -> Item:
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        details = {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        answers = [_decided(question) for question in request.json["questions"]]
        return {"answers": answers, "model": request.json["model"], "usage": {**usage, **details}}


def _spelt_out(item: Item) -> Item:
    """Return a message with its text as a part, as a conversation keeps it."""
    if not isinstance(item.get("content"), str):
        return item
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    return {"type": "message", **item, "content": [{"type": kind, "text": item["content"]}]}


def _conversation(name: str) -> Item:
    return {"id": name, "object": "conversation", "created_at": _MADE_AT, "metadata": {}, "deleted": True}


def _page(items: list[Item], query: str = "") -> Item:
    limits = [int(part.removeprefix("limit=")) for part in query.split("&") if part.startswith("limit=")]
    after = [part.removeprefix("after=") for part in query.split("&") if part.startswith("after=")]
    begin = next((place + 1 for place, item in enumerate(items) if after and item["id"] == after[0]), 0)
    shown = items[begin : begin + (limits[0] if limits else 20)]
    ends = {"first_id": shown[0]["id"] if shown else "", "last_id": shown[-1]["id"] if shown else ""}
    return {"object": "list", "data": shown, "has_more": begin + len(shown) < len(items), **ends}


def _decided(question: Item) -> Item:
    """Say yes, or take the first choice."""
    kind, named = question["type"], {"name": question.get("name"), "type": question["type"]}
    if kind == "predicate":
        return {**named, "probability": 0.9}
    if kind == "choice":
        values = [each["value"] for each in question["choices"]]
        chances = [{"value": value, "probability": 1.0 / len(values)} for value in values]
        return {**named, "choice": values[0], "confidence": 0.9, "probabilities": chances}
    labels = [each["label"] for each in question["levels"]]
    chances = [{"label": label, "value": place, "probability": 1.0 / len(labels)} for place, label in enumerate(labels)]
    return {**named, "score": 0.0, "confidence": 0.9, "probabilities": chances}


def _asked_by_chat(body: Mapping[str, Any]) -> Asked:
    items: list[Item] = []
    system = ""
    for message in cast("list[Item]", body["messages"]):
        if message["role"] in ("system", "developer"):
            system = str(message["content"])
        elif message["role"] == "tool":
            items.append({"type": "function_call_output", "call_id": message["tool_call_id"]})
        else:
            items.append({"role": message["role"], "content": message.get("content") or ""})
            items += [{"type": "function_call", **call["function"]} for call in message.get("tool_calls") or ()]
    form = (body.get("response_format") or {}).get("json_schema") or {}
    choice = body.get("tool_choice") or "auto"
    return Asked(
        items,
        [{"type": "function", **tool["function"]} for tool in body.get("tools") or ()],
        system,
        form.get("schema"),
        choice["function"] if isinstance(choice, dict) else choice,
        body.get("parallel_tool_calls") is not False,
    )
