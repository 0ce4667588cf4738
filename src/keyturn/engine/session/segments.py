"""Write a rewritten history as ranges of the old one plus new items.

So a log stores only what changed, and no copy of the history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from ...core.items import Item

View = list[list[int] | Item]


def _key(item: Item) -> bytes:
    return msgspec.json.encode(item, order="sorted")


def segments(before: Sequence[Item], after: Sequence[Item]) -> View:
    """Return what `after` keeps of `before`, as ranges, and the items that are its own.

    >>> a, b, c = {"n": 1}, {"n": 2}, {"n": 3}
    >>> segments([a, b, c], [b, c, {"n": 9}])
    [[1, 3], {'n': 9}]
    """
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    for index in range(len(before) - 1, -1, -1):
        places[_key(before[index])].append(index)
    view: View = []
    for item in after:
        found = places.get(_key(item))
        if not found:
            view.append(item)
            continue
        index = found.pop()
        last = view[-1] if view else None
        if isinstance(last, list) and last[1] == index:
            last[1] = index + 1
        else:
            view.append([index, index + 1])
    return view


def places(before: Sequence[Item], after: Sequence[Item]) -> list[Item | int]:
    """Return the same with a place for each kept item in place of ranges."""
    kept: list[Item | int] = []
    for part in segments(before, after):
        if isinstance(part, list):
            kept.extend(range(part[0], part[1]))
        else:
            kept.append(part)
    return kept
