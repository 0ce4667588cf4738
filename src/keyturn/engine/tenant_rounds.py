"""Hand what is due of several tenants to their movers, in turn, so that no tenant waits for another's runs.

The tenants take turns by name: of those with due runs, each is given its share of the slots that are free, and the next
round begins with the one after the last that was served. So between two turns of a tenant with due runs, each other
tenant has one turn at most, however many due runs it has.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

from ..fleet.base import Wake, WakeOutcome
from ..journal.optional import ServesTenants, TenantDue
from .journal_engine import JournalEngine
from .logger import error_words
from .mover import Mover
from .turns import SlotTurns

log = logging.getLogger("keyturn.worker")

_PAUSE = 1.0  # for how long a tenant is passed over of which nothing could be claimed, in seconds
_OPENING = 0.1  # for how long a round waits for the mover of a tenant, in seconds
_LOOKS = 400  # how often a second is looked, for all tenants together, whether a fleet that is full has room
_UNSERVED = 30.0  # and one that is not served


class TenantMovers:
    """Holds the mover of each tenant; together they move `slots` runs at once, and each `tenant_slots` at most.

    `make` makes the mover of a tenant; None for one that is not served now.
    """

    def __init__(
        self,
        make: Callable[[str], Awaitable[Mover | None]],
        *,
        name: str,
        slots: int,
        tenant_slots: int,
        lease_ms: int,
    ) -> None:
        self._make = make
        self.name = name
        self.tenant_slots, self._lease_ms = tenant_slots, lease_ms
        self._turns = SlotTurns(slots)
        self._movers = dict[str, Mover]()
        self._opening = dict[str, asyncio.Task[Mover | None]]()
        # Tenants that are not served, each with the time at which that is asked again.
        self._unserved = dict[str, float]()
        # The tenants of which more is due than they may have moved: it is claimed as they have room.
        self._pulling = dict[str, asyncio.Task[None]]()
        self.leaving = False

    async def of(self, tenant: str) -> Mover | None:
        """Return the mover of a tenant, which is made once; None while that takes long, or if it is not served."""
        if tenant not in self._movers and tenant not in self.unserved():
            opening = self._opening.get(tenant) or asyncio.ensure_future(self._opened(tenant))
            self._opening[tenant] = opening
            await asyncio.wait({opening}, timeout=_OPENING)
            if opening.done():
                return opening.result()
        return self._movers.get(tenant)

    async def _opened(self, tenant: str) -> Mover | None:
        try:
            made = await self._make(tenant)
        finally:
            del self._opening[tenant]
        if made is None:
            self._unserved[tenant] = asyncio.get_running_loop().time() + _UNSERVED
            return None
        self._movers[tenant], made.turns = made, self._turns
        if self.leaving:
            made.leave()
        return made

    def unserved(self) -> set[str]:
        """Return the tenants that are known to be not served."""
        now = asyncio.get_running_loop().time()
        self._unserved = {tenant: until for tenant, until in self._unserved.items() if until > now}
        return {*self._unserved}

    async def move(self, wake: Wake) -> WakeOutcome:
        """Move a run that an engine hands over, once its tenant has its turn at a slot.

        A wake that waited for its tenant's own room would keep a slot of the engine from the others.
        """
        mover = await self.of(wake.tenant)
        if self.leaving:
            return WakeOutcome("leaving")
        if mover is None and wake.tenant not in self._opening:
            return WakeOutcome("elsewhere")
        made = WakeOutcome("later") if mover is None else await mover.move(wake)
        if made.outcome == "later":
            self.pull(wake.tenant)
        return made

    def pull(self, tenant: str) -> None:
        """Claim what is due of a tenant, one run for each of its turns, until nothing is."""
        if tenant not in self._pulling and not self.leaving:
            self._pulling[tenant] = asyncio.ensure_future(self._pull(tenant))

    async def _pull(self, tenant: str) -> None:
        try:
            if (opening := self._opening.get(tenant)) is not None:
                await asyncio.wait({opening})
            mover = self._movers.get(tenant)
            while mover is not None and not self.leaving and await self._pulled(mover):
                pass
        except Exception as error:  # of its store: a reconciler looks at it again
            log.warning("runs of tenant %r could not be claimed, they are tried again: %s", tenant, error_words(error))
        finally:
            del self._pulling[tenant]

    async def _pulled(self, mover: Mover) -> bool:
        """Claim one run that is due, once there is room and it is its tenant's turn; return whether to go on."""
        await mover.until_free()
        if not await self._turns.wait(mover):  # another took the room
            return True
        with mover.slot():
            begun = await JournalEngine(mover.store, mover).take(1, mover.filter())
        if not begun and mover.full_for:  # however many tenants wait for the fleet to have room
            await asyncio.sleep(len(self._pulling) / _LOOKS)
            return True
        return begun > 0

    @property
    def busy(self) -> int:
        """Return how many runs are being moved now."""
        return sum(mover.busy for mover in self._movers.values())

    @property
    def slots(self) -> int:
        """Return how many runs are moved at once."""
        return self._turns.slots

    @slots.setter
    def slots(self, slots: int) -> None:
        self._turns.slots = slots
        self._turns.give()

    @property
    def free(self) -> int:
        """Return how many more may be taken up."""
        return self._turns.free

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
        self.tenant_slots = of_one
        for mover in self._movers.values():
            mover.slots = of_one
        self.slots = slots

    def full(self) -> set[str]:
        """Return the tenants that have as many runs at work as they may."""
        return {tenant for tenant, mover in self._movers.items() if not mover.own_free}

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
        unfinished = [*self._opening.values(), *self._pulling.values()]
        for each in unfinished:
            each.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
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
        served = after(self._last, {each.tenant for each in due} - self._left_out())[: self._movers.free]
        self._last = served[-1] if served else self._last
        return served

    def _left_out(self) -> set[str]:
        now = asyncio.get_running_loop().time()
        self._passed = {tenant: until for tenant, until in self._passed.items() if until > now}
        return self._passed.keys() | self._movers.full() | self._movers.unserved()

    async def _take(self, names: Sequence[str]) -> int:
        """Take up runs of these tenants, an equal share of each; return how many were begun."""
        if not names:
            return 0
        taken = [
            self._of_one(name, share) for name, share in zip(names, shares(self._movers.free, len(names)), strict=True)
        ]
        return sum(await asyncio.gather(*taken))

    async def _of_one(self, tenant: str, share: int) -> int:
        mover = await self._movers.of(tenant)
        if mover is None:
            return self._pass_over(tenant)
        engine, only = self._engine(tenant, mover), mover.filter()
        if begun := await engine.take(min(share, mover.own_free), only):
            return begun
        await engine.report(only)
        return self._pass_over(tenant)

    def _engine(self, tenant: str, mover: Mover) -> JournalEngine:
        if tenant not in self._engines:
            self._engines[tenant] = JournalEngine(self._store.of(tenant), mover)
        return self._engines[tenant]

    def _pass_over(self, tenant: str) -> int:
        self._passed[tenant] = asyncio.get_running_loop().time() + _PAUSE
        return 0

    async def _wait(self, leaving: asyncio.Future[Any]) -> None:
        movers = self._movers
        waits: set[asyncio.Future[Any]] = {leaving}
        stirred: asyncio.Future[None] | None = None
        if movers.full() or not movers.free:
            waits.update(movers.tasks)
        if movers.free:
            left_out = self._left_out()
            timeout = _PAUSE if self._passed or movers.unserved() else None
            stirred = asyncio.ensure_future(self._store.wait_until_tenants_due(timeout, left_out))
            waits.add(stirred)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if stirred is not None and stirred.done():
                stirred.result()
        finally:
            if stirred is not None:
                stirred.cancel()


def after(last: str, tenants: Collection[str]) -> list[str]:
    """Return tenants in the order of their turns, where this one was served last.

    >>> after("b", {"a", "b", "c"})
    ['c', 'a', 'b']
    """
    names = sorted(tenants)
    place = bisect_right(names, last)
    return names[place:] + names[:place]


def shares(free: int, tenants: int) -> list[int]:
    """Return how many slots each of so many tenants is given of those that are free.

    >>> shares(5, 3)
    [2, 2, 1]
    """
    share, more = divmod(free, max(tenants, 1))
    return [share + (place < more) for place in range(tenants)]
