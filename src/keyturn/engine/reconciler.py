"""The reconciler: finds runs that are due and that an engine did not hand over, and moves them if it must.

It looks at the journal alone, while something is due, and holds a lease of its own only for a look, so that the workers
of a fleet take turns. A run that is due for 2 seconds is woken, at 4 seconds once more under another id, which no row
of a dead process can block, and at 10 seconds it is moved by the worker that looks. So a run that is due is moved
within 15 seconds for as long as one worker and the journal live, whatever becomes of the engine.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..core.errors import Conflict
from ..fleet.base import Wake
from ..journal.base import RESERVED, ClaimFilter, DueRun, Store
from ..journal.optional import Backlog
from .backlog import LOOKED_AT
from .due_watch import DueWatch
from .engine_line import EngineLine
from .mover import Mover

log = logging.getLogger("keyturn.engine")

_EVERY = 1.0  # how often is looked while something is due, in seconds
#: For how long a run is due, in milliseconds, until it is woken, woken under another id, and moved.
WOKEN = 2_000
WOKEN_AGAIN = 4_000
MOVED = 10_000
_LEASE, _LEASE_MS = f"{RESERVED}reconcile", 5_000
_TIDY_EVERY = 60.0  # in seconds
#: For how long an engine keeps what is done, in milliseconds.
KEPT_MS = 3_600_000


@dataclass(slots=True)
class _Late:
    """What is known of a run that is due: since when, what its row said, and how often it was woken."""

    since: int
    at: int
    fresh: bool
    priority: int
    woken: int = 0


class LeaseHolder(Protocol):
    """Claims runs by a name, which may change until it works."""

    name: str


class LateRuns:
    """Knows which runs of a tenant are late, wakes them by the engine of a line, and moves them by a mover."""

    def __init__(self, store: Store, mover: Mover, line: EngineLine) -> None:
        self.mover = mover
        self._store, self._line = store, line
        self._known = dict[str, _Late]()
        self._late = dict[str, _Late]()
        self._now = 0

    async def find(self, only: ClaimFilter, now: int, began: int) -> bool:
        """Look what is due, for a worker that began at some time; return whether a run is late."""
        self._note(await self._due(only, now), now, began)
        self._now = now
        self._late = {run: each for run, each in self._known.items() if now - each.since >= WOKEN}
        return bool(self._late)

    @property
    def to_move(self) -> list[str]:
        """Return the runs for which their engine had its time, and logs that are no runs, which it is not handed."""
        return [run for run, each in self._late.items() if self._now - each.since >= MOVED or _is_no_run(run)]

    async def _due(self, only: ClaimFilter, now: int) -> Sequence[DueRun]:
        if isinstance(self._store, Backlog):
            return await self._store.overdue(LOOKED_AT, only)
        return [DueRun(run, now, "") for run in await self._store.due(LOOKED_AT) if run not in only.without]

    def _note(self, due: Iterable[DueRun], now: int, began: int) -> None:
        """Keep since when each run is due; one whose turn has come on its session does not say so in its row."""
        known, self._known = self._known, dict[str, _Late]()
        for each in due:
            before, fresh = known.get(each.run), each.at >= now
            if before is None or not (before.at == each.at or (before.fresh and fresh)):
                # What was due before this worker worked, its engine has not had the time to hand over.
                before = _Late(max(each.at, began), each.at, fresh, each.priority)
            before.at = each.at
            self._known[each.run] = before

    async def wake(self) -> None:
        """Wake each run once, and later once more; what the engine does not take is offered to it at the next look."""
        late = {run: each for run, each in self._late.items() if not _is_no_run(run)}
        wanted = {run: 2 if self._now - each.since >= WOKEN_AGAIN else 1 for run, each in late.items()}
        due = {run: late[run] for run, times in wanted.items() if late[run].woken < times}
        tenant = self.mover.tenant
        wakes = [Wake(tenant, run, f"due-{each.since}-{wanted[run]}", each.priority) for run, each in due.items()]
        if wakes and await self._line.wake(wakes):
            for run, each in due.items():
                each.woken = wanted[run]

    async def move(self, most: int) -> None:
        """Move runs here, so many at most, and as far as there is room."""
        for run in self.to_move[: min(most, self.mover.free)]:
            if await self.mover.take_up(run) is not None:
                self._line.deaf += 1
                log.warning(
                    "run %s was due for %d s and its engine did not hand it over: it is moved", run, MOVED // 1_000
                )


class Looks(ABC):
    """Looks after the engine of a line, for a worker: what is late is woken, and moved by a look that holds a lease."""

    def __init__(self, store: Store, worker: LeaseHolder, line: EngineLine) -> None:
        self._store, self._line = store, line
        self._worker = worker
        self._tidies_at = 0.0
        self._began: int | None = None

    async def round(self, leaving: asyncio.Future[Any]) -> None:
        """Wait until something is due, and a moment longer; then look what is late."""
        stirred = asyncio.ensure_future(self._stirred())
        try:
            await asyncio.wait({leaving, stirred}, timeout=_TIDY_EVERY, return_when=asyncio.FIRST_COMPLETED)
            if stirred.done():
                stirred.result()
                await asyncio.wait({leaving}, timeout=_EVERY)
        finally:
            stirred.cancel()
        if not leaving.done():
            await self.look()

    async def look(self) -> None:
        """Wake once at what is due, and do for each run what its time has come for."""
        now = await self._store.now()
        self._began = now if self._began is None else self._began
        late = await self._late(now, self._began)
        tidies = asyncio.get_running_loop().time() >= self._tidies_at
        if not late and not tidies:
            return
        try:
            claim = await self._store.claim(_LEASE, self._worker.name, _LEASE_MS)
        except Conflict:  # another worker looks just now
            return
        try:
            for runs in late:
                await runs.wake()
            await self._move(late)
            if tidies:
                self._tidies_at = asyncio.get_running_loop().time() + _TIDY_EVERY
                await self._line.tidy(now - KEPT_MS)
        finally:
            await self._store.release(claim)

    @abstractmethod
    async def _stirred(self) -> None:
        """Wait until something may be due."""

    @abstractmethod
    async def _late(self, now: int, began: int) -> list[LateRuns]:
        """Return the runs that are late, for a worker that began at some time."""

    @abstractmethod
    async def _move(self, late: list[LateRuns]) -> None:
        """Move the runs whose engine had its time."""


class Reconciler(Looks):
    """Looks after the engine of one tenant, and moves by a mover what that engine does not hand over."""

    def __init__(self, store: Store, mover: Mover, line: EngineLine) -> None:
        super().__init__(store, mover, line)
        self._mover = mover
        self._watch = DueWatch(store, mover)
        self._runs = LateRuns(store, mover, line)

    async def _stirred(self) -> None:
        await self._watch.stirred(self._mover.filter())

    async def _late(self, now: int, began: int) -> list[LateRuns]:
        return [self._runs] if await self._runs.find(self._mover.filter(), now, began) else []

    async def _move(self, late: list[LateRuns]) -> None:
        for runs in late:
            await runs.move(self._mover.free)


def _is_no_run(name: str) -> bool:
    return name.startswith(RESERVED)
