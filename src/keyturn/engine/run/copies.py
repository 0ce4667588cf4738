"""Cache copies of the conversation for each reader, so that nobody edits what the run itself reads.

Each reader, a model or somebody's hooks, has copies of its own, made once for each item, so that a turn costs what is
new in it, and while the run is moved: one that waits for people keeps none. Who edits an item in place changes what
that one reader is given again until then: never the log, a saved state, a later load or another reader.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

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

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], _Kept] = {}

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
        """Drop all copies: the run is over, or waits for people."""
        self._kept.clear()
