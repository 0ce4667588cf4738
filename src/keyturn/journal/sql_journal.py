"""A journal over a SQL database, with one thread that writes and one that reads.

A member says how its connections are made, what its errors mean, and how other processes are rung. What is said to the
database stands in `sql.py`.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from copy import copy
from functools import partial
from typing import Any, Self

from ..core.errors import LogDamaged
from ..support.keys import ring
from . import statements as say
from . import tally_sql
from .base import RESERVED, Claim, ClaimFilter, DueRun, Lease
from .commit_effects import CommitEffects
from .due_feed import ERASED, DueFollower, MadeDue
from .generation import Origin, read_meta
from .lease_sql import DueWhen, HeldAhead, held_runs
from .optional import FleetLimits, TenantDue
from .pages import rows_of
from .restorable import RestorableStore
from .rows import (
    ALL,
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
from .sealing import check_erasable, check_name, fits_a_store
from .sql import Tenant
from .statements import SqlDialect
from .store_thread import NOT_NOW, StoreConnection, StoreThread
from .tenants_sql import due_tenants
from .waiters import ANY, AT_MOST, DUE, EVERYBODY, NOTICES, SAID, Waiters, waited
from .writing import NewLines, Writing

# How long a run that cannot even be claimed is left alone.
SHELVED_MS = 3_600_000
_ALL = 1 << 62
# So many lines are read at once: to fold them takes far longer.
_FEW = 64


class SQLJournal(RestorableStore):
    """Implements what SQLite's and PostgreSQL's journals share: `tenant` is whose view it is, `keys` seal its rows."""

    keys = staticmethod(ring)

    def __init__(
        self, dialect: SqlDialect, threads: tuple[StoreThread, StoreThread], bell: Waiters, tenant: str, origin: Origin
    ) -> None:
        self.tenant = check_name("a tenant's name", tenant)
        super().__init__(dialect, threads, origin)
        self._bell, self._at_most = bell, AT_MOST
        self._mine = Tenant(dialect, tenant, self.keys)
        # A view keeps the store that it is a view of, and by that its threads.
        self._whole: Self | None = None
        # Who forgets to close it loses nothing: its threads end when nobody has it any more.
        weakref.finalize(self, _stop, *threads)

    def of(self, tenant: str) -> Self:
        """Return the same store as another tenant sees it."""
        view = copy(self)
        view.tenant = check_name("a tenant's name", tenant)
        view._mine = Tenant(self._dialect, tenant, self.keys)
        view._whole = self._whole or self
        return view

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
        takes = lease is not None and bool(lease.worker)
        if claim is not None:
            self._origin.check()
        elif takes:
            await self._check_origin()
        given = NewLines(run, expected, [*map(bytes, lines)], claim)
        writing = Writing(self._mine, self._origin, given, changes, lease)

        def append(db: StoreConnection) -> Any:
            if claim is None:  # what is said to a store that was moved is heard by nobody
                self._look(db)
                self._origin.check() if takes else self.moved()
            else:  # it may have been restored or moved since the claim was made
                self._look_if_changed(db)
            self._note(db)
            return writing.do(db)

        await self._writer.ask(append, writing.done, run=(self.tenant, run))
        return writing.claim

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        if not fits_a_store(run):
            return []
        few = _FEW if limit is None else min(limit, _FEW)
        lines = self._reader.at_once(lambda db: self._mine.read(db, run, after, few))
        if lines is not NOT_NOW and (len(lines) < few or few == limit):
            return lines
        return await self._reader.ask(lambda db: self._mine.read(db, run, after, limit))

    async def head(self, run: str) -> int:
        if not fits_a_store(run):
            return 0
        return await self._reader.short(lambda db: self._mine.head(db, run))

    async def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        with self._bell.heard(self.tenant, SAID + run if others else run) as ring:
            await self.listening()
            while True:
                for line in await self.read(run, after):
                    after += 1
                    yield line
                await waited(ring, self._at_most)

    async def watch_all(self) -> AsyncGenerator[None, None]:
        with self._bell.heard(self.tenant, ANY) as ring:
            await self.listening()
            while True:
                yield
                await waited(ring, self._at_most)

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        return await self._claim(run, worker, ttl_ms, None)

    async def claim_within(self, run: str, worker: str, ttl_ms: int, limits: FleetLimits) -> Claim:
        """Take the lease on a run, or raise `FleetFull`."""
        return await self._claim(run, worker, ttl_ms, limits)

    async def room(self, limits: FleetLimits) -> int:
        """Return how many more runs may be held now."""
        return limits.room(*await self._reader.short(lambda db: held_runs(db, self.tenant)))

    async def _claim(self, run: str, worker: str, ttl_ms: int, limits: FleetLimits | None) -> Claim:
        check_name("a run's id", run)
        check_name("a worker's name", worker)
        await self._check_origin()
        made: list[Claim] = []

        def take(db: StoreConnection) -> Claim:
            self._look(db)
            self._origin.check()
            made[:] = [self._mine.claim(db, run, worker, ttl_ms, limits)]
            return made[0]

        def taken(db: StoreConnection) -> tuple[bool, Any]:
            found = bool(made) and self._mine.held_by(db, run) == (worker, made[0].epoch)
            return found, made[0] if found else None

        # Who holds a run matters while there is somebody; a claim is on disk as soon as a line that it allowed is.
        try:
            return await self._writer.ask(take, taken, firm=False, run=(self.tenant, run))
        except asyncio.CancelledError:
            await self._writer.ask(partial(self._return, made), firm=False, run=(self.tenant, run))
            raise
        except HeldAhead:
            await self._writer.ask(lambda db: self._mine.cap(db, run, ttl_ms), firm=False)
            raise
        except LogDamaged:  # who finds it due again at once would do nothing else
            await self._writer.ask(lambda db: self._mine.shelve(db, run, SHELVED_MS), firm=False)
            raise

    def _return(self, made: Sequence[Claim], db: StoreConnection) -> CommitEffects:
        """Give back what was claimed for who was cancelled meanwhile: a lease that nobody has holds up everybody."""
        for claim in made:
            self._mine.release(db, claim, None if claim.run.startswith(RESERVED) else claim.at)
        return CommitEffects([(self.tenant, DUE)])

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        return await self._writer.ask(lambda db: self._mine.renew(db, claim, ttl_ms), firm=False)

    async def release(self, claim: Claim, due: int | None = None) -> None:
        def release(db: StoreConnection) -> Any:
            given = self._mine.release(db, claim, due)
            named = MadeDue(self.tenant, claim.run, f"e{claim.epoch}", given.priority)
            made = [named] if given.becomes_due is DueWhen.NOW else []
            return CommitEffects([(self.tenant, DUE)], due=made) if given.becomes_due else None

        def released(db: StoreConnection) -> tuple[bool, Any]:
            gone = self._mine.held_by(db, claim.run) != (claim.worker, claim.epoch)
            return gone, CommitEffects([(self.tenant, DUE)])

        await self._writer.ask(release, released, firm=False, run=(self.tenant, claim.run))

    async def due(self, limit: int = 100, only: ClaimFilter | None = None) -> list[str]:
        found: list[DueRun] = await self._reader.short(lambda db: self._mine.due(db, limit, only))
        return [each.run for each in found]

    async def overdue(self, limit: int = 100, only: ClaimFilter | None = None) -> list[DueRun]:
        """Return the runs that are due, the longest first, with what a worker needs to move each."""
        return await self._reader.ask(lambda db: self._mine.overdue(db, limit, only))

    def follow_due(self, *, of_all: bool = False) -> DueFollower:
        """Name, from now on, the runs that commits of this process make due, of this tenant or of all."""
        return self._bell.due.follow(None if of_all else self.tenant)

    async def end_claims(self, worker: str) -> None:
        """Let the leases of a worker that died be over: its runs are due at once."""

        def end(db: StoreConnection) -> CommitEffects:
            now = db.now()
            db.tell(say.OVER_FOR, now, self.tenant, worker, now)
            return CommitEffects([(self.tenant, DUE)])

        await self._writer.ask(end, firm=False)

    async def now(self) -> int:
        return await self._reader.ask(lambda db: db.now())

    async def wait_until_due(self, timeout: float | None = None, only: ClaimFilter | None = None) -> None:
        await self._waited((self.tenant, DUE), lambda db: self._mine.next_due(db, only), timeout)

    async def _waited(
        self, name: tuple[str, str], look: Callable[[StoreConnection], tuple[int | None, int]], timeout: float | None
    ) -> None:
        """Wait until the time has come that a look says, which looks again at each ring."""
        with self._bell.heard(*name) as ring:
            await self.listening()
            begun = asyncio.get_running_loop().time()
            while True:
                first, now = await self._reader.short(look)
                left = None if timeout is None else timeout - (asyncio.get_running_loop().time() - begun)
                if (first is not None and first <= now) or (left is not None and left <= 0):
                    return
                waits = [self._at_most, *([] if left is None else [left])]
                waits += [] if first is None else [(first - now) / 1_000]
                await waited(ring, max(min(waits), 0.001))

    async def due_tenants(self) -> list[TenantDue]:
        """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
        return await self._reader.ask(lambda db: due_tenants(db, self._dialect))

    async def wait_until_tenants_due(self, timeout: float | None = None, without: Collection[str] = ()) -> None:
        """Wait until a run is due of a tenant that is not among these."""

        def first(db: StoreConnection) -> tuple[int | None, int]:
            found = (each.at for each in due_tenants(db, self._dialect) if each.tenant not in without)
            return min(found, default=None), db.now()

        await self._waited((EVERYBODY, DUE), first, timeout)

    async def listening(self) -> None:
        """Start to listen for other processes' commits."""

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        return await self._reader.ask(lambda db: self._mine.runs(db, query))

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        return await self._reader.ask(lambda db: self._mine.requests(db, query))

    async def grants(self, query: Query = ALL) -> list[GrantRow]:
        return await self._reader.short(lambda db: self._mine.grants(db, query))

    async def outbox(self, limit: int = 100, done: Sequence[int] = ()) -> list[Notice]:
        thread = self._writer if done else self._reader
        return await thread.ask(lambda db: self._mine.outbox(db, limit, done))

    async def tell(self, notices: Sequence[Notice]) -> None:
        given = list(notices)

        def tell(db: StoreConnection) -> CommitEffects:
            self._look(db)
            self.moved()
            self._mine.tell(db, given)
            return CommitEffects([(self.tenant, NOTICES)])

        await self._writer.ask(tell)

    async def notified(self, timeout: float | None = None) -> None:
        with self._bell.heard(self.tenant, NOTICES) as ring:
            await self.listening()
            if not await self.outbox(1):
                await waited(ring, min(self._at_most, self._at_most if timeout is None else timeout))

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        return await self._reader.ask(lambda db: self._mine.deliveries(db, query))

    async def dispatch(self, claim: Claim, step: Dispatch) -> None:
        self._origin.check()
        # What a machine forgets of this as it loses its power is told once more.
        run = (self.tenant, claim.run)

        def dispatch(db: StoreConnection) -> None:
            self._look_if_changed(db)
            self._mine.dispatch(db, claim, step)

        await self._writer.ask(dispatch, firm=False, run=run)

    async def send_again(self, numbers: Sequence[int]) -> int:
        given, counted = list(numbers), list[int]()

        def again(db: StoreConnection) -> CommitEffects:
            self.moved()
            counted[:] = [self._mine.send_again(db, given)]
            return CommitEffects([(self.tenant, NOTICES)])

        await self._writer.ask(again)
        return counted[0]

    async def tallies(self, period: Period) -> list[Tally]:
        return await self._reader.ask(lambda db: tally_sql.read(db, self.tenant, period))

    async def ahead(self, run: str) -> list[str]:
        if not fits_a_store(run):
            return []
        return await self._reader.short(lambda db: self._mine.ahead(db, run))

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        if not fits_a_store(run):
            return []
        return await self._reader.ask(lambda db: self._mine.links(db, run))

    async def erase(self, run: str) -> None:
        check_erasable(run)
        if fits_a_store(run):

            def erase(db: StoreConnection) -> CommitEffects:
                self._look(db)
                self.moved()
                self._mine.erase(db, run)
                return CommitEffects([(self.tenant, DUE)], due=[MadeDue(self.tenant, run, ERASED)])

            await self._writer.ask(erase)

    async def tenants(self) -> list[str]:
        """Return every tenant of whom anything is kept here, except one whose name is no text."""
        found = await self._reader.ask(lambda db: rows_of(db, say.TENANTS, _ALL))
        return [name for (name,) in found if isinstance(name, str)]

    async def every_run(self) -> list[str]:
        """Return every run of which anything is kept: rows, lines or requests, however they were altered."""
        me = self.tenant
        found = await self._reader.ask(lambda db: rows_of(db, say.NAMES, me, me, me, _ALL))
        return [name for (name,) in found if isinstance(name, str)]

    async def faults(self) -> list[str]:
        """Return what is wrong with the store itself, whatever its runs are."""
        return await self._reader.ask(_faults)

    async def whole(self, do: Callable[[StoreConnection], Any]) -> Any:
        """Read something of all tenants, for copying and checking a store."""
        return await self._reader.ask(do)

    async def write(self, do: Callable[[StoreConnection], Any]) -> Any:
        """Write something of all tenants, for filling an empty store."""
        return await self._writer.ask(do)

    @property
    def closed(self) -> bool:
        """Return whether it, or the store that it is a view of, was closed."""
        return self._writer.closed

    async def close(self) -> None:
        """Finish what was asked and close the connections; all views of the store are closed with it."""
        for thread in (self._writer, self._reader):
            await asyncio.get_running_loop().run_in_executor(None, thread.close)


def _stop(*threads: StoreThread) -> None:
    for thread in threads:
        thread.stop()


def _faults(db: StoreConnection) -> list[str]:
    sound = read_meta(db).sound and db.reached() is not None
    return [*([] if sound else ["what the store notes of itself was altered, or its key is not here"]), *db.damage()]
