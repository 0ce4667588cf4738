"""The worker: takes up runs that are due, many at once, and moves each until it is over or only people can move it.

Which runs are due it hears from an engine, by default from the journal itself. A run is claimed before it is taken up,
so any number of workers may share one journal, whatever their engines are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol, cast

from ..core.errors import StorageError, StoreRestored
from ..journal.base import Store
from ..journal.optional import WATCHED, Presence
from .driving.lease import TTL_MS
from .engine_line import EngineLine
from .journal_engine import JournalEngine
from .mover import Limits, Mover, Takes
from .presence import HolderWatch
from .reconciler import Reconciler
from .run.new_ids import claimant
from .tenant_rounds import TenantMovers

log = logging.getLogger("keyturn.worker")

_BACKOFF = 1.0  # how long a store that fails is left alone, in seconds
_HANDING = 2.0  # how long an engine may take to end once nothing is moved any more, in seconds


class Rounds(Protocol):
    """Finds what is due, and hands it to a mover."""

    async def round(self, leaving: asyncio.Future[Any]) -> None:
        """Take up what is due and there is room for; then wait for more work, or for room."""
        ...


class WorkerLoop:
    """Takes up what is due, round by round, until it is stopped; waits out a journal that fails."""

    def __init__(
        self,
        store: Store,
        mover: Mover | TenantMovers,
        rounds: Rounds,
        *,
        grace: float,
        settle: Callable[[], Awaitable[Any]] | None,
        line: EngineLine | None = None,
    ) -> None:
        self._store, self._settle = store, settle
        #: How many seconds what was begun may take once it is stopped.
        self.grace = grace
        self._line = line
        self._mover, self._rounds = mover, rounds
        self._engine = None if line is None else line.engine
        self._unsettled = True
        self._leaving = asyncio.Event()
        #: The error that it waits for to pass; None while it works.
        self.error: Exception | None = None

    @property
    def name(self) -> str:
        """Return by which name it claims runs."""
        return self._mover.name

    @property
    def lease_ms(self) -> int:
        """Return for how long it holds a run at a time, in milliseconds."""
        return self._mover.lease_ms

    @lease_ms.setter
    def lease_ms(self, lease_ms: int) -> None:
        self._mover.lease_ms = lease_ms

    @property
    def slots(self) -> int:
        """Return how many runs it moves at once."""
        return self._mover.slots

    @slots.setter
    def slots(self, slots: int) -> None:
        self._mover.slots = slots

    @property
    def busy(self) -> int:
        """Return how many runs are being moved now."""
        return self._mover.busy

    def stop(self) -> None:
        """Take up nothing more, let what was begun end, and return from `run`."""
        self._leaving.set()
        self._mover.leave()

    async def run(self) -> None:
        """Work until stopped; on cancellation stop at once, which leaves what was in flight in doubt.

        An error before its first round is raised: it is set up wrongly. After that it waits until the error has passed.
        """
        begun = False
        leaving = asyncio.ensure_future(self._leaving.wait())
        watching: asyncio.Task[None] | None = None
        handing: asyncio.Task[None] | None = None
        try:
            watching = await self._watch()
            handing = await self._handed(leaving)
            while not leaving.done():
                try:
                    await self._settled()
                    self.error = None
                    await self._rounds.round(leaving)
                    begun = True
                except StoreRestored as error:  # it was promoted while we worked on it
                    log.warning("the journal was restored while we worked on it, it is settled first: %s", error)
                    self._unsettled = True
                except Exception as error:  # a key that cannot be read, a store of one's own: what is at work goes on
                    await self._wait_out(error, leaving, begun=begun)
            await self._mover.drain(self.grace)
        finally:
            leaving.cancel()
            await self._mover.end()
            if handing is not None:
                await _ended(handing)
            if watching is not None:
                watching.cancel()
                await cast("Presence", self._store).be_absent(self.name)

    async def _handed(self, leaving: asyncio.Future[Any]) -> asyncio.Task[None] | None:
        """Let another engine hand runs over from now on, where there is one."""
        if self._line is None or self._engine is None:
            return None
        await self._line.opened()
        return asyncio.ensure_future(self._line.work(self._engine, self._mover, leaving))

    async def _watch(self) -> asyncio.Task[None] | None:
        """Show that this process lives, and watch the others, where the store can."""
        store = self._store
        if not isinstance(store, Presence) or self.name.endswith(WATCHED):
            return None
        try:
            if not await store.be_present(self.name + WATCHED):
                return None
        except StorageError as error:  # then its leases are waited for
            log.warning("that this worker lives cannot be shown: %s", error)
            return None
        self._mover.name += WATCHED
        return asyncio.ensure_future(HolderWatch(self._watched(store)).run())

    def _watched(self, store: Presence) -> Presence:
        """Return what knows the holders of the runs that this worker may move."""
        return store

    async def _wait_out(self, error: Exception, leaving: asyncio.Future[Any], *, begun: bool) -> None:
        """Wait a moment for an error to pass, or raise it where it is there from the beginning."""
        if not begun and not isinstance(error, StorageError):
            raise error
        self.error = error
        trace = None if isinstance(error, StorageError) else error
        log.warning("the journal cannot be used, trying again: %s", error, exc_info=trace)
        await asyncio.wait({leaving}, timeout=_BACKOFF)

    async def _settled(self) -> None:
        """Put in doubt what the store lets run, where it was restored: before anything of it is taken up."""
        if self._unsettled:
            if self._settle is not None:
                await self._settle()
            self._unsettled = False


class Worker(WorkerLoop):
    """Moves runs of a journal forward, at most `slots` at once.

    `take` makes the play of a run that was claimed; `settle` puts in doubt what a store lets run that was restored.
    What a run's tools and models raise is the run's own affair: it is recorded there, and the worker goes on. A run
    of an agent that is not among `agents`, or that a newer Keyturn wrote, is never claimed; one that cannot be taken up
    for another reason stays due. So the workers of one journal may have different agents and different versions.

    With a `line`, another engine hands runs over, and the worker's own rounds find what that engine forgot.
    """

    def __init__(
        self,
        store: Store,
        take: Takes,
        *,
        slots: int = 100,
        grace: float = 30.0,
        settle: Callable[[], Awaitable[Any]] | None = None,
        agents: Callable[[], Collection[str]] | None = None,
        lease_ms: int | None = None,
        line: EngineLine | None = None,
    ) -> None:
        mover = Mover(
            store,
            take,
            name=claimant("worker"),
            slots=slots,
            lease_ms=TTL_MS if lease_ms is None else lease_ms,
            agents=agents,
        )
        if line is not None and (line.engine is None or line.of_tenants):  # it hands over the runs of all tenants
            line = None
        rounds = JournalEngine(store, mover) if line is None else Reconciler(store, mover, line)
        super().__init__(store, mover, rounds, grace=grace, settle=settle, line=line)
        self._moves = mover

    def limit_fleet(self, limits: Limits) -> None:
        """Move no more runs at once than all workers of the journal may together."""
        self._moves.limited_by = limits


async def _ended(handing: asyncio.Task[None]) -> None:
    """Wait until an engine has ended, since nothing is moved any more; cut it off where that takes long."""
    await asyncio.wait({handing}, timeout=_HANDING)
    handing.cancel()
    await asyncio.wait({handing})
