"""Make a page of rows that somebody sees: as many as they asked for, from a bounded number of rows looked at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from ..journal.rows import Query

_PAGES = 10
_LEAST = 100

Row = TypeVar("Row")


async def visible_page(
    query: Query,
    read: Callable[[Query], Awaitable[Sequence[Row]]],
    seen: Callable[[Sequence[Row]], Awaitable[Sequence[Row]]],
    place: Callable[[Row], tuple[int, str]],
) -> tuple[list[Row], tuple[int, str] | None]:
    """Return the rows of a page, and the place after which the next one begins; None where there is none.

    A page may be short of rows though others follow: whoever sees few of many goes on from its place.
    """
    found: list[Row] = []
    asked = msgspec.structs.replace(query, limit=query.limit + 1)
    for _ in range(_PAGES):
        page = await read(asked)
        found += await seen(page)
        if len(found) > query.limit:
            found = found[: query.limit]
            return found, place(found[-1])
        if len(page) < asked.limit:
            return found, None
        asked = msgspec.structs.replace(asked, after=place(page[-1]), limit=max(asked.limit, _LEAST))
    return found, asked.after
