"""Retention: runs that ended long ago are erased; the digests of their lines stay, so that their chains still verify.

What is not over is never old: a request may wait for weeks, and a run that failed may be resumed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..core.errors import Conflict
from .base import Store
from .rows import Query, RunRow

OVER = ("finished", "cancelled")


async def ended_before(store: Store, at: int) -> AsyncGenerator[RunRow, None]:
    """The runs that were over at that time, in milliseconds since 1970."""
    for status in OVER:
        after: tuple[int, str] | None = None
        while page := await store.runs(Query(state=status, after=after)):
            for row in page:
                if row.updated_at < at:
                    yield row
            after = (page[-1].started_at, page[-1].run)


async def erase_ended(store: Store, at: int) -> int:
    """Erase them, but for one that somebody holds just now; how many there were.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(erase_ended(MemoryJournal(), 0))
    0
    """
    old, count = [row.run async for row in ended_before(store, at)], 0
    for run in old:
        try:
            await store.erase(run)
        except Conflict:
            continue
        count += 1
    return count
