"""Check a journal: every run is read line by line, nothing is believed, and its rows are compared.

Any store will do, and so will a bare state. One run is in memory at a time. Nothing is written, and nothing is asked of
the code that decides: the laws of the gate stand here a second time, in `gate.py` and `log.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.codec import decode
from ..core.effects import pending
from ..core.errors import KeyturnError, LogDamaged
from ..core.folding import fold
from ..core.run import Run, new_run
from ..core.seal import body_of, verify
from ..directory.book import NAME as DIRECTORY
from ..directory.read_lines import READS
from ..engine.run.open_run import chain_of
from ..engine.states.state import RunState
from ..journal.base import RESERVED, Store
from ..journal.rows import GrantRow, Period, Query, RequestRow, RunRow, Tally
from .calls import Broken
from .directory import faults_of
from .evidence.chain import head_of
from .loans import Loans
from .log import end_log, read_step
from .outside import Outside
from .reads import faults_of_reads
from .report import CheckReport, Head, Told, Violation
from .roles import Roles
from .rows import DerivedRows, compare_run
from .run import AuditedRun
from .tallies import Recount

__all__ = ["CheckReport", "Head", "Told", "Violation", "check", "heads"]

_PAGE = 500
_TRIES = 5


async def check(
    store: Store | RunState[Any],
    *,
    effects: Mapping[str, int] | None = None,
    acknowledged: Iterable[Told | tuple[str, str, str]] = (),
    heads: Mapping[str, Head | tuple[int, str]] | None = None,
) -> CheckReport:
    """Check a store, or one state, and report which of the invariants I1 to I8 do not hold, where.

    `effects` says how often the world saw each idempotency key, `acknowledged` which decisions somebody was told are
    kept, `heads` how far logs had come, as `heads()` said it and somebody kept it elsewhere: only by that is a tail
    that was cut off, or a log that was made anew, told from an honest one.

    >>> import asyncio
    >>> from keyturn import Agent, MemoryJournal, Runner
    >>> from keyturn.testing import ScriptedModel
    >>> journal = MemoryJournal()
    >>> _ = Runner.run_sync(Agent("a", model=ScriptedModel(["hello"])), "hi", journal=journal)
    >>> asyncio.run(check(journal)).ok
    True
    """
    outside = Outside(effects, acknowledged, heads, getattr(store, "tenant", "default"))
    report = CheckReport()
    if isinstance(store, RunState):
        _check_state(store, outside, report)
    else:
        await _check_store(store, outside, report)
    outside.left(report)
    return report


async def heads(store: Store) -> dict[str, Head]:
    """Return how far each log has come: keep it elsewhere, and give it to a later `check`.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(heads(MemoryJournal()))
    {}
    """
    found: dict[str, Head] = {}
    for run in await _names(store):
        links = await store.hashes(run)
        if links:
            found[run] = Head(len(links), head_of(getattr(store, "tenant", "default"), run, links))
    return found


@dataclass
class _Taken:
    """Holds one run as it stood at one moment."""

    run: str
    lines: list[bytes]
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    # The first line that is not the one that was written there, and why that is known.
    bad: int | None = None
    missing: LogDamaged | None = None
    row: RunRow | None = None
    requests: list[RequestRow] = field(default_factory=list[RequestRow])
    grants: list[GrantRow] = field(default_factory=list[GrantRow])


# One run ------------------------------------------------------------------------------------------------------------


def _check_state(state: RunState[Any], outside: Outside, report: CheckReport) -> None:
    lines = state.live.log.lines(state.position)
    report.runs += 1
    report.lines += len(lines)
    if lines:
        _check_log(_Taken(state.run_id, lines), outside, report)


def _check_log(taken: _Taken, outside: Outside, report: CheckReport) -> _Read | None:
    """Hold the lines of a run to the laws; return the folded run, None where they break a promise."""
    read = _Read(AuditedRun(taken.run))
    for position, line in enumerate(taken.lines):
        fault = read.line(line, outside)
        if fault is not None:
            report.add(fault.invariant, taken.run, position, fault.what)
            outside.unread(taken.run)
            return None
    fault = read.end()
    if fault is not None:
        report.add(fault.invariant, taken.run, len(taken.lines), fault.what)
        outside.unread(taken.run)
        return None
    outside.compare_effects(read.audited, report)
    if read.stuck():
        report.add("I6", taken.run, len(taken.lines) - 1, "the run is open, and there is nothing that could move it")
    return read


class _Read:
    """Holds a log as far as it was read: what the auditor keeps, what the core folds, and the rows that it means."""

    def __init__(self, audited: AuditedRun) -> None:
        self.audited, self.rows = audited, DerivedRows(audited)
        self.run: Run = new_run()
        self.started_at = 0

    def line(self, line: bytes, outside: Outside) -> Broken | None:
        """Read one more line; return what is wrong with it."""
        try:
            step = decode(line)
            for event in step.events:
                outside.check_deciders(event, step.at)
            read_step(self.audited, step)
            outside.check_votes(self.audited)
            self.rows.feed(step)
            fold(self.run, [step])
        except Broken as broken:
            return broken
        except KeyturnError:
            return Broken("I8", "the line cannot be read")
        except (LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
            return Broken("I8", f"the line does not follow from those before it ({type(error).__name__})")
        self.started_at = step.at if self.run.seq == 1 else self.started_at
        for event in step.events:
            outside.heard(self.audited, event)
        return None

    def end(self) -> Broken | None:
        """Return what is wrong with a log that ends here."""
        try:
            end_log(self.audited)
        except Broken as broken:
            return broken
        return None

    def stuck(self) -> bool:
        """Return whether the run is open and nothing and nobody could move it."""
        run = self.run
        if run.queued or run.status != "running":
            return False  # whose turn it is on a session is not in the log, and one that failed is resumed
        if not all(frame.barrier for frame in run.frames.values()):
            return False  # a model that goes on talking moves its run by itself
        claimable = any(call.proposal.claimed for call in run.groups["run"].values())
        return not (claimable or pending(run) or run.groups["wait"] or run.groups["started"])


def _check_taken(taken: _Taken, outside: Outside, report: CheckReport) -> _Read | None:
    """Check one run and its rows; return what was read, None where its log says nothing that counts."""
    report.runs += 1
    report.lines += len(taken.links)
    erased = taken.row is not None and taken.row.status == "erased"
    if taken.bad is not None:
        report.add("I8", taken.run, taken.bad, "the line is not the one that was written there")
    elif taken.missing is not None:
        report.add("I8", taken.run, taken.missing.line, f"the line {taken.missing.why}")
    outside.compare_head(taken.run, taken.links, report, taken.bad)
    if erased:
        _check_erased(taken, report)
        return None
    if taken.missing is not None:
        outside.unread(taken.run)
        return None
    found = _check_log(taken, outside, report)
    if found is None:
        return None
    rows = [*compare_run(found.run, found.started_at, taken.row), *found.rows.compare_requests(taken.requests)]
    for invariant, what in [*rows, *found.rows.compare_grants(taken.grants)]:
        report.add(invariant, taken.run, None, what)
    return found


def _check_erased(taken: _Taken, report: CheckReport) -> None:
    report.erased += 1
    if taken.lines or taken.requests or taken.grants:
        report.add("I8", taken.run, None, "the run was erased, and not all that it said is gone")


# One store ----------------------------------------------------------------------------------------------------------


async def _check_store(store: Store, outside: Outside, report: CheckReport) -> None:
    faults: Any = getattr(store, "faults", None)
    found: list[str] = [] if faults is None else await faults()
    for what in found:
        report.add("I8", "", None, what)
    outside.roles = await _roles(store)
    loans, recount = Loans(), Recount()
    counted = await _tallies(store)
    for run in await _names(store):
        taken = await _take(store, run)
        read = None
        if run.startswith(RESERVED):
            _check_book(taken, outside, report)
            continue
        if taken is None:
            report.moving += 1
        elif taken.links or taken.row is not None or taken.missing is not None:  # else somebody only held its name
            read = _check_taken(taken, outside, report)
        if read is None:
            loans.unread(run)
            recount.whole = False
        else:
            loans.read(read.audited)
            recount.take(read.rows.tallies)
    await _check_loans(store, loans, report)
    await _check_orphans(store, report)
    for what in recount.faults(counted, await _tallies(store)):
        report.add("I8", "", None, what)


async def _roles(store: Store) -> Roles | None:
    """Return who held which role and when; None where the directory cannot be read, which is reported elsewhere."""
    try:
        lines = await store.read(DIRECTORY)
    except LogDamaged:
        return None
    if verify(chain_of(store, DIRECTORY), await store.hashes(DIRECTORY)) is not None:
        return None
    return Roles([body_of(line) for line in lines])


async def _tallies(store: Store) -> list[Tally]:
    return await store.tallies(Period(daily=True))


def _check_book(taken: _Taken | None, outside: Outside, report: CheckReport) -> None:
    """Check a log that is no run: its chain, and of a directory that each line is an entry which follows the others."""
    if taken is None:
        report.moving += 1
        return
    report.lines += len(taken.links)
    outside.compare_head(taken.run, taken.links, report)
    if taken.bad is not None:
        report.add("I8", taken.run, taken.bad, "the line is not the one that was written there")
    elif taken.missing is not None:
        report.add("I8", taken.run, taken.missing.line, f"the line {taken.missing.why}")
    elif len(taken.lines) != len(taken.links):
        report.add("I8", taken.run, None, "its text is missing, and only runs are erased")
    else:
        bodies = [body_of(line) for line in taken.lines]
        for place, what in _faults_in(taken.run, bodies):
            report.add("I8", taken.run, place, what)


def _faults_in(name: str, bodies: Sequence[bytes]) -> Iterable[tuple[int, str]]:
    """Return what is wrong with what a log says that is no run."""
    if name == DIRECTORY:
        return faults_of(bodies)
    if name.startswith(READS):
        return faults_of_reads(bodies)
    return [(0, "the log has a name that only Keyturn gives, and it gave none")] if bodies else []


async def _check_loans(store: Store, loans: Loans, report: CheckReport) -> None:
    """Report what was borrowed and not lent; a run may have lent it since its log was read."""
    for home in loans.denied_by():
        taken = await _take(store, home)
        found = None if taken is None or taken.missing is not None else _check_log(taken, Outside(), CheckReport())
        erased = taken is not None and taken.row is not None and taken.row.status == "erased"
        if found is not None and not erased:
            loans.read_again(found.audited)
        elif taken is None or taken.links:  # else it never was
            loans.unread(home)
    loans.left(report)


async def _names(store: Store) -> list[str]:
    """Return every run of which anything is kept: no page of rows says so, since an altered one is not in it."""
    every: Any = getattr(store, "every_run", None)
    if every is not None:
        return await every()
    books = [DIRECTORY] if await store.hashes(DIRECTORY) else []
    return [*books, *[row.run async for row in _runs(store)]]


async def _take(store: Store, run: str) -> _Taken | None:
    """Read all that a store has of a run; None where it changed each time that was tried."""
    for _ in range(_TRIES):
        head = await stored_length(store, run)
        before = await store.hashes(run)
        found: Sequence[RunRow] = await store.runs(Query(run=run))
        taken = _Taken(run, [], before)
        try:
            taken.lines = await store.read(run)
            if head != len(before):
                taken.missing = LogDamaged(run, len(before), "is not there: the store counts others than it has")
        except LogDamaged as damaged:
            taken.missing = damaged
        taken.bad = verify(chain_of(store, run), before)
        taken.row = next(iter(found), None)
        taken.requests = [each async for each in _requests(store, run)]
        taken.grants = [each async for each in _grants(store, run)]
        if await store.hashes(run) == before and await stored_length(store, run) == head:
            return taken
    return None


async def stored_length(store: Store, run: str) -> int | None:
    """Return how many lines the store says a run has; None where what it says is no number."""
    try:
        return await store.head(run)
    except LogDamaged:
        return None


async def _runs(store: Store) -> AsyncGenerator[RunRow, None]:
    after: tuple[int, str] | None = None
    while page := await store.runs(Query(after=after, limit=_PAGE)):
        for row in page:
            yield row
        after = (page[-1].started_at, page[-1].run)


async def _requests(store: Store, run: str | None) -> AsyncGenerator[RequestRow, None]:
    after: tuple[int, str] | None = None
    while page := await store.requests(Query(run=run, after=after, limit=_PAGE)):
        for row in page:
            yield row
        after = page[-1].place


async def _grants(store: Store, run: str | None) -> AsyncGenerator[GrantRow, None]:
    after: tuple[int, str] | None = None
    while page := await store.grants(Query(run=run, after=after, limit=_PAGE)):
        for row in page:
            yield row
        after = (0, f"{page[-1].run}/{page[-1].id}")


async def _check_orphans(store: Store, report: CheckReport) -> None:
    """Report rows of runs that have no log: somebody took it away, or it never was."""
    known = ""
    async for row in _requests(store, None):
        if row.run != known and not await _has_log(store, row.run):
            report.add("I8", row.run, None, f"a request of call {row.call} has a row and its run has no log")
        known = row.run
    async for grant in _grants(store, None):
        if not await _has_log(store, grant.run):
            report.add("I1", grant.run, None, f"grant {grant.id} has a row and its run has no log")


async def _has_log(store: Store, run: str) -> bool:
    return await stored_length(store, run) != 0  # what is wrong with it otherwise is found with the run
