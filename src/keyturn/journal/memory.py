"""A journal in this process's memory: for tests, scripts and the first five minutes.

It keeps every promise of the seam but one: nothing here outlives the process. One lock guards the store and a watcher
is woken in its own event loop, so the journal may be used from several loops and threads, at once or one after another.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from heapq import nsmallest

import msgspec

from ..core.codec import GENESIS
from ..core.errors import Conflict, UserError
from .base import Claim, LostRace
from .chain import chained


@dataclass(slots=True)
class _Log:
    """One run's lines, their chain, and who holds the run."""

    lines: list[bytes] = field(default_factory=list[bytes])
    hashes: list[str] = field(default_factory=list[str])
    epoch: int = 0
    holder: Claim | None = None
    due: int | None = None

    def wanted_at(self) -> int | None:
        """When somebody should look at the run. While it is held that is when its claim runs out."""
        if not self.lines:
            return None
        return self.holder.until if self.holder is not None else self.due


@dataclass(slots=True)
class _Tenant:
    """All that one tenant has. `waiting` are the watchers who have seen all there is, by run."""

    logs: dict[str, _Log] = field(default_factory=dict[str, _Log])
    waiting: dict[str, list[asyncio.Future[None]]] = field(default_factory=dict[str, list[asyncio.Future[None]]])


class MemoryJournal:
    """Logs that last as long as the object does; `clock` gives the time in milliseconds.

    >>> import asyncio
    >>> journal = MemoryJournal()
    >>> asyncio.run(journal.append("run", 0, [b"one", b"two"]))
    >>> asyncio.run(journal.read("run", after=1)), asyncio.run(journal.of("other").head("run"))
    ([b'two'], 0)
    """

    def __init__(self, clock: Callable[[], int] | None = None, tenant: str = "default") -> None:
        self.tenant = tenant
        self._clock = clock or _now
        # Reentrant: a watcher that is garbage may be closed, and take the lock, wherever memory is asked for.
        self._lock = threading.RLock()
        self._tenants: dict[str, _Tenant] = {tenant: _Tenant()}
        self._mine = self._tenants[tenant]

    @classmethod
    def open(cls, url: str) -> MemoryJournal:
        """An empty journal, for `open_journal("memory://")`.

        >>> MemoryJournal.open("memory://").tenant
        'default'
        """
        if url != "memory://":
            raise UserError("nothing may follow 'memory://': each journal in memory begins empty")
        return cls()

    def of(self, tenant: str) -> MemoryJournal:
        """The same store as another tenant sees it."""
        view = copy(self)
        view.tenant = tenant
        with self._lock:
            view._mine = self._tenants.setdefault(tenant, _Tenant())
        return view

    async def append(self, run: str, expected: int, lines: Sequence[bytes], claim: Claim | None = None) -> None:
        added = [bytes(line) for line in lines]
        with self._lock:
            log = self._log(run) if claim is None else self._held(run, claim)
            if expected != len(log.lines):
                raise LostRace(f"expected {expected} lines, the log has {len(log.lines)}")
            if not added:
                return
            hashes = chained(added, log.hashes[-1] if log.hashes else GENESIS)
            log.lines.extend(added)
            log.hashes.extend(hashes)
            # Whoever appends under the claim has read all before it; what another appends still wants to be read.
            log.due = _earlier(log.due, self._clock()) if claim is None else None
            self._mine.logs[run] = log
            woken = self._mine.waiting.pop(run, [])
        for watcher in woken:
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                watcher.get_loop().call_soon_threadsafe(_wake, watcher)

    async def read(self, run: str, after: int = 0) -> list[bytes]:
        with self._lock:
            return self._log(run).lines[after:]

    async def hashes(self, run: str) -> list[str]:
        """The hashes of a run's lines, for `keyturn.journal.chain.verify`."""
        with self._lock:
            return self._log(run).hashes.copy()

    async def head(self, run: str) -> int:
        with self._lock:
            return len(self._log(run).lines)

    async def watch(self, run: str, after: int = 0) -> AsyncGenerator[bytes, None]:
        while True:
            for line in await self.read(run, after):
                after += 1
                yield line
            await self._appended(run, after)

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        with self._lock:
            now, log = self._clock(), self._mine.logs.setdefault(run, _Log())
            holder = log.holder
            if holder is not None and now < holder.until:
                raise Conflict(f"run {run!r} is held by {holder.worker!r}; wait for it", winner=holder.worker)
            log.epoch += 1
            log.due, log.holder = None, Claim(run, worker, log.epoch, now + ttl_ms)
            return log.holder

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        with self._lock:
            log = self._held(claim.run, claim)
            log.holder = msgspec.structs.replace(claim, until=self._clock() + ttl_ms)
            return log.holder

    async def release(self, claim: Claim, due: int | None = None) -> None:
        with self._lock, suppress(Conflict):
            log = self._held(claim.run, claim)
            log.holder, log.due = None, _earlier(log.due, due)

    async def due(self, limit: int = 100) -> list[str]:
        with self._lock:
            now = self._clock()
            found = [(at, run) for run, log in self._mine.logs.items() if (at := log.wanted_at()) is not None]
        return [run for _, run in nsmallest(limit, (one for one in found if one[0] <= now))]

    def _log(self, run: str) -> _Log:
        """The log of a run; an empty one, which nobody keeps, for a run that is not known."""
        return self._mine.logs.get(run) or _Log()

    def _held(self, run: str, claim: Claim) -> _Log:
        """The log of a run that is still held under this claim, or `Conflict`."""
        log = self._log(run)
        holder = log.holder
        if holder is None:
            raise Conflict(f"run {run!r} is not held under this claim: it was given back; claim the run again")
        if (holder.run, holder.worker, holder.epoch) != (claim.run, claim.worker, claim.epoch):
            raise Conflict(
                f"run {run!r} is held by {holder.worker!r} under epoch {holder.epoch}, not by {claim.worker!r} under "
                f"epoch {claim.epoch}; stop, and leave the run to them",
                winner=holder.worker,
            )
        return log

    async def _appended(self, run: str, after: int) -> None:
        """Wait until there may be a line after that position. Only while it waits is a watcher known to the store."""
        waiting = self._mine.waiting
        with self._lock:
            if len(self._log(run).lines) > after:
                return
            watcher = asyncio.get_running_loop().create_future()
            waiting[run] = [*waiting.get(run, []), watcher]
        try:
            await watcher
        finally:
            with self._lock:
                others = [other for other in waiting.pop(run, []) if other is not watcher]
                if others:
                    waiting[run] = others


def _wake(watcher: asyncio.Future[None]) -> None:
    if not watcher.done():
        watcher.set_result(None)


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _now() -> int:
    return time.time_ns() // 1_000_000
