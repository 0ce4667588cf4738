"""Search for decisions by when they were made, the newest first, whatever run they are of.

Logs are in the order of their runs, and a run may go on for weeks. So the rows of runs are read first, which say when
a run began and when it was last written; then the logs, the last written first, until nothing newer can be left.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from heapq import heappush, heappushpop
from typing import NamedTuple

from ...core.encodable import in_milliseconds
from ...core.errors import UserError
from ...journal.base import Store
from ...journal.rows import Query, RunRow
from .entry import AuditEntry
from .search import MOST, EntryPlace, FoundEntries, SearchTerms, entries_in

_PAGE = 200
_DIGITS = 18


class TimePlace(NamedTuple):
    """Names the place of an entry by its time; the next page has what was before it.

    >>> TimePlace.of("7@5.run.0.1")
    TimePlace(at=7, entry=EntryPlace(started_at=5, run='run', line=0, part=1))
    """

    at: int
    entry: EntryPlace

    @classmethod
    def of(cls, key: str) -> TimePlace:
        """Read the key of a page."""
        first, mark, rest = key.partition("@")
        if not mark or not (first.isascii() and first.isdigit()) or len(first) > _DIGITS:
            raise UserError(f"after is where a page ended, as that page said it, and not {key!r}")
        return cls(int(first), EntryPlace.of(rest))

    @classmethod
    def of_entry(cls, entry: AuditEntry) -> TimePlace:
        """Return the place of an entry."""
        return cls(in_milliseconds(entry.at), EntryPlace.of(entry.key))

    @property
    def key(self) -> str:
        """Return what names it."""
        return f"{self.at}@{'.'.join(map(str, self.entry))}"


async def search_by_time(
    store: Store,
    wanted: SearchTerms,
    after: str | None = None,
    limit: int = 100,
    *,
    seconds: float | None = None,
    looks: int | None = None,
) -> FoundEntries:
    """Return a page of what fits, the newest decision first.

    It ends early after so many seconds, or looks at lines of logs: `late`. What it found is in order, and runs that
    were not looked at may hold more.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(search_by_time(MemoryJournal(), SearchTerms(person="ada")))
    FoundEntries(entries=[], next=None, late=False)
    """
    wanted.checked()
    if not 1 <= limit <= MOST:
        raise UserError(f"limit is a number from 1 to {MOST}, and not {limit!r}")
    before = None if after is None else TimePlace.of(after)
    bound = _Bound(None if seconds is None else time.monotonic() + seconds, looks)
    newest = _Newest(limit)
    for row in await _runs(store, wanted, before, bound):
        if (newest.full and row.updated_at < newest.oldest) or bound.met:
            break
        async for entry in _fitting(store, row, wanted, bound):
            place = TimePlace.of_entry(entry)
            if before is None or place < before:
                newest.add(place, entry)
    found = newest.entries
    more = TimePlace.of_entry(found[-1]).key if newest.full else None
    return FoundEntries(found, more, bound.met)


class _Newest:
    """Keeps the newest entries: those of a page, and one that says whether there is another page."""

    def __init__(self, limit: int) -> None:
        self._limit, self._kept = limit, list[tuple[TimePlace, AuditEntry]]()

    def add(self, place: TimePlace, entry: AuditEntry) -> None:
        """Keep an entry unless enough newer ones are known."""
        (heappushpop if self.full else heappush)(self._kept, (place, entry))

    @property
    def full(self) -> bool:
        """Return whether there are more than a page has."""
        return len(self._kept) > self._limit

    @property
    def oldest(self) -> int:
        """Return when the oldest one that is kept was made."""
        return self._kept[0][0].at

    @property
    def entries(self) -> list[AuditEntry]:
        """Return the entries of the page, the newest first."""
        return [entry for _, entry in sorted(self._kept, key=lambda each: each[0], reverse=True)][: self._limit]


class _Bound:
    """Says when a search has looked at enough."""

    def __init__(self, ends: float | None, looks: int | None) -> None:
        self._ends, self._left = ends, looks
        self.met = False

    def spend(self, looks: int = 0) -> None:
        """Note how much was looked at."""
        if self._left is not None:
            self._left -= looks
        over = self._left is not None and self._left <= 0
        self.met = self.met or over or (self._ends is not None and time.monotonic() >= self._ends)


async def _runs(store: Store, wanted: SearchTerms, before: TimePlace | None, bound: _Bound) -> list[RunRow]:
    """Return the rows of the runs that may hold what fits, the last written first; those of bad rows first of all."""
    if wanted.run is not None:
        return await store.runs(Query(run=wanted.run))
    rows, key = list[RunRow](), None
    while not bound.met and (page := await store.runs(Query(after=key, limit=_PAGE, newest=True))):
        rows += [row for row in page if not wanted.skips(row) and (before is None or row.started_at <= before.at)]
        key = (page[-1].started_at, page[-1].run)
        bound.spend()
    return sorted(rows, key=lambda row: (row.status == "damaged", row.updated_at), reverse=True)


async def _fitting(store: Store, row: RunRow, wanted: SearchTerms, bound: _Bound) -> AsyncIterator[AuditEntry]:
    """Yield what fits of one run, as far as the bound lets it be read."""
    async for made, lines, _ in entries_in(store, row):
        for entry in made:
            if wanted.fits(entry):
                yield entry
        bound.spend(lines)
        if bound.met:
            return
