"""Read a recorded view: what a model sees of a conversation after a handoff or a summary."""

from __future__ import annotations

from .items import Item


def viewed(items: list[Item | int], view: list[list[int] | Item]) -> list[Item | int]:
    """Return the items of a recorded view: ranges of the old ones and new ones."""
    seen: list[Item | int] = []
    for part in view:
        if isinstance(part, list):
            seen.extend(items[part[0] : part[1]])
        else:
            seen.append(part)
    return seen
