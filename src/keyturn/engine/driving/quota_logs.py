"""The logs that count calls for several runs: found, begun, caught up and written to.

Each is a log of the journal that is over from its first line, so that no worker ever takes it up, with the seals, the
rows and the compare-and-set of any other. A process keeps the last few as it knows them, and reads on from there. The
calls of one process that count for one limit wait for each other here, so that only processes race.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

from ...core import commands as cm
from ...core.codec import Log
from ...core.digest import digest
from ...core.errors import Conflict, LogDamaged, StorageError
from ...core.quota import CLOSED, LIMIT, counted_for, spent_since
from ...journal.base import Journal
from ..run.log_cache import caught_up, log_in
from ..run.open_run import new_salt
from .writer import Writer

#: The name under which rows list such a log, where a run has the name of its agent.
AGENT = "keyturn:quota"

Clock = Callable[[], int]

_KEPT = 64
_STRETCHES = 1_000


class Taker(NamedTuple):
    """Names the call that takes, as it is counted, and the claim under which its run is held."""

    run: str
    call: str
    of: str
    epoch: int = 0

    @property
    def call_named(self) -> tuple[str, str, str]:
        """Return the name under which a call is counted, whoever holds its run."""
        return self.run, self.call, self.of


class QuotaCount:
    """Counts calls against one limit of one journal: in one log, or in one for each stretch as long as its window."""

    def __init__(self, name: str, per_ms: int | None) -> None:
        self.loop = ref(asyncio.get_running_loop())
        self._lock = asyncio.Lock()
        self._name = name
        self._per = per_ms
        self._logs: dict[int, Log] = {}

    async def spent(self, journal: Journal, taker: Taker, clock: Clock) -> tuple[Fraction, str]:
        """Return what other calls are counted for now, and the log that counts this one already, "" where none does."""
        async with self._lock:
            log, beside = await self._now(journal, clock)
            own = counted_for(log.run, *taker.call_named)
            if own is None:
                return log.run.spent + beside, ""
            return log.run.spent + beside - own.amount, log.run.id

    async def take(self, journal: Journal, taker: Taker, clock: Clock, amount: Fraction, most: Fraction | None) -> str:
        """Count a call and return the log that does; `NotPending` where there is no room for it any more."""
        text = None if most is None else str(most)
        async with self._lock:
            for _ in range(_STRETCHES):
                log, beside = await self._now(journal, clock)
                command = cm.TakeQuota(*taker.call_named, str(amount), text, str(beside), taker.epoch)
                if await self._taken(journal, log, clock, command):
                    return log.run.id
        raise Conflict("the clocks of the processes that count this limit disagree; synchronize them")

    async def tell(self, journal: Journal, taker: Taker, clock: Clock) -> None:
        """Count that a call did not go well, once, whatever else was counted."""
        async with self._lock:
            for _ in range(_STRETCHES):
                log, _beside = await self._now(journal, clock)
                known = [each.run for each in self._logs.values()]
                if any(counted_for(run, *taker.call_named) is not None for run in known):
                    return
                if await self._taken(journal, log, clock, cm.TakeQuota(*taker.call_named, "1")):
                    return
        raise Conflict("the clocks of the processes that count this limit disagree; synchronize them")

    async def times(self, journal: Journal, clock: Clock) -> list[int]:
        """Return when calls were counted that are counted still."""
        async with self._lock:
            await self._now(journal, clock)
            return sorted(taken.at for log in self._logs.values() for taken in log.run.taken.values())

    async def _taken(self, journal: Journal, log: Log, clock: Clock, command: cm.TakeQuota) -> bool:
        """Count a call; False where another process, whose clock is ahead of this one's, closed the log meanwhile."""
        try:
            await self._write(journal, log, clock, command)
        except Conflict as error:
            if error.winner != CLOSED:
                raise
            return False
        return True

    async def _now(self, journal: Journal, clock: Clock) -> tuple[Log, Fraction]:
        """Return the log that counts now, and what the one before it still counts; that one is closed."""
        if self._per is None:
            return await self._begun(journal, 0, clock), Fraction(0)
        place = max(clock() // self._per, max(self._logs, default=0))
        for number in range(place, place + _STRETCHES):
            before = await self._begun(journal, number - 1, clock)
            if not before.run.closed:
                await self._write(journal, before, clock, cm.CloseQuota())
            now = await self._begun(journal, number, clock)
            if not now.run.closed:
                self._logs = {number - 1: before, number: now}
                return now, spent_since(before.run, clock() - self._per + 1)
        raise Conflict("the logs of this limit are closed far ahead of the journal's clock; look at that clock")

    async def _begun(self, journal: Journal, place: int, clock: Clock) -> Log:
        """Return a log as it is now; the first who needs it begins it."""
        name = quota_id(self._name, self._per, place)
        log = self._logs.get(place)
        if log is not None:
            await caught_up(journal, log)
            return log
        log = await log_in(journal, name)
        if not log.steps:
            log = Log()
            begin = cm.Start(name, new_salt(name), "", {LIMIT: self._name, "per_ms": self._per}, AGENT, [], None)
            try:
                await self._write(journal, log, clock, begin, cm.CloseRun(None, []))
            except (Conflict, StorageError):  # another process was faster, or the store failed
                log = await log_in(journal, name)
                if not log.steps:
                    raise
        if log.run.about.get(LIMIT) != self._name:
            raise LogDamaged(name, 0, "does not count what it is asked for")
        self._logs[place] = log
        return log

    async def _write(self, journal: Journal, log: Log, clock: Clock, *commands: cm.RunCommand) -> None:
        await Writer(log, journal, clock).commit(*commands)


def quota_id(name: str, per_ms: int | None, place: int) -> str:
    """Return the id of the log that counts for a limit in one stretch of time."""
    return f"quota-{digest(name, per_ms)[:32]}-{place}"


# By name, window and the id of the store: what one that was restored has counted is read anew.
_counts: WeakKeyDictionary[Any, OrderedDict[tuple[str, int | None, str], QuotaCount]] = WeakKeyDictionary()
_lock = threading.Lock()


def quota_count(journal: Journal, name: str, per_ms: int | None) -> QuotaCount:
    """Return what counts for a limit of a journal, as this process and its loop know it."""
    with _lock:
        counts = _counts.setdefault(journal, OrderedDict())
        key = (name, per_ms, getattr(journal, "identity", ""))
        known = counts.pop(key, None)
        if known is None or known.loop() is not asyncio.get_running_loop():
            known = QuotaCount(name, per_ms)
        counts[key] = known
        while len(counts) > _KEPT:
            counts.popitem(last=False)
        return known


async def give_back(journal: Journal, taker: Taker, log_id: str, clock: Clock) -> None:
    """Count a call no more in a log that counted it; nothing happens where it does not."""
    log = await log_in(journal, log_id)
    if log.steps:
        await Writer(log, journal, clock).commit(cm.ReturnQuota(*taker))
