"""A journal in this process's memory: for tests, scripts and the first five minutes.

It keeps every promise of the seam but one: nothing here outlives the process. One lock guards the store and a watcher
is woken in its own event loop, so the journal may be used from several loops and threads, at once or one after another.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import suppress
from copy import copy
from heapq import nsmallest

import msgspec

from ..core.errors import Conflict, UserError
from ..core.seal import Ring, erased, parted
from ..core.settable import Sealed, own_of
from ..core.states import OVER
from ..support.keys import own_ring
from .base import Claim, ClaimFilter, DueRun, Lease, LostRace
from .commit_effects import CommitEffects, of_append
from .due_feed import ERASED, DueFeed, DueFollower, MadeDue
from .memory_logs import MemoryLog, MemoryTenant, check_free, earlier, wake_all
from .memory_tenants import due_tenants, held_runs, wait_until_due
from .optional import FleetLimits, TenantDue
from .rows import (
    ALL,
    ENDED,
    Changes,
    Delivery,
    DeliveryQuery,
    Dispatch,
    GrantRow,
    Notice,
    Period,
    Query,
    RequestRow,
    RunRow,
    Tally,
)
from .sealing import askable, check_erasable, check_name, plain, plain_notice
from .waiters import ANY, DUE, NOTICES

# What is kept here never leaves the process, and neither does the key that seals it: nothing is asked of the disk.
_RING = own_ring()


class MemoryJournal(Sealed):
    """Stores logs for as long as the object lives; `clock` gives the time in milliseconds.

    >>> import asyncio
    >>> journal = MemoryJournal()
    >>> asyncio.run(journal.append("run", 0, [b"one", b"two"]))
    >>> asyncio.run(journal.read("run", after=1)), asyncio.run(journal.of("other").head("run"))
    ([b'two'], 0)
    """

    def __init__(self, clock: Callable[[], int] | None = None, tenant: str = "default") -> None:
        self.tenant = check_name("a tenant's name", tenant)
        self._clock = clock or _now
        # Reentrant: a watcher that is garbage may be closed, and take the lock, wherever memory is asked for.
        self._lock = threading.RLock()
        self._tenants: dict[str, MemoryTenant] = {tenant: MemoryTenant()}
        self._mine = self._tenants[tenant]
        self._feed = DueFeed()

    @classmethod
    def open(cls, url: str) -> MemoryJournal:
        """Open an empty journal, for `open_journal("memory://")`.

        >>> MemoryJournal.open("memory://").tenant
        'default'
        """
        if url != "memory://":
            raise UserError("nothing may follow 'memory://': each journal in memory begins empty")
        return cls()

    def of(self, tenant: str) -> MemoryJournal:
        """Return the same store as another tenant sees it."""
        view = copy(self)
        own_of(view)["tenant"] = check_name("a tenant's name", tenant)
        with self._lock:
            view._mine = self._tenants.setdefault(tenant, MemoryTenant(anybody=self._mine.anybody))
        return view

    def keys(self) -> Ring:
        """Return the keys that seal what is kept here."""
        return _RING

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
        lease: Lease | None = None,
    ) -> Claim | None:
        check_name("a run's id", run)
        added = [bytes(line) for line in lines]
        with self._lock:
            log = self._log(run) if claim is None else self._held(run, claim)
            taken = None
            if lease is not None and lease.worker:
                check_free(run, log, self._clock())
                if lease.orderly and (log.holder is not None or log.takers):
                    raise LostRace(f"the last holder of run {run!r} did not give it back")
            if expected != len(log.lines):
                raise LostRace(f"expected {expected} lines, the log has {len(log.lines)}")
            if log.erased:
                raise Conflict(f"run {run!r} was erased and cannot be written to")
            if not added:
                return None
            if lease is not None and lease.worker:
                claim = taken = self._take(run, log, lease.worker, lease.ttl_ms)
            log.lines.extend(added)
            log.takers = 0 if claim is not None else log.takers
            row = self._mine.rows.runs.get(run)
            over = changes is not None and changes.run.status in OVER and (row is None or row.status in OVER)
            if changes is not None:
                self._mine.rows.apply(plain(changes))
                self._mine.place(log, changes)
                log.format = changes.format
                log.priority = changes.priority if row is None else log.priority
            # Whoever appends under the claim has read all before it; what another appends still wants to be read.
            # A run that was over and is over has nothing to be moved, nor has one of which only something was noted.
            if not over and not (claim is None and changes is not None and changes.quiet):
                log.due = earlier(log.due, self._clock()) if claim is None else None
            self._mine.logs[run] = log
            woken = self._mine.written(of_append(self.tenant, run, claim, changes))
            self._name_due(run, log, str(len(log.lines)))
            if lease is not None and lease.ends:
                assert claim is not None
                woken += self._give_back(claim, log, lease.due)
        if woken:
            wake_all(woken)
        return taken

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        with self._lock:
            log, begin = self._log(run), max(after, 0)
            return [] if log.erased else log.lines[begin : None if limit is None else begin + limit]

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        with self._lock:
            return [parted(line) for line in self._log(run).lines]

    async def erase(self, run: str) -> None:
        check_erasable(run)
        with self._lock:
            log, now = self._log(run), self._clock()
            if log.holder is not None and now < log.holder.until:
                raise Conflict(
                    f"run {run!r} is held by {log.holder.worker!r}; cancel it first", winner=log.holder.worker
                )
            log.lines = [erased(line) for line in log.lines]
            log.erased = True
            log.session, log.place = "", 0
            self._mine.rows.erase(run)
            self._feed.put([MadeDue(self.tenant, run, ERASED)])
            woken = self._mine.made_due()
        wake_all(woken)

    async def now(self) -> int:
        return self._clock()

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        with self._lock:
            return self._mine.rows.find_runs(query) if askable(query) else []

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        with self._lock:
            return self._mine.rows.find_requests(query) if askable(query) else []

    async def grants(self, query: Query = ALL) -> list[GrantRow]:
        with self._lock:
            return self._mine.rows.find_grants(query) if askable(query) else []

    async def outbox(self, limit: int = 100, done: Sequence[int] = ()) -> list[Notice]:
        with self._lock:
            return self._mine.rows.outbox(limit, done)

    async def tell(self, notices: Sequence[Notice]) -> None:
        with self._lock:
            self._mine.rows.tell([plain_notice(notice) for notice in notices])
            woken = self._mine.written(CommitEffects([(self.tenant, NOTICES)]))
        wake_all(woken)

    async def notified(self, timeout: float | None = None) -> None:
        with self._lock:
            if self._mine.rows.notices:
                return
            told = self._wait(NOTICES)
        try:
            async with asyncio.timeout(timeout):
                await told
        except TimeoutError:
            return
        finally:
            self._leave(NOTICES, told)

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        with self._lock:
            return self._mine.rows.deliveries(query)

    async def dispatch(self, claim: Claim, step: Dispatch) -> None:
        with self._lock:
            self._held(claim.run, claim)
            self._mine.rows.dispatch(step)

    async def send_again(self, numbers: Sequence[int]) -> int:
        with self._lock:
            count = self._mine.rows.send_again(numbers, self._clock())
            woken = self._mine.written(CommitEffects([(self.tenant, NOTICES)]))
        wake_all(woken)
        return count

    async def tallies(self, period: Period) -> list[Tally]:
        with self._lock:
            return self._mine.rows.find_tallies(period)

    async def every_run(self) -> list[str]:
        with self._lock:
            return [*{name for name, log in self._mine.logs.items() if log.lines} | self._mine.rows.runs.keys()]

    async def ahead(self, run: str) -> list[str]:
        with self._lock:
            now, rows = self._clock(), self._mine.rows.runs
            found = [(self._mine.logs[name], name) for _, name in self._mine.before(self._log(run))]
            return [name for log, name in found if rows[name].status not in ENDED or log.held(now)]

    async def head(self, run: str) -> int:
        with self._lock:
            return len(self._log(run).lines)

    async def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        while True:
            for line in await self.read(run, after):
                after += 1
                yield line
            await self._appended(run, after)

    async def watch_all(self) -> AsyncGenerator[None, None]:
        while True:
            with self._lock:
                told = self._wait(ANY)
            try:
                yield
                await told
            finally:
                self._leave(ANY, told)

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        check_name("a run's id", run)
        check_name("a worker's name", worker)
        with self._lock:
            log = self._mine.logs.setdefault(run, MemoryLog())
            check_free(run, log, self._clock())
            return self._take(run, log, worker, ttl_ms)

    async def claim_within(self, run: str, worker: str, ttl_ms: int, limits: FleetLimits) -> Claim:
        """Take the lease on a run, or raise `FleetFull`."""
        with self._lock:
            limits.check(*held_runs(self._tenants, self.tenant, self._clock()))
            return await self.claim(run, worker, ttl_ms)

    async def room(self, limits: FleetLimits) -> int:
        """Return how many more runs may be held now."""
        with self._lock:
            return limits.room(*held_runs(self._tenants, self.tenant, self._clock()))

    def _take(self, run: str, log: MemoryLog, worker: str, ttl_ms: int) -> Claim:
        now = self._clock()
        log.epoch += 1
        made = Claim(run, worker, log.epoch, now + ttl_ms, now, len(log.lines), log.takers)
        log.due, log.holder = None, made
        log.takers += 1
        if log.session and self._mine.rows.runs[run].status in ENDED:  # whoever resumes it comes last
            log.session, log.place = "", 0
        return made

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        with self._lock:
            log = self._held(claim.run, claim)
            now = self._clock()
            log.holder = msgspec.structs.replace(claim, until=now + ttl_ms, at=now)
            return log.holder

    async def release(self, claim: Claim, due: int | None = None) -> None:
        with self._lock, suppress(Conflict):
            wake_all(self._give_back(claim, self._held(claim.run, claim), due))

    def _give_back(self, claim: Claim, log: MemoryLog, due: int | None) -> list[asyncio.Future[None]]:
        """Give a lease back; return who has to look at the run."""
        log.holder, log.due = None, earlier(log.due, due)
        log.takers = claim.lost if claim.untried else 0
        self._name_due(claim.run, log, f"e{claim.epoch}")
        over = bool(log.session) and self._mine.rows.runs[claim.run].status in ENDED
        if over:  # and its last words are in the session: the next one may begin
            log.session, log.place = "", 0
        queued = claim.run in self._mine.rows.queued  # whose turn may have come while it was held
        return self._mine.made_due() if over or queued or log.due is not None else []

    async def due(self, limit: int = 100, only: ClaimFilter | None = None) -> list[str]:
        with self._lock:
            now, logs = self._clock(), self._mine.logs
            found = [(logs[run].priority, at, run) for at, run in self._mine.wanted(only) if at <= now]
        return [run for _, _, run in nsmallest(limit, found)]

    def _name_due(self, run: str, log: MemoryLog, cause: str) -> None:
        """Name a run to those who follow, where it was just made due."""
        now = self._clock()
        if log.due is not None and log.due <= now and not log.held(now):
            self._feed.put([MadeDue(self.tenant, run, cause, log.priority)])

    def follow_due(self, *, of_all: bool = False) -> DueFollower:
        """Name, from now on, the runs that commits of this process make due, of this tenant or of all."""
        return self._feed.follow(None if of_all else self.tenant)

    async def overdue(self, limit: int = 100, only: ClaimFilter | None = None) -> list[DueRun]:
        """Return the runs that are due, the longest first, with what a worker needs to move each."""
        with self._lock:
            now = self._clock()
            found = nsmallest(limit, (one for one in self._mine.wanted(only) if one[0] <= now))
            logs = ((run, at or now, self._log(run)) for at, run in found)
            return [DueRun(run, at, self._mine.agent(run), log.format, log.priority) for run, at, log in logs]

    async def due_tenants(self) -> list[TenantDue]:
        """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
        with self._lock:
            return due_tenants(self._tenants)

    async def wait_until_tenants_due(self, timeout: float | None = None, without: Collection[str] = ()) -> None:
        """Wait until a run is due of a tenant that is not among these."""
        await wait_until_due(self._lock, self._clock, self._tenants, timeout, without)

    async def wait_until_due(self, timeout: float | None = None, only: ClaimFilter | None = None) -> None:
        with self._lock:
            first, now = min(self._mine.wanted(only), default=None), self._clock()
            if first is not None and first[0] <= now:
                return
            stirred = self._wait(DUE)
        waits = [*([] if timeout is None else [timeout]), *([] if first is None else [(first[0] - now) / 1_000])]
        try:
            await asyncio.wait_for(stirred, min(waits, default=None))
        except TimeoutError:
            return
        finally:
            self._leave(DUE, stirred)

    def _log(self, run: str) -> MemoryLog:
        """Return the log of a run; an empty one, which nobody keeps, for an unknown run."""
        return self._mine.logs.get(run) or MemoryLog()

    def _held(self, run: str, claim: Claim) -> MemoryLog:
        """Return the log of a run that is still held under this claim, or raise `Conflict`."""
        log = self._log(run)
        holder = log.holder
        if holder is None:
            raise Conflict(f"run {run!r} is not held under this claim: its lease was released; claim the run again")
        if (holder.run, holder.worker, holder.epoch) != (claim.run, claim.worker, claim.epoch):
            raise Conflict(
                f"run {run!r} is held by {holder.worker!r} under epoch {holder.epoch}, not by {claim.worker!r} under "
                f"epoch {claim.epoch}; stop, and leave the run to them",
                winner=holder.worker,
            )
        return log

    async def _appended(self, run: str, after: int) -> None:
        """Wait until there may be a line after that position.

        Only while it waits is a watcher known to the store.
        """
        with self._lock:
            if len(self._log(run).lines) > after:
                return
            watcher = self._wait(run)
        try:
            await watcher
        finally:
            self._leave(run, watcher)

    def _wait(self, what: str) -> asyncio.Future[None]:
        watcher = asyncio.get_running_loop().create_future()
        self._mine.waiting[what] = [*self._mine.waiting.get(what, []), watcher]
        return watcher

    def _leave(self, what: str, watcher: asyncio.Future[None]) -> None:
        with self._lock:
            others = [other for other in self._mine.waiting.pop(what, []) if other is not watcher]
            if others:
                self._mine.waiting[what] = others


def _now() -> int:
    return time.time_ns() // 1_000_000
