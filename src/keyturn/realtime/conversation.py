"""Keep a session's conversation: as its user sees it, and as a run's log and a new connection have it.

What the model tells may come in any order and more than once: an item is known by its id, and the newest word on it
counts. Nothing here sends or records anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any, cast

from ..core.errors import UserError
from ..core.items import Item
from ..core.preview import hidden_text
from .items import (
    AssistantAudio,
    AssistantMessageItem,
    AssistantText,
    InputAudio,
    InputImage,
    InputText,
    RealtimeItem,
    RealtimeToolCallItem,
    UserMessageItem,
)

#: Ids of items that a connection was told of from the log begin so.
KEPT = "kt_"


class Conversation:
    """Holds the items of a conversation, in their order.

    >>> said = Conversation()
    >>> said.update(UserMessageItem(item_id="i1", content=[InputText(text="hi")]))
    True
    >>> [item.item_id for item in said.items]
    ['i1']
    """

    def __init__(self, secrets: Callable[[str], Collection[str]] = lambda _tool: ()) -> None:
        self.items: list[RealtimeItem] = []
        # What nobody is shown of a tool's arguments, by its name.
        self._secrets = secrets
        self._known: dict[str, RealtimeItem] = {}

    def snapshot(self) -> list[RealtimeItem]:
        """Return the items as they are now: none is edited later, and whoever hands them out copies them."""
        return list(self.items)

    def items_of(self, ids: Iterable[str]) -> list[RealtimeItem]:
        """Return the items of these ids, as they are now."""
        return [self._known[item_id] for item_id in ids if item_id in self._known]

    def update(self, item: RealtimeItem) -> bool:
        """Take the newest word on an item, and return whether it was not known before."""
        item = item.model_copy(deep=True)  # who told it, and whoever else heard it, may edit theirs
        if isinstance(item, RealtimeToolCallItem) and (secrets := self._secrets(item.name)):
            item = item.model_copy(update={"arguments": hidden_text(item.arguments, secrets)})
        before = self._known.get(item.item_id)
        if before is not None:
            self._replace(_with_transcripts(item, before))
            return False
        known = item.previous_item_id in self._known
        self.items.insert(self._place(cast("str", item.previous_item_id)) + 1 if known else len(self.items), item)
        self._known[item.item_id] = item
        return True

    def _replace(self, item: RealtimeItem) -> None:
        self.items[self._place(item.item_id)] = self._known[item.item_id] = item

    def _place(self, item_id: str) -> int:
        """Return where an item stands; what is spoken of is nearly always near the end."""
        for place in range(len(self.items) - 1, -1, -1):
            if self.items[place].item_id == item_id:
                return place
        raise KeyError(item_id)

    def delete(self, item_id: str) -> bool:
        """Take an item out, and return whether it was there."""
        if self._known.pop(item_id, None) is None:
            return False
        del self.items[self._place(item_id)]
        return True

    def heard(self, item_id: str, transcript: str) -> UserMessageItem:
        """Add the transcript of what the user said to their message, and return it."""
        known = self._known.get(item_id)
        if not isinstance(known, UserMessageItem):
            made = UserMessageItem(item_id=item_id, content=[InputAudio(transcript=transcript)])
            self.update(made)
            return made
        content = [part for part in known.content if not isinstance(part, InputAudio)]
        made = known.model_copy(update={"content": [*content, InputAudio(transcript=transcript)]})
        self._replace(made)
        return made

    def said(self, item_id: str, delta: str, *, written: bool = False) -> str:
        """Add to what the model is saying, and return all of it so far."""
        if not isinstance(self._known.get(item_id), AssistantMessageItem):
            self.update(AssistantMessageItem(item_id=item_id, status="in_progress", content=[]))
        known = cast("AssistantMessageItem", self._known[item_id])
        *before, part = known.content or [AssistantText(text="") if written else AssistantAudio(transcript="")]
        said = "text" if isinstance(part, AssistantText) else "transcript"
        whole: str = (getattr(part, said) or "") + delta
        self._replace(known.model_copy(update={"content": [*before, part.model_copy(update={said: whole})]}))
        return whole

    def last_words(self) -> str | None:
        """Return what the model said last; None where it said nothing."""
        said = (item for item in reversed(self.items) if isinstance(item, AssistantMessageItem))
        return next(map(text_of, said), None)

    def answered(self, call_id: str, output: str) -> RealtimeToolCallItem | None:
        """Add a call's result to its item, and return it."""
        for item in reversed(self.items):
            if isinstance(item, RealtimeToolCallItem) and item.call_id == call_id and item.output is None:
                made = item.model_copy(update={"output": output, "status": "completed"})
                self.update(made)
                return made
        return None


def _with_transcripts(item: RealtimeItem, before: RealtimeItem) -> RealtimeItem:
    """Keep a transcript that came before an item's newest word, which may know nothing of it."""
    if not isinstance(item, UserMessageItem) or not isinstance(before, UserMessageItem):
        return item
    heard = next((part for part in before.content if isinstance(part, InputAudio) and part.transcript), None)
    if heard is None or any(isinstance(part, InputAudio) and part.transcript for part in item.content):
        return item
    content = [part for part in item.content if not isinstance(part, InputAudio)]
    return item.model_copy(update={"content": [*content, heard]})


def text_of(item: RealtimeItem) -> str:
    """Return what was said in a message, written or spoken."""
    if isinstance(item, RealtimeToolCallItem):
        return ""
    return "".join(getattr(part, "text", None) or getattr(part, "transcript", None) or "" for part in item.content)


def kept_id(place: int) -> str:
    """Return the id under which an item of the log, by its place there, is told to a new connection."""
    return f"{KEPT}{place}"


# Items as a run's log has them --------------------------------------------------------------------------------------


def user_item(content: object, item_id: str | None = None) -> Item:
    """Return a user's message as the log has it; with an id where the model knows it already."""
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    return {"type": "message", "role": "user", "content": parts} | ({"id": item_id} if item_id else {})


def said_content(message: object) -> Any:
    """Return the content of what a user writes, and refuse what is no message."""
    content: Any = cast("dict[str, Any]", message).get("content") if isinstance(message, dict) else message
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    if not content or not (isinstance(content, str) or (parts and all(map(_is_part, parts)))):
        raise UserError(
            "a message is a text, or {'type': 'message', 'role': 'user', 'content': [...]} with parts of type "
            "input_text and input_image"
        )
    return cast("Any", parts or content)


def _is_part(part: object) -> bool:
    texts = {"input_text": "text", "input_image": "image_url"}
    if not isinstance(part, dict):
        return False
    given = cast("dict[str, Any]", part)
    return isinstance(given.get(texts.get(str(given.get("type")), "")), str)


def assistant_item(item: AssistantMessageItem) -> Item:
    """Return the model's message as the log has it."""
    text: list[Any] = [{"type": "output_text", "text": text_of(item), "annotations": []}]
    return {"type": "message", "role": "assistant", "id": item.item_id, "status": "completed", "content": text}


def output_text(output: object) -> str:
    """Return a call's result as the text that a realtime model takes."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, default=str)


def restored(items: list[Item], secrets: Callable[[str], Collection[str]] = lambda _tool: ()) -> Conversation:
    """Return the conversation that a run's log has, as its user sees it."""
    made = Conversation(secrets)
    for place, item in enumerate(items):
        kind, item_id = item.get("type"), kept_id(place)
        if kind == "function_call":
            call: Any = {name: item.get(name) or "" for name in ("call_id", "name", "arguments")}
            made.update(RealtimeToolCallItem(item_id=item_id, status="in_progress", **call))
        elif kind == "function_call_output":
            made.answered(cast("str", item.get("call_id")), output_text(item.get("output")))
        elif item.get("role") == "assistant":
            text: list[Any] = [AssistantText(text=said) for said in _texts(item)]
            made.update(AssistantMessageItem(item_id=item_id, status="completed", content=text))
        elif item.get("role") == "user":
            parts: list[Any] = [InputText(text=said) for said in _texts(item)]
            images = [part for part in _parts(item) if part.get("type") == "input_image"]
            parts += [InputImage(image_url=part.get("image_url")) for part in images]
            made.update(UserMessageItem(item_id=item_id, content=parts))
    return made


def on_the_wire(item: Item) -> Item | None:
    """Return an item of the log as a new connection is told of it; None for what only its own connection knows."""
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call":
        return {"type": kind} | {name: item.get(name) or "" for name in ("call_id", "name", "arguments")}
    if kind == "function_call_output":
        return {"type": kind, "call_id": item.get("call_id"), "output": output_text(item.get("output"))}
    if kind != "message" or role not in ("user", "assistant"):
        return None
    named = "output_text" if role == "assistant" else "input_text"
    parts: list[Any] = [{"type": named, "text": said} for said in _texts(item)]
    parts += [part for part in _parts(item) if part.get("type") == "input_image" and role == "user"]
    return {"type": "message", "role": role, "content": parts} if parts else None


def _parts(item: Item) -> list[dict[str, Any]]:
    content = item.get("content")
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}]
    return [part for part in cast("list[Any]", content or []) if isinstance(part, dict)]


def _texts(item: Item) -> list[str]:
    return [part["text"] for part in _parts(item) if isinstance(part.get("text"), str) and part["text"]]
