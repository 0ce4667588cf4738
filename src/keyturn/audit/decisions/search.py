"""Search the logs of a store for decisions, page by page.

The logs are read, each line verified, and not the rows: a row says how a request ended, a log who said what on the way.
Rows only say which runs can be left out, by their times. A search over a large store is therefore a scan, oldest run
first or newest first; name a run or a time where you can. With a time limit it says how far it came.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, NamedTuple, cast

from ...core.codec import decode
from ...core.errors import KeyturnError, LogDamaged, UserError
from ...core.people import plain_text
from ...engine.run.open_run import chain_of
from ...journal.base import Store
from ...journal.rows import Query, RunRow
from .calls import CallBook
from .entries import AuditEntry, damage, entries_of, texts

_PAGE = 200
_MOST = 10_000
_DIGITS = 18  # of a number of a key: no store compares more
_VERDICTS = (
    *("approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "expire", "drill_passed", "drill_failed"),
    *("asked_back", "right", "wrong", "allow", "ask", "deny", "upheld", "more", "revoke", "cancel", "damaged"),
)


class Place(NamedTuple):
    """Names the place of an entry: when its run started, the run, the line, and which of its events.

    >>> Place.of("5.run.0.1")
    Place(started_at=5, run='run', line=0, part=1)
    """

    started_at: int
    run: str
    line: int
    part: int

    @classmethod
    def of(cls, key: str) -> Place:
        """Read the key of an entry."""
        try:
            first, rest = str(key).split(".", 1)
            run, line, part = rest.rsplit(".", 2)
            if max(map(len, (first, line, part))) > _DIGITS:
                raise ValueError
            return cls(int(first), run, int(line), int(part))
        except ValueError:
            raise UserError(f"after is the key of an entry, as the page before gave it, and not {key!r}") from None


class Wanted(NamedTuple):
    """Says what is searched for: all that is given must fit.

    >>> Wanted(verdict="approve").verdict
    'approve'
    """

    person: str | None = None
    tool: str | None = None
    agent: str | None = None
    run: str | None = None
    verdict: str | None = None
    between: tuple[datetime | None, datetime | None] = (None, None)
    text: str | None = None

    def checked(self) -> Wanted:
        """Refuse what no entry can have."""
        for name in ("person", "tool", "agent", "run", "text"):
            value = getattr(self, name)
            if value is not None:
                plain_text(value, name)
        if self.verdict is not None and self.verdict not in _VERDICTS:
            raise UserError(f"verdict is one of {', '.join(_VERDICTS)}, and not {self.verdict!r}")
        self._check_times()
        return self

    def _check_times(self) -> None:
        given: Any = self.between
        times = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else ()
        if len(times) != 2:
            raise UserError("between is two times, the earlier first; None for one that does not matter")
        for at in times:
            if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
                raise UserError(f"a time of between is a datetime with its zone, and not {at!r}")
        start, end = self.between
        if start is not None and end is not None and start > end:
            raise UserError("between names the later time first; name the earlier one first")

    def fits(self, entry: AuditEntry) -> bool:
        """Return whether an entry is searched for."""
        start, end = self.between
        if (start is not None and entry.at < start) or (end is not None and entry.at > end):
            return False
        pairs = (
            (self.person, entry.by),
            (self.tool, entry.tool),
            (self.agent, entry.agent),
            (self.verdict, entry.verdict),
        )
        if any(asked is not None and asked != has for asked, has in pairs):
            return False
        return self.text is None or self.text.casefold() in texts(entry)

    def skips(self, row: RunRow) -> bool:
        """Return whether nothing of a run can be searched for, by the times of its row."""
        if row.status == "damaged":
            return False
        start, end = self.between
        late = start is not None and row.updated_at < start.timestamp() * 1000 - 1
        return late or (end is not None and row.started_at > end.timestamp() * 1000 + 1)


class Found(NamedTuple):
    """Holds what a search found; where it goes on, if there may be more; and whether its time ran out before its page.

    >>> Found([], None).late
    False
    """

    entries: list[AuditEntry]
    next: str | None
    late: bool = False


async def search(
    store: Store, wanted: Wanted, after: str | None = None, limit: int = 100, *, newest: bool = False
) -> list[AuditEntry]:
    """Return the first entries that fit, or those after the one with this key; with `newest` the last ones first.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(search(MemoryJournal(), Wanted(person="ada")))
    []
    """
    return (await search_page(store, wanted, after, limit, newest=newest)).entries


async def search_page(
    store: Store,
    wanted: Wanted,
    after: str | None = None,
    limit: int = 100,
    *,
    newest: bool = False,
    seconds: float | None = None,
) -> Found:
    """Return a page of entries that fit, as far as it comes in so many seconds: between two runs it looks at the time.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(search_page(MemoryJournal(), Wanted(person="ada"), newest=True, seconds=5))
    Found(entries=[], next=None, late=False)
    """
    wanted.checked()
    if not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UserError(f"limit is a number from 1 to {_MOST}, and not {limit!r}")
    ends = None if seconds is None else time.monotonic() + seconds
    place = None if after is None else Place.of(after)
    found: list[AuditEntry] = []
    async for row, made in _read_runs(store, wanted, place, newest=newest):
        found += made
        if len(found) > limit:
            return Found(found[:limit], found[limit - 1].key)
        went_on = place is None or row.run != place.run  # or it would stop where it stopped before
        if ends is not None and went_on and time.monotonic() >= ends:
            return Found(found, _behind(row, newest=newest), late=True)
    return Found(found, None)


def _behind(row: RunRow, *, newest: bool) -> str:
    """Return a key that stands behind all entries of a run, in the order in which they are read."""
    return f"{row.started_at}.{row.run}.{0 if newest else 10**12}.0"


async def entries(store: Store, wanted: Wanted, after: Place | None = None) -> AsyncIterator[AuditEntry]:
    """Yield all entries that fit, the runs in the order in which they started."""
    async for _, made in _read_runs(store, wanted, after, newest=False):
        for entry in made:
            yield entry


async def _read_runs(
    store: Store, wanted: Wanted, after: Place | None, *, newest: bool
) -> AsyncIterator[tuple[RunRow, list[AuditEntry]]]:
    """Yield each run that is read, and what fits of it, in order."""
    async for row in _rows(store, wanted.run, after, newest=newest):
        if wanted.skips(row):
            continue
        made = await _of_run(store, row)
        if after is not None and row.run == after.run:
            made = [entry for entry in made if _follows(Place.of(entry.key), after, newest=newest)]
        yield row, [entry for entry in (reversed(made) if newest else made) if wanted.fits(entry)]


def _follows(place: Place, after: Place, *, newest: bool) -> bool:
    here, there = (place.line, place.part), (after.line, after.part)
    return here < there if newest else here > there


async def _rows(store: Store, run: str | None, after: Place | None, *, newest: bool) -> AsyncIterator[RunRow]:
    if run is not None:
        for row in await store.runs(Query(run=run)):
            yield row
        return
    if after is not None:
        for row in await store.runs(Query(run=after.run)):
            yield row
    key = None if after is None else (after.started_at, after.run)
    while page := await store.runs(Query(after=key, limit=_PAGE, newest=newest)):
        for row in page:
            yield row
        key = (page[-1].started_at, page[-1].run)


async def _of_run(store: Store, row: RunRow) -> list[AuditEntry]:
    try:
        lines = await store.read(row.run)
    except LogDamaged as damaged:
        return [damage(row.run, row.started_at, damaged.line, row.started_at, f"the line {damaged.why}")]
    return list(read_entries(store, row, lines))


def read_entries(store: Store, row: RunRow, lines: list[bytes]) -> Iterator[AuditEntry]:
    """Read the entries of the lines of a run, up to the first that is not the one that was written there."""
    chain = chain_of(store, row.run)
    book = CallBook(row.run)
    for place, line in enumerate(lines):
        try:
            step = decode(chain.open(line))
        except LogDamaged as damaged:
            yield damage(row.run, row.started_at, place, row.started_at, f"the line {damaged.why}")
            return
        except KeyturnError:
            yield damage(row.run, row.started_at, place, row.started_at, "the line cannot be read by this version")
            return
        yield from entries_of(book, step, row.started_at, place)
