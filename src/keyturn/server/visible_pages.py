"""Make a page of rows that a visitor sees: as many as asked for, from a bounded number of rows, of bounded size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from ..journal.rows import Query

_PAGES = 10
_LEAST = 100
#: How many characters the bodies of one page have, and how many rows are read before their size is known.
PAGE_SIZE = 2 << 20
_FIRST = 16

Row = TypeVar("Row")


def _weightless(_row: object) -> int:
    return 0


async def visible_page(
    query: Query,
    read: Callable[[Query], Awaitable[Sequence[Row]]],
    seen: Callable[[Sequence[Row]], Awaitable[Sequence[Row]]],
    place: Callable[[Row], tuple[int, str]],
    weight: Callable[[Row], int] = _weightless,
) -> tuple[list[Row], tuple[int, str] | None]:
    """Return the rows of a page, and the place after which the next one begins; None where there is none.

    A page may be short of rows though others follow: a visitor who sees few of many, or large ones, goes on from its
    place.
    """
    found: list[Row] = []
    weighs = weight is not _weightless
    looked, room = 0, PAGE_SIZE
    most = _PAGES * max(query.limit + 1, _LEAST)
    asked = msgspec.structs.replace(query, limit=min(query.limit + 1, _FIRST) if weighs else query.limit + 1)
    while looked < most:
        page = await read(asked)
        looked += len(page)
        room -= sum(map(weight, page))
        found += await seen(page)
        if room <= 0:
            kept = of_one_size(found, weight)[: query.limit]
            return kept, place(kept[-1] if len(kept) < len(found) else page[-1])
        if len(found) > query.limit:
            found = found[: query.limit]
            return found, place(found[-1])
        if len(page) < asked.limit:
            return found, None
        wanted = max(query.limit + 1 - len(found), _LEAST)
        fits = room * looked // max(PAGE_SIZE - room, 1) if weighs else wanted
        asked = msgspec.structs.replace(asked, after=place(page[-1]), limit=min(wanted, max(fits, 1)))
    return found, asked.after


def of_one_size(rows: Sequence[Row], weight: Callable[[Row], int]) -> list[Row]:
    """Return the first of some rows: as many as one page holds, and at least one.

    >>> of_one_size(["a", "b", "c"], lambda row: PAGE_SIZE // 2)
    ['a', 'b']
    """
    found, room = list[Row](), PAGE_SIZE
    for row in rows:
        if room <= 0:
            break
        found.append(row)
        room -= weight(row)
    return found
