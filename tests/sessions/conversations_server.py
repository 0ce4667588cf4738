"""OpenAI's Conversations API on 127.0.0.1, beside the Responses API of `keyturn.testing`.

It keeps items as the real one does, in a form of its own, and takes of items only the fields that the official SDK's
types know. Where it is not known how strict the real one is, this one is stricter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, Required, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs, unquote

from openai.types.responses.response_input_item_param import ResponseInputItemParam

from keyturn.core.items import Item
from keyturn.testing.loopback.responses import ResponsesServer
from keyturn.testing.loopback.server import Fault, HttpReply, HttpRequest

PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def _known() -> tuple[dict[str, set[str]], set[str]]:
    """The fields of each kind of item, and the kinds that must have an id."""
    fields: dict[str, set[str]] = {}
    named: set[str] = set()
    for kind in get_args(ResponseInputItemParam):
        plain, marked = get_type_hints(kind), get_type_hints(kind, include_extras=True)
        names = [name for part in (plain["type"], *get_args(plain["type"])) for name in get_args(part)]
        for name in (name for name in names if isinstance(name, str)):
            fields.setdefault(name, set()).update(plain)
            if get_origin(marked.get("id")) is Required and name != "message":
                named.add(name)
    return fields, named


FIELDS, NAMED = _known()


class ConversationsServer(ResponsesServer):
    """`kept` is what each conversation holds, as the API keeps it; `faults` go wrong at the next creation of items.

    A fault with a status refuses the items; any other one takes them and spoils the answer.
    """

    def __init__(self, replies: Iterable[Any] = ()) -> None:
        super().__init__(self._respond_to)
        self.paged = True
        self.replies: deque[Any] = deque(replies)
        self.kept: dict[str, list[Item]] = {}
        self.faults: deque[Fault | None] = deque()
        self._ids = count(1)

    def asked(self, method: str) -> list[str]:
        """The paths below /v1/conversations that were asked for with a method."""
        return [request.path for request in self.requests if request.method == method and self._own(request)]

    def _own(self, request: HttpRequest) -> bool:
        return request.path.startswith("/v1/conversations")

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        if self._own(request) and request.headers.get("authorization", "").startswith("Bearer "):
            return None
        return super().refuse(request)

    def _respond_to(self, request: HttpRequest) -> Any:
        if not self._own(request):
            return self.replies.popleft()
        parts = [unquote(part) for part in request.path.removeprefix("/v1/conversations").split("/")[1:]]
        handle = _HANDLERS.get((request.method, len(parts)))
        if handle is None:
            return Fault(status=404, message=f"Invalid URL ({request.method} {request.path})")
        if parts and parts[0] not in self.kept:
            return Fault(status=404, message=f"Conversation with id '{parts[0]}' not found.")
        return handle(self, request, *parts)

    def begin(self, _request: HttpRequest) -> HttpReply:
        name = f"conv_{next(self._ids)}"
        self.kept[name] = []
        return HttpReply.json(_conversation(name))

    def delete(self, _request: HttpRequest, name: str) -> HttpReply:
        del self.kept[name]
        return HttpReply.json({"id": name, "object": "conversation.deleted", "deleted": True})

    def create(self, request: HttpRequest, name: str, _items: str) -> HttpReply | Fault:
        given: list[Item] = request.json["items"]
        fault = self.faults.popleft() if self.faults else None
        if fault is not None and fault.status is not None:
            return fault
        if len(given) > 20:
            return Fault(status=400, message="Invalid 'items': array too long. Expected at most 20 items.")
        for index, item in enumerate(given):
            if (wrong := _wrong(item, index)) is not None:
                return Fault(status=400, message=wrong)
        added = [self._as_kept(item) for item in given]
        self.kept[name] += added
        reply = _listed(added, more=False)
        if fault is not None:
            return Fault(reply, headers=fault.headers, body=fault.body, events=fault.events)
        return reply

    def list(self, request: HttpRequest, name: str, _items: str) -> HttpReply:
        query = parse_qs(request.query)
        items = self.kept[name] if query.get("order") == ["asc"] else self.kept[name][::-1]
        after = query.get("after", [""])[0] if self.paged else ""
        start = next((n + 1 for n, item in enumerate(items) if item["id"] == after), 0)
        limit = int(query.get("limit", ["20"])[0])
        if not 1 <= limit <= 100:
            return HttpReply.json(self.error(400, "Invalid 'limit'"), 400)
        page = [_shown(item, query.get("include[]", query.get("include", []))) for item in items[start : start + limit]]
        return _listed(page, more=start + limit < len(items))

    def remove(self, _request: HttpRequest, name: str, _items: str, item_id: str) -> HttpReply:
        if all(item["id"] != item_id for item in self.kept[name]):
            return HttpReply.json(self.error(404, f"Item with id '{item_id}' not found."), 404)
        self.kept[name] = [item for item in self.kept[name] if item["id"] != item_id]
        return HttpReply.json(_conversation(name))

    def _as_kept(self, item: Item) -> Item:
        kind = item.get("type", "message")
        made: Item = {"id": f"{PREFIXES.get(kind, kind)}_kept{next(self._ids)}", "type": kind, **item}
        if kind not in NAMED:
            made.setdefault("status", "completed")
        if kind == "message":
            part = "output_text" if item["role"] == "assistant" else "input_text"
            content = item["content"]
            made["content"] = [{"type": part, "text": content}] if isinstance(content, str) else content
        else:
            made["created_by"] = "user_1"
        if kind == "function_call_output":
            made |= {"caller": None, "name": None, "namespace": None}
        return made


def _conversation(name: str) -> Item:
    return {"id": name, "object": "conversation", "created_at": 1_760_000_000, "metadata": {}}


def _listed(items: list[Item], *, more: bool) -> HttpReply:
    ids = {"first_id": items[0]["id"], "last_id": items[-1]["id"]} if items else {"first_id": None, "last_id": None}
    return HttpReply.json({"object": "list", "data": items, "has_more": more, **ids})


def _wrong(item: Item, index: int) -> str | None:
    kind = item.get("type", "message")
    for name in item:
        if name not in FIELDS.get(kind, ()):
            return f"Unknown parameter: 'items[{index}].{name}'."
    if "id" in item and kind not in NAMED:
        return f"Item with id '{item['id']}' not found."
    if kind == "reasoning" and not item.get("id") and not item.get("encrypted_content"):
        return "Invalid item"
    return None


def _shown(item: Item, include: list[str]) -> Item:
    """An item without what is only given to those who ask."""
    if item["type"] == "reasoning" and "reasoning.encrypted_content" not in include:
        return {**item, "encrypted_content": None}
    if item["type"] == "message" and "message.input_image.image_url" not in include:
        parts = [{**part, "image_url": None} if "image_url" in part else part for part in item["content"]]
        return {**item, "content": parts}
    return item


_HANDLERS: dict[tuple[str, int], Callable[..., Any]] = {
    ("POST", 0): ConversationsServer.begin,
    ("DELETE", 1): ConversationsServer.delete,
    ("POST", 2): ConversationsServer.create,
    ("GET", 2): ConversationsServer.list,
    ("DELETE", 3): ConversationsServer.remove,
}
