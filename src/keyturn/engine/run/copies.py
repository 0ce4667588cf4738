"""Give each reader (a model, a hook) its own copy of the conversation.

Copies are made once for each item and dropped when the run stops moving. If a reader changes an item in place, only
that reader sees the change; the log, saved states and other readers do not.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from ...core.empties import NONE
from ...core.items import Item, own_copies
from ...core.run import Frame


@dataclass(slots=True)
class _Kept:
    """Holds one reader's copies of one list of items, as far as they were made."""

    reader: Any
    source: list[Item | int]
    prefix: list[Item] | None
    items: list[Item] = field(default_factory=list[Item])


class Copies:
    """Caches the copies of one run's conversations, by frame and reader."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], _Kept] = NONE

    def of(self, reader: Any, frame: Frame, prefix: list[Item] | None, frames: Container[str]) -> list[Item]:
        """Return a frame's conversation for that reader, as a new list of its own items."""
        key, source = (frame.id, id(reader)), frame.items
        kept = self._kept.get(key)
        # A conversation only grows. One that was rewritten, or folded anew, is another list.
        if kept is None or kept.source is not source or kept.prefix is not prefix:
            self._kept = {name: one for name, one in self._kept.items() if name[0] in frames}
            kept = self._kept[key] = _Kept(reader, source, prefix)
        items = kept.items
        fresh: list[Any] = source[len(items) :]
        if prefix is not None:
            fresh = [prefix[item] if isinstance(item, int) else item for item in fresh]
        items += own_copies(fresh)
        return items.copy()

    def forget(self) -> None:
        """Drop all copies: the run is over, or requires a decision."""
        self._kept = NONE
