"""Assemble the tool calls of Chat Completions from the pieces in which servers send them.

The protocol says: an index in every piece, the id and the name in the first, the arguments as text. Servers leave the
index out, repeat the id or send it late, give every call the index 0, cut names, or send arguments as an object.
Each such habit is one rule here; what cannot be a call is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import msgspec

from ...core.errors import ModelBehaviorError
from ...core.items import Item, plain_item
from ..turns import with_own
from .chat_messages import PROVIDER

_KNOWN = frozenset({"index", "id", "type", "function", "custom"})


@dataclass
class CallInPieces:
    """Collects one call as far as it came."""

    kind: str = "function"
    label: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])
    extra: Item = field(default_factory=dict[str, Any])
    made_up: str = field(default_factory=lambda: f"call_{uuid4().hex[:24]}")

    @property
    def begun(self) -> bool:
        """Return whether any of its arguments came, so that its name is complete."""
        return bool(self.text)

    @property
    def whole(self) -> bool:
        """Return whether its arguments are a complete JSON value."""
        try:
            msgspec.json.decode("".join(self.text))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return False
        return True

    def item(self) -> Item:
        """Return the call as an item; where the server gives no id, it gets one of ours."""
        if not self.name:
            raise ModelBehaviorError("the model made a call without a tool's name; nothing of its reply was used")
        label, text = self.label or self.made_up, "".join(self.text)
        if self.kind == "custom":
            made: Item = {"type": "custom_tool_call", "call_id": label, "name": self.name, "input": text}
        else:
            made = {"type": "function_call", "call_id": label, "name": self.name, "arguments": text or "{}"}
        return with_own(made, PROVIDER, self.extra)

    def take(self, piece: Item) -> str:
        """Add a piece; return what it adds to the arguments."""
        self.kind = "custom" if "custom" in piece else self.kind
        self.label = self.label or str(piece.get("id") or "")
        self.extra.update({name: value for name, value in piece.items() if name not in _KNOWN and value is not None})
        function = _function_of(piece)
        self._take_name(function.get("name"))
        return self._take_text(function.get("input" if self.kind == "custom" else "arguments"))

    def _take_name(self, name: object) -> None:
        if not isinstance(name, str) or self.begun:
            return
        # Some repeat the name in every piece, or what they have of it; the protocol's pieces are the rest of it.
        self.name = name if name.startswith(self.name) else self.name if self.name == name else self.name + name

    def _take_text(self, given: object) -> str:
        if given is None or given == "":
            return ""
        text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        self.text.append(text)
        return text


class CallsInPieces:
    """Collects the calls of one reply, as their pieces come.

    >>> calls = CallsInPieces()
    >>> pieces = [{"index": 0, "id": "c1", "function": {"name": "pay", "arguments": '{"n"'}}]
    >>> pieces += [{"index": 0, "function": {"arguments": ": 1}"}}]
    >>> [added for piece in pieces for _, added in calls.take([piece])], calls.made[0].item()["arguments"]
    (['{"n"', ': 1}'], '{"n": 1}')
    """

    def __init__(self) -> None:
        self.made: list[CallInPieces] = []
        self._at: dict[Any, CallInPieces] = {}

    def take(self, pieces: object) -> Iterator[tuple[CallInPieces, str]]:
        """Add pieces; return the calls they belong to, each with the arguments it got."""
        for place, piece in enumerate(_plain(pieces)):
            call = self._find(piece, place)
            yield call, call.take(piece)

    def take_whole(self, entries: object) -> None:
        """Add calls that came complete, each entry one."""
        for entry in _plain(entries):
            self._new(None).take(entry)

    def _find(self, piece: Item, place: int) -> CallInPieces:
        index = piece.get("index")
        label = piece.get("id") or ""
        name = _function_of(piece).get("name")
        last = self.made[-1] if self.made else None
        if isinstance(index, int | str):
            known = self._at.get(index)
            return self._new(index) if known is None or _another(known, label, name) else known
        if label:
            known = next((call for call in self.made if call.label == label), None)
            if known is not None:
                return known
            late = last is not None and not last.label and not name
            return last if late and last is not None else self._new(None)
        if last is None or (name and (place > 0 or (last.begun and last.whole))):
            return self._new(None)
        return last

    def _new(self, index: object) -> CallInPieces:
        call = CallInPieces()
        self.made.append(call)
        if index is not None:
            self._at[index] = call
        return call


def _another(call: CallInPieces, label: str, name: object) -> bool:
    """Return whether a piece begins another call at the same index: some servers give every call index 0."""
    if not name or (call.begun and not call.whole):
        return False
    return label != call.label if label and call.label else call.begun and name != call.name


def _function_of(piece: Item) -> Item:
    said: Any = piece.get("custom") or piece.get("function") or {}
    if not isinstance(said, dict):
        raise ModelBehaviorError("the model made a call that names no function; nothing of its reply was used")
    return cast("Item", said)


def _plain(entries: object) -> list[Item]:
    try:
        return [plain_item(entry) for entry in cast("list[Any]", entries or [])]
    except TypeError:
        raise ModelBehaviorError("the model's tool calls are not a list of objects; nothing was used") from None
