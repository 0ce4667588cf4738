"""Find out how many of a run's items are already in its session, when the session may have changed them.

A store may number items, split text into parts or drop reasoning. A *mark* is what every store keeps of an item; items
are compared by their marks. These are pure functions; `sync.py` checks the history before the items.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias, cast

from ...core.items import Item

Mark: TypeAlias = tuple[Any, ...]

# Of what carries a provider's own data, these say the same to everybody and are kept by every store.
_FOR_ALL = ("message", "function_call", "custom_tool_call")


def overlaps(stored: list[Item], tape: list[Item], least: int) -> Iterator[tuple[int, int]]:
    """Tell what a session may hold of a run's tape at its end: how many items of the tape, in how many of its own.

    What explains the most of the session comes first. `least` is what the run knows to be written. Thoughts may be
    missing; where that leaves open whether the last ones were written, they count as not written: a store that keeps
    none can be given them again, and from one that does they would be lost.

    >>> said, thought = {"role": "user", "content": "hi"}, {"type": "reasoning", "summary": []}
    >>> list(overlaps([said], [said, thought], 0))
    [(1, 1), (0, 0)]
    """
    there = [_mark(item) for item in stored[max(len(stored) - len(tape), 0) :]]
    known = [_Known(_mark(item), _may_be_missing(item)) for item in tape]
    certain = {item.mark for item in known if not item.optional}
    for start in range(len(there) + 1):
        count = _count(there, start, known, certain, least)
        if count is not None:
            yield count, len(there) - start


def holds(stored: list[Item], written: list[Item]) -> bool:
    """Tell whether a session holds what a run wrote to it, wherever: else it was emptied, or it is another store's.

    One of its calls is enough, whose id no other run has: of the rest, some may have been worded anew, or removed.

    >>> said, more = {"role": "user", "content": "hi"}, {"role": "user", "content": "bye"}
    >>> holds([said, more], [said]), holds([more], [said]), holds([], [said])
    (True, False, False)
    """
    calls = [_mark(item) for item in written if "call_id" in item and str(item.get("type")).endswith("_call")]
    there = iter([_mark(item) for item in stored])
    if calls:
        return any(mark in calls for mark in there)
    return all(_mark(item) in there for item in written if not _may_be_missing(item))


class _Known(NamedTuple):
    """Describes an item of the tape: its mark in any session, and whether it may be missing there."""

    mark: Mark
    optional: bool


def _count(there: list[Mark], start: int, tape: list[_Known], certain: set[Mark], least: int) -> int | None:
    """Count the items of the tape that end a session where its first one stands at `start`; None where none do.

    An item that may be missing is taken to be there where it fits: that is right, and one walk is enough, unless
    its mark is also one of an item that must be there. Then both are followed.
    """
    end = len(there)
    at = {start}
    for place, (mark, optional) in enumerate(tape):
        if place >= least and end in at:
            return place
        fits = {here for here in at if here < end and there[here] == mark}
        after = {here + 1 for here in fits}
        if optional:
            after |= at if mark in certain else at - fits
        if not after:
            return None
        at = after
    return len(tape) if end in at else None


def _mark(item: Item) -> Mark:
    """Return what is left of an item in any session, whatever it does to ids, fields and text forms."""
    said = (item.get("type", "message"), *(item.get(name) for name in ("role", "call_id", "name", "arguments")))
    return (*(one if one is None else _one_text(one) for one in said), _text(item.get("content")))


def _one_text(value: object) -> str:
    """Give a value as text, whose fields may come back in another order: arguments are an object in some items."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _text(content: object) -> bytes:
    """Return the text of a content, in one or in parts, with "?" for lone surrogates as in a line."""
    parts = cast("list[Any]", content) if isinstance(content, list) else [{"text": content}]
    texts = [cast("Item", part).get("text") for part in parts if isinstance(part, dict)]
    return "".join(text for text in texts if isinstance(text, str)).encode("utf-8", "replace")


def _may_be_missing(item: Item) -> bool:
    """Return whether a provider's store may leave an item out: what another provider's model thought or ran."""
    kind = item.get("type", "message")
    return kind == "reasoning" or ("provider_data" in item and kind not in _FOR_ALL)
