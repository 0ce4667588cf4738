"""What the next agent sees after a handoff: the data for an input filter, and the nested history as one message.

Nothing here hands over. A filter changes what is seen, never what happened: the run keeps every item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from ..core.errors import UserError
from ..core.immutable import immutable
from ..core.items import Item, input_items, plain_item
from .context import RunContextWrapper

HandoffHistoryMapper = Callable[[list[Item]], list[Item]]

_INTRO = "What was said before this agent took over:"
_WRAPPERS = ("<CONVERSATION HISTORY>", "</CONVERSATION HISTORY>")
# Of use to nobody but the provider that gave it, and long.
_UNTOLD = frozenset({"id", "status", "provider_data", "encrypted_content", "annotations", "logprobs"})

_DATA = re.compile(r"\A(data:[^,]*,).{64,}\Z", re.DOTALL)


class _Wrapped:
    """What stands around a conversation that is told in one message."""

    start, end = _WRAPPERS


def set_conversation_history_wrappers(*, start: str | None = None, end: str | None = None) -> None:
    """Say what stands around a conversation that `nest_handoff_history` tells; what is None stays as it is.

    >>> set_conversation_history_wrappers(start="[before]", end="[/before]")
    >>> get_conversation_history_wrappers()
    ('[before]', '[/before]')
    >>> reset_conversation_history_wrappers()
    """
    for mark in (start, end):
        if mark is not None and (not mark or "\n" in mark):
            raise UserError("a conversation's wrapper is one line that is not empty")
    _Wrapped.start = _Wrapped.start if start is None else start
    _Wrapped.end = _Wrapped.end if end is None else end


def get_conversation_history_wrappers() -> tuple[str, str]:
    """What stands before and after a conversation that is told in one message.

    >>> get_conversation_history_wrappers()
    ('<CONVERSATION HISTORY>', '</CONVERSATION HISTORY>')
    """
    return _Wrapped.start, _Wrapped.end


def reset_conversation_history_wrappers() -> None:
    """Put back what stands around a conversation by default.

    >>> reset_conversation_history_wrappers()
    """
    _Wrapped.start, _Wrapped.end = _WRAPPERS


@immutable
@dataclass(frozen=True)
class HandoffInputData:
    """Holds what the next agent would see; an `input_filter` gets it and returns it.

    `new_items` are the items of the turn that handed over. `input_items`, where set, are sent in their place.

    >>> data = HandoffInputData("hi", (), ())
    >>> data.clone(input_history="hello").input_history
    'hello'
    """

    input_history: str | tuple[Item, ...]
    pre_handoff_items: tuple[Any, ...]
    new_items: tuple[Any, ...]
    run_context: RunContextWrapper[Any] | None = None
    input_items: tuple[Any, ...] | None = None

    def clone(self, **changes: Any) -> HandoffInputData:
        """Copy the data with some of it changed."""
        return replace(self, **changes)


HandoffInputFilter = Callable[[HandoffInputData], HandoffInputData | Awaitable[HandoffInputData]]


def nest_handoff_history(
    handoff_input_data: HandoffInputData, *, history_mapper: HandoffHistoryMapper | None = None
) -> HandoffInputData:
    """Filter the input so that the next agent sees the whole conversation nested, in one message by default.

    >>> data = nest_handoff_history(HandoffInputData("hi", (), ()))
    >>> print(data.input_history[0]["content"])
    What was said before this agent took over:
    <CONVERSATION HISTORY>
    1. user: hi
    </CONVERSATION HISTORY>
    """
    data = handoff_input_data
    start = data.input_history if isinstance(data.input_history, str) else list(data.input_history)
    rest = data.new_items if data.input_items is None else data.input_items
    told = [*input_items(start), *(_plain(item) for item in (*data.pre_handoff_items, *rest))]
    mapped: Any = (history_mapper or default_handoff_history_mapper)(told)
    kind = type(mapped).__name__
    if not isinstance(mapped, list) or not all(isinstance(item, Mapping) for item in cast("list[Any]", mapped)):
        raise UserError(f"handoff_history_mapper must return a list of items, not {kind}")
    return data.clone(input_history=tuple(cast("list[Item]", mapped)), pre_handoff_items=(), new_items=())


def default_handoff_history_mapper(transcript: list[Item]) -> list[Item]:
    """Map the conversation to one message of an assistant; a nested one is continued.

    >>> once = default_handoff_history_mapper([{"role": "user", "content": "hi"}])
    >>> again = default_handoff_history_mapper([*once, {"role": "assistant", "content": "hello"}])
    >>> again[0]["content"].splitlines()[2:4]
    ['1. user: hi', '2. assistant: hello']
    """
    lines: list[str] = []
    for item in transcript:
        before = _told_before(item)
        if before is not None:
            lines += before
        elif item.get("type") != "reasoning":  # only who thought it can read it
            lines.append(_line(item))
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    return [{"role": "assistant", "content": "\n".join([_INTRO, _Wrapped.start, *numbered, _Wrapped.end])}]


def _plain(item: object) -> Item:
    made = getattr(item, "to_input_item", None)
    return plain_item(made() if made is not None else item)


def _told_before(item: Item) -> list[str] | None:
    """Return the lines of a conversation that an earlier handoff nested, None for every other item."""
    content = item.get("content")
    if item.get("role") != "assistant" or not isinstance(content, str):
        return None
    lines = content.split("\n")
    if lines[:2] != [_INTRO, _Wrapped.start] or lines[-1] != _Wrapped.end:
        return None
    return [line.partition(". ")[2] for line in lines[2:-1]]


def _line(item: Item) -> str:
    """Render an item on one line, so that no text can pass for another entry or for the end of them all."""
    content, role = item.get("content"), item.get("role")
    text = _text(content) if item.get("type", "message") == "message" and isinstance(role, str) else None
    if text is not None and not any(mark in text for mark in ("\n", "</", _Wrapped.start, _Wrapped.end)):
        return f"{role}: {text}"
    return _json(_told(item)) if text is None else f"{role}: {_json(text)}"


def _text(content: object) -> str | None:
    """Return a content that is text and nothing else."""
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else [None]
    texts = [cast("Item", part).get("text") if isinstance(part, Mapping) else None for part in parts]
    return "".join(cast("list[str]", texts)) if all(isinstance(text, str) for text in texts) else None


def _told(item: Item) -> Item:
    """Return what is worth showing of an item that is no plain text."""
    told = {name: value for name, value in item.items() if name not in _UNTOLD}
    if isinstance(told.get("content"), list):
        told["content"] = [_part(part) for part in told["content"]]
    return told


def _part(part: object) -> Any:
    """Render a part of a message; of an inline image or file, only its kind."""
    if not isinstance(part, Mapping):
        return part
    told = {name: value for name, value in cast("Item", part).items() if name not in _UNTOLD}
    return {name: _DATA.sub(r"\1...", value) if isinstance(value, str) else value for name, value in told.items()}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str).replace("</", "<\\/")
