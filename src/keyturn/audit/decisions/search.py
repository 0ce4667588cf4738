"""Search the logs of a store for decisions, page by page.

The logs are read, each line verified, and not the rows: a row says how a request ended, a log who said what on the way.
Rows only say which runs can be left out, by their times. A search over a large store is therefore a scan, oldest run
first or newest first; name a run or a time where you can. A log is read in pieces and never held whole. With a limit of
time, or of what is looked at, a page says how far it came.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, NamedTuple, cast

from ...core.codec import decode
from ...core.errors import KeyturnError, LogDamaged, UserError
from ...core.people import plain_text
from ...engine.run.open_run import chain_of
from ...journal.base import Store
from ...journal.rows import Query, RunRow
from .calls import CallBook
from .entries import entries_of
from .entry import AuditEntry, damage, decides, texts

_PAGE = 200
#: How many lines of a log are held at once.
PIECE = 100
MOST = 10_000
_DIGITS = 18  # of a number of a key: no store compares more
_VERDICTS = (
    *("approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "expire", "drill_passed", "drill_failed"),
    *("asked_back", "right", "wrong", "allow", "ask", "deny", "upheld", "more", "revoke", "cancel", "damaged"),
    *("grant", "withdraw", "undo"),
)


class EntryPlace(NamedTuple):
    """Names the place of an entry: when its run started, the run, the line, and which of its events.

    >>> EntryPlace.of("5.run.0.1")
    EntryPlace(started_at=5, run='run', line=0, part=1)
    """

    started_at: int
    run: str
    line: int
    part: int

    @classmethod
    def of(cls, key: str) -> EntryPlace:
        """Read the key of an entry."""
        try:
            first, rest = str(key).split(".", 1)
            run, line, part = rest.rsplit(".", 2)
            if max(map(len, (first, line, part))) > _DIGITS:
                raise ValueError
            return cls(int(first), run, int(line), int(part))
        except ValueError:
            raise UserError(f"after is the key of an entry, as the page before gave it, and not {key!r}") from None


class SearchTerms(NamedTuple):
    """Says what is searched for: all that is given must fit.

    `verdict` is a verdict, or "grant" for a grant that was created: the approval that it came with is an entry of its
    own. With `decisions`, only what people decided, and calls that were allowed without a decision: not what a call
    passed before.

    >>> SearchTerms(verdict="approve").verdict
    'approve'
    """

    person: str | None = None
    tool: str | None = None
    agent: str | None = None
    run: str | None = None
    verdict: str | None = None
    between: tuple[datetime | None, datetime | None] = (None, None)
    text: str | None = None
    decisions: bool = False

    def checked(self) -> SearchTerms:
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
            (self.tool, entry.tool),
            (self.agent, entry.agent),
            (self.verdict, "grant" if entry.what == "grant" else entry.verdict),
        )
        if self.person not in (None, entry.by, entry.acting_for or None):
            return False
        if any(asked is not None and asked != has for asked, has in pairs) or (self.decisions and not decides(entry)):
            return False
        return self.text is None or self.text.casefold() in texts(entry)

    def skips(self, row: RunRow) -> bool:
        """Return whether nothing of a run can be searched for, by the times of its row."""
        if row.status == "damaged":
            return False
        start, end = self.between
        late = start is not None and row.updated_at < start.timestamp() * 1000 - 1
        return late or (end is not None and row.started_at > end.timestamp() * 1000 + 1)


class FoundEntries(NamedTuple):
    """Holds what a search found; where it goes on, if there may be more; and whether it ended before its page was full.

    >>> FoundEntries([], None).late
    False
    """

    entries: list[AuditEntry]
    next: str | None
    late: bool = False


async def search(
    store: Store, wanted: SearchTerms, after: str | None = None, limit: int = 100, *, newest: bool = False
) -> list[AuditEntry]:
    """Return the first entries that fit, or those after the one with this key; with `newest` the last ones first.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(search(MemoryJournal(), SearchTerms(person="ada")))
    []
    """
    return (await search_page(store, wanted, after, limit, newest=newest)).entries


async def search_page(
    store: Store,
    wanted: SearchTerms,
    after: str | None = None,
    limit: int = 100,
    *,
    newest: bool = False,
    seconds: float | None = None,
    looks: int | None = None,
) -> FoundEntries:
    """Return a page of entries that fit, as far as it comes in so many seconds, or looks at runs and lines.

    Between two pieces of a log it looks at both; with `newest` only between two runs, since the last entries of a run
    are known at its end.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(search_page(MemoryJournal(), SearchTerms(person="ada"), newest=True, seconds=5))
    FoundEntries(entries=[], next=None, late=False)
    """
    wanted.checked()
    if not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise UserError(f"limit is a number from 1 to {MOST}, and not {limit!r}")
    ends = None if seconds is None else time.monotonic() + seconds
    place = None if after is None else EntryPlace.of(after)
    found: list[AuditEntry] = []
    looked = 0
    async for piece in _read_runs(store, wanted, place, _Reading(newest=newest, most=limit + 1)):
        found += piece.entries
        looked += piece.looked
        if len(found) > limit:
            return FoundEntries(found[:limit], found[limit - 1].key)
        spent = (ends is not None and time.monotonic() >= ends) or (looks is not None and looked >= looks)
        if spent and piece.end is not None and piece.end != after:  # or it would stop where it stopped before
            return FoundEntries(found, piece.end, late=True)
    return FoundEntries(found, None)


async def entries(store: Store, wanted: SearchTerms, after: EntryPlace | None = None) -> AsyncIterator[AuditEntry]:
    """Yield all entries that fit, the runs in the order in which they started."""
    async for piece in _read_runs(store, wanted, after, _Reading()):
        for entry in piece.entries:
            yield entry


class _Reading(NamedTuple):
    """Says in which order logs are read and, for the newest first, how many entries of a run are kept."""

    newest: bool = False
    most: int = 0


class _Piece(NamedTuple):
    """Holds what fits of a piece of a log; how much was looked at; and a key behind it, if reading can go on there."""

    entries: list[AuditEntry]
    looked: int
    end: str | None


async def _read_runs(
    store: Store, wanted: SearchTerms, after: EntryPlace | None, reading: _Reading
) -> AsyncIterator[_Piece]:
    """Yield what is read of each run, and what fits of it, in order."""
    async for row in _rows(store, wanted.run, after, newest=reading.newest):
        begun = after if after is not None and row.run == after.run else None
        if begun is not None and (begun.line >= _END or (reading.newest and begun[2:] == (0, 0))):
            continue  # it was read to its end
        if wanted.skips(row):
            yield _Piece([], 1, _key(row, 0 if reading.newest else _END, 0))
        elif reading.newest:
            yield await _last_of(store, row, wanted, begun, reading.most)
        else:
            async for piece in _pieces_of(store, row, wanted, begun):
                yield piece


# A line that no log has, and a place that no event of a line has.
_END = 10**12


def _key(row: RunRow, line: int, part: int) -> str:
    return f"{row.started_at}.{row.run}.{line}.{part}"


async def _pieces_of(store: Store, row: RunRow, wanted: SearchTerms, after: EntryPlace | None) -> AsyncIterator[_Piece]:
    """Yield what fits of a run, piece by piece; what is before the place is read again, to know its calls."""
    read = 0
    async for made, lines, whole in entries_in(store, row):
        read += lines
        fits = [
            each for each in made if wanted.fits(each) and (after is None or _follows(EntryPlace.of(each.key), after))
        ]
        passed = after is None or read > after.line + 1
        end = _key(row, _END, 0) if whole else _key(row, read - 1, _END) if passed else None
        yield _Piece(fits, lines, end)


async def _last_of(store: Store, row: RunRow, wanted: SearchTerms, before: EntryPlace | None, most: int) -> _Piece:
    """Return the last entries of a run that fit, the last one first: no more than a page has."""
    kept = deque[AuditEntry](maxlen=most)
    read = 1
    async for made, lines, _ in entries_in(store, row):
        read += lines
        kept += [
            each
            for each in made
            if wanted.fits(each) and (before is None or _precedes(EntryPlace.of(each.key), before))
        ]
    return _Piece([*reversed(kept)], read, _key(row, 0, 0))


def _follows(place: EntryPlace, after: EntryPlace) -> bool:
    return (place.line, place.part) > (after.line, after.part)


def _precedes(place: EntryPlace, before: EntryPlace) -> bool:
    return (place.line, place.part) < (before.line, before.part)


async def _rows(store: Store, run: str | None, after: EntryPlace | None, *, newest: bool) -> AsyncIterator[RunRow]:
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


async def entries_in(store: Store, row: RunRow) -> AsyncIterator[tuple[list[AuditEntry], int, bool]]:
    """Yield the entries of a run by pieces of its log, of how many lines each is made, and whether it is the last.

    The log is read up to the first line that is not the one that was written there.
    """
    chain, book = chain_of(store, row.run), CallBook(row.run)
    while True:
        place = chain.count
        try:
            lines = await store.read(row.run, place, PIECE)
        except LogDamaged as damaged:
            yield [_damaged(row, damaged.line, f"the line {damaged.why}")], 1, True
            return
        made = list[AuditEntry]()
        ends = len(lines) < PIECE
        for line in lines:
            try:
                made += entries_of(book, decode(chain.open(line)), row.started_at, chain.count - 1)
            except LogDamaged as damaged:
                made.append(_damaged(row, damaged.line, f"the line {damaged.why}"))
            except KeyturnError:
                made.append(_damaged(row, chain.count - 1, "the line cannot be read by this version"))
            else:
                continue
            ends = True
            break
        yield made, len(lines), ends
        if ends:
            return


def _damaged(row: RunRow, line: int, why: str) -> AuditEntry:
    return damage(row.run, row.started_at, line, row.started_at, why)
