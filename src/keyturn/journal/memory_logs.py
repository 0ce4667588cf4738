"""What a journal in memory keeps of one tenant, and how those who wait for it are woken."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from ..core.priorities import NORMAL
from .base import RESERVED, Claim, ClaimFilter, RunHeld
from .commit_effects import CommitEffects
from .memory_rows import MemoryRows
from .rows import ENDED, Changes
from .waiters import ANY, DUE


@dataclass(slots=True)
class MemoryLog:
    """Holds one run's lines, and who holds the run."""

    lines: list[bytes] = field(default_factory=list[bytes])
    erased: bool = False
    epoch: int = 0
    holder: Claim | None = None
    # How often it was claimed since a holder last wrote a line or released it.
    takers: int = 0
    due: int | None = None
    session: str = ""
    place: int = 0
    format: int = 0
    priority: int = NORMAL

    def wanted_at(self) -> int | None:
        """Return when somebody should look at the run; while it is held, that is when the claim expires."""
        if not self.lines or self.erased:
            return None
        return self.holder.until if self.holder is not None else self.due

    def held(self, now: int) -> bool:
        """Return whether somebody holds the run."""
        return self.holder is not None and now < self.holder.until


@dataclass(slots=True)
class MemoryTenant:
    """Holds all that one tenant has.

    `waiting` are the watchers who have seen all there is, by run.
    """

    logs: dict[str, MemoryLog] = field(default_factory=dict[str, MemoryLog])
    waiting: dict[str, list[asyncio.Future[None]]] = field(default_factory=dict[str, list[asyncio.Future[None]]])
    rows: MemoryRows = field(default_factory=MemoryRows)
    #: Those who wait for a due run of any tenant: one list for all.
    anybody: list[asyncio.Future[None]] = field(default_factory=list[asyncio.Future[None]])

    def held(self, now: int) -> int:
        """Return how many runs are held."""
        return sum(log.held(now) for run, log in self.logs.items() if not run.startswith(RESERVED))

    def written(self, effects: CommitEffects) -> list[asyncio.Future[None]]:
        """Return the watchers to wake after a write: those that it names, and those of anything that is written."""
        woken = self.waiting.pop(ANY, [])
        for _tenant, name in effects.wakes:
            woken += self.made_due() if name == DUE else self.waiting.pop(name, ())
        return woken

    def made_due(self) -> list[asyncio.Future[None]]:
        """Return those to wake who wait for a due run, of this tenant or of any."""
        woken = [*self.waiting.pop(DUE, ()), *self.anybody]
        self.anybody.clear()
        return woken

    def wanted(self, only: ClaimFilter | None = None) -> list[tuple[int, str]]:
        """Return when each run that a filter admits wants to be looked at."""
        wanted = [(at, run) for run, log in self.logs.items() if (at := log.wanted_at()) is not None]
        wanted += [(0, run) for run in self.rows.queued if self._turn_has_come(run)]
        if only is None:
            return wanted
        return [each for each in wanted if only.admits(each[1], self.agent(each[1]), self.logs[each[1]].format)]

    def agent(self, run: str) -> str:
        """Return the agent of a run; "" where no row says so."""
        row = self.rows.runs.get(run)
        return "" if row is None else row.agent

    def _turn_has_come(self, run: str) -> bool:
        """Return whether a queued run that nobody wants otherwise is the first on its session."""
        log = self.logs[run]
        return log.holder is None and log.due is None and not self.before(log)

    def before(self, mine: MemoryLog) -> list[tuple[int, str]]:
        """Return the runs before one on its session, with their places."""
        if not mine.session:
            return []
        logs = self.logs.items()
        return sorted((log.place, run) for run, log in logs if log.session == mine.session and log.place < mine.place)

    def place(self, log: MemoryLog, changes: Changes) -> None:
        """Give a run that comes to a session the last place there; take it from one that is over and held by nobody."""
        over = changes.run.status in ENDED
        if changes.session and not log.session and not over:
            places = [other.place for other in self.logs.values() if other.session == changes.session]
            log.session, log.place = changes.session, max(places, default=0) + 1
        elif over and log.holder is None:
            log.session, log.place = "", 0


def check_free(run: str, log: MemoryLog, now: int) -> None:
    """Raise `Conflict` naming who holds a run."""
    if log.held(now):
        assert log.holder is not None
        raise RunHeld(run, log.holder.worker)


def earlier(one: int | None, other: int | None) -> int | None:
    """Return the earlier of two times, each of which may be none."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def wake_all(watchers: list[asyncio.Future[None]]) -> None:
    """Wake watchers, each in its own loop."""
    for watcher in watchers:
        with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
            watcher.get_loop().call_soon_threadsafe(_wake, watcher)


def _wake(watcher: asyncio.Future[None]) -> None:
    if not watcher.done():
        watcher.set_result(None)
