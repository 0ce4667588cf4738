"""An engine in one process, as a user would write it, and engines that are wrong as engines can be. No test is here."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from keyturn.fleet import EngineHealth, EnginePlace, Moves, Wake, WakeOutcome
from keyturn.journal.base import Store


class Queue:
    """What the engines on one store share."""

    def __init__(self) -> None:
        self.wakes = deque[Wake]()
        self.there = asyncio.Event()
        self.kept = dict[tuple[str, str], Wake]()


QUEUES: WeakKeyDictionary[Store, Queue] = WeakKeyDictionary()


class LocalEngine:
    """Carries wakes through a queue in memory."""

    def __init__(self, store: Store) -> None:
        self._queue = QUEUES.setdefault(store, Queue())
        self._leaving = asyncio.Event()

    @asynccontextmanager
    async def open(self, tenant: str | None) -> AsyncGenerator[None]:
        yield

    async def work(self, moves: Moves) -> None:
        leaving = asyncio.ensure_future(self._leaving.wait())
        moving = set[asyncio.Future[WakeOutcome]]()
        while not leaving.done():
            there = asyncio.ensure_future(self._queue.there.wait())
            await asyncio.wait({leaving, there}, return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            while self._queue.wakes and not leaving.done():
                moving.add(asyncio.ensure_future(moves.move(self.taken())))
            self._queue.there.clear()
        self._leaving.clear()
        await asyncio.gather(*moving)

    def taken(self) -> Wake:
        return self._queue.wakes.popleft()

    def stop(self) -> None:
        self._leaving.set()

    async def wake(self, wakes: Sequence[Wake]) -> None:
        for each in wakes:
            self._queue.kept[each.tenant, each.run] = each
            self.put(each)

    def put(self, wake: Wake) -> None:
        self._queue.wakes.append(wake)
        self._queue.there.set()

    async def forget(self, tenant: str, run: str) -> None:
        self._queue.kept.pop((tenant, run), None)

    async def tidy(self, before: int) -> int:
        return 0

    async def health(self) -> EngineHealth:
        return EngineHealth(backlog=len(self._queue.wakes))

    async def place(self, tenant: str, run: str) -> EnginePlace | None:
        kept = self._queue.kept.get((tenant, run))
        return None if kept is None else EnginePlace(kept.key, "kept")


class DeafEngine(LocalEngine):
    """Takes every wake, and delivers none."""

    def put(self, wake: Wake) -> None:
        pass


class DoublingEngine(LocalEngine):
    """Delivers each wake three times, at once."""

    def put(self, wake: Wake) -> None:
        for _ in range(3):
            super().put(wake)


class LateEngine(LocalEngine):
    """Delivers the newest wake first, and each after others had their turn."""

    def put(self, wake: Wake) -> None:
        asyncio.get_running_loop().call_later(0.01, super().put, wake)

    def taken(self) -> Wake:
        return self._queue.wakes.pop()


class LyingEngine(LocalEngine):
    """Delivers every other wake, wakes runs for which nobody asked, and fails now and then as if it had not."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._asked = 0

    async def wake(self, wakes: Sequence[Wake]) -> None:
        self._asked += 1
        await super().wake(wakes)
        if self._asked % 3 == 0:
            raise ConnectionError("and yet it was delivered")

    def put(self, wake: Wake) -> None:
        if self._asked % 2:
            super().put(wake)
        for known in list(self._queue.kept.values()):
            super().put(known)
        super().put(Wake(wake.tenant, "a run that is not there", wake.cause))
        super().put(Wake("of another tenant", wake.run, wake.cause))


class SlottedEngine(LocalEngine):
    """Hands over what came first, as many wakes at once as there are slots: without a share for each tenant."""

    async def work(self, moves: Moves) -> None:
        await super().work(_Slotted(moves))


class _Slotted:
    def __init__(self, moves: Moves) -> None:
        self._moves, self._free = moves, asyncio.Semaphore(moves.slots)
        self.slots, self.tenant_slots = moves.slots, moves.tenant_slots

    async def move(self, wake: Wake) -> WakeOutcome:
        async with self._free:
            return await self._moves.move(wake)


class ForgetfulEngine(LocalEngine):
    """Hands over each wake as one of the tenant "default"."""

    def taken(self) -> Wake:
        wake = super().taken()
        return Wake("default", wake.run, wake.cause, wake.priority)
