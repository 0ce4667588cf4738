"""Hand what is due of several tenants to their movers, in turn, so that no tenant waits for another's runs.

The tenants take turns by name: of those with due runs, each is given its share of the slots that are free, and the next
round begins with the one after the last that was served. So between two turns of a tenant with due runs, each other
tenant has one turn at most, however many due runs it has.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..journal.optional import ServesTenants, TenantDue
from .journal_engine import JournalEngine
from .mover import Mover

_PAUSE = 1.0  # for how long a tenant is passed over of which nothing could be claimed, in seconds
_OPENING = 0.1  # for how long a round waits for the mover of a tenant, in seconds
_UNSERVED = 30.0  # and one that is not served


class TenantMovers:
    """Holds the mover of each tenant; together they move `slots` runs at once, and each its own number at most.

    `make` makes the mover of a tenant; None for one that is not served now.
    """

    def __init__(self, make: Callable[[str], Awaitable[Mover | None]], *, name: str, slots: int, lease_ms: int) -> None:
        self._make = make
        self.name = name
        self.slots, self._lease_ms = slots, lease_ms
        self._movers = dict[str, Mover]()
        self._opening = dict[str, asyncio.Task[Mover | None]]()
        self.leaving = False

    async def of(self, tenant: str) -> Mover | None:
        """Return the mover of a tenant, which is made once; None while that takes long, or if it is not served."""
        if tenant not in self._movers:
            opening = self._opening.get(tenant) or asyncio.ensure_future(self._make(tenant))
            self._opening[tenant] = opening
            await asyncio.wait({opening}, timeout=_OPENING)
            made = self._opening.pop(tenant).result() if opening.done() else None
            if made is None:
                return None
            self._movers[tenant] = made
            if self.leaving:
                made.leave()
        return self._movers[tenant]

    def opening(self, tenant: str) -> bool:
        """Return whether the mover of a tenant is being made."""
        return tenant in self._opening

    @property
    def busy(self) -> int:
        """Return how many runs are being moved now."""
        return sum(mover.busy for mover in self._movers.values())

    @property
    def free(self) -> int:
        """Return how many more may be taken up."""
        return max(self.slots - self.busy, 0)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the runs that are being moved, each a task that ends as it is given back."""
        return [task for mover in self._movers.values() for task in mover.tasks]

    @property
    def lease_ms(self) -> int:
        """Return for how long each run is held at a time, in milliseconds."""
        return self._lease_ms

    @lease_ms.setter
    def lease_ms(self, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        for mover in self._movers.values():
            mover.lease_ms = lease_ms

    def limit(self, slots: int, of_one: int) -> None:
        """Set how many runs are moved at once, and how many of one tenant; what is at work goes on."""
        self.slots = slots
        for mover in self._movers.values():
            mover.slots = of_one

    def full(self) -> set[str]:
        """Return the tenants that have as many runs at work as they may."""
        return {tenant for tenant, mover in self._movers.items() if not mover.free}

    def leave(self) -> None:
        """Take up nothing more, and leave each run after its current step."""
        self.leaving = True
        for mover in self._movers.values():
            mover.leave()

    async def drain(self, grace: float) -> None:
        """Wait for what is being moved, for so many seconds."""
        if tasks := self.tasks:
            await asyncio.wait(tasks, timeout=grace)

    async def end(self) -> None:
        """Cut off what is being moved, which leaves it in doubt."""
        for opening in self._opening.values():
            opening.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(mover.end() for mover in self._movers.values()))


class TenantRounds:
    """Takes up what is due in a store, tenant by tenant."""

    def __init__(self, store: ServesTenants, movers: TenantMovers) -> None:
        self._store, self._movers = store, movers
        self._last = ""
        self._engines = dict[str, JournalEngine]()
        # Tenants of which nothing could be claimed, though runs are due, each with the time until it is passed over.
        self._passed = dict[str, float]()

    async def round(self, leaving: asyncio.Future[Any]) -> None:
        """Take up what is due and there is room for; then wait for more work, or for room."""
        movers, begun = self._movers, 0
        if movers.free and not leaving.done():
            now = await self._store.now()
            due = [each for each in await self._store.due_tenants() if each.at <= now]
            begun = await self._take(self.in_turn(due)) if due else 0
        if not begun:
            await self._wait(leaving)

    def in_turn(self, due: Sequence[TenantDue]) -> list[str]:
        """Return the tenants to serve now, in order: those after the last that was served come first."""
        names = sorted({each.tenant for each in due} - self._left_out())
        place = bisect_right(names, self._last)
        served = (names[place:] + names[:place])[: self._movers.free]
        self._last = served[-1] if served else self._last
        return served

    def _left_out(self) -> set[str]:
        now = asyncio.get_running_loop().time()
        self._passed = {tenant: until for tenant, until in self._passed.items() if until > now}
        return self._passed.keys() | self._movers.full()

    async def _take(self, names: Sequence[str]) -> int:
        """Take up runs of these tenants, an equal share of each; return how many were begun."""
        if not names:
            return 0
        share, more = divmod(self._movers.free, len(names))
        taken = [self._of_one(name, share + (place < more)) for place, name in enumerate(names)]
        return sum(await asyncio.gather(*taken))

    async def _of_one(self, tenant: str, share: int) -> int:
        mover = await self._movers.of(tenant)
        if mover is None:
            return self._pass_over(tenant, _PAUSE if self._movers.opening(tenant) else _UNSERVED)
        engine, only = self._engine(tenant, mover), mover.filter()
        if begun := await engine.take(min(share, mover.free), only):
            return begun
        await engine.report(only)
        return self._pass_over(tenant, _PAUSE)

    def _engine(self, tenant: str, mover: Mover) -> JournalEngine:
        if tenant not in self._engines:
            self._engines[tenant] = JournalEngine(self._store.of(tenant), mover)
        return self._engines[tenant]

    def _pass_over(self, tenant: str, seconds: float) -> int:
        self._passed[tenant] = asyncio.get_running_loop().time() + seconds
        return 0

    async def _wait(self, leaving: asyncio.Future[Any]) -> None:
        movers = self._movers
        waits: set[asyncio.Future[Any]] = {leaving}
        stirred: asyncio.Future[None] | None = None
        if movers.full() or not movers.free:
            waits.update(movers.tasks)
        if movers.free:
            left_out = self._left_out()
            timeout = _PAUSE if self._passed else None
            stirred = asyncio.ensure_future(self._store.wait_until_tenants_due(timeout, left_out))
            waits.add(stirred)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if stirred is not None and stirred.done():
                stirred.result()
        finally:
            if stirred is not None:
                stirred.cancel()
