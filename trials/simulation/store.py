"""The store as one process sees it: true, but slow, and at times it fails before, or after, or does not say which.

Behind it is the real journal in memory, which all processes share and nobody can reach in another way. Whatever becomes
durable is shown to the witness at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from keyturn.core.errors import StorageError, StorageFull
from keyturn.journal.base import Claim, ClaimFilter, Lease
from keyturn.journal.rows import (
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

from ..witness import named
from .loop import Process
from .world import World

T = TypeVar("T")


class FaultyStore:
    """One process's connection."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self._true, self._dice = world.store, world.fault_dice
        self.keys, self.tenant = world.store.keys, world.store.tenant

    async def _asked(self, what: str, do: Callable[[], Coroutine[Any, Any, T]]) -> T:
        world, dice = self._world, self._dice
        await self._wire()
        rate = world.fault_rate
        fault = dice.random() / rate if rate else 1.0
        if fault < 0.5:
            world.count(f"fault: {what} failed before")
            full = what == "append" and fault < 0.1
            raise StorageFull("the disk is full") if full else StorageError("the store could not be reached")
        if not self._process.alive:  # what a dead process had in mind does not happen
            await asyncio.get_running_loop().create_future()
        answer = await do()
        if fault < 1.0:
            world.count(f"fault: {what} done, reply lost")
            world.note(f"{what}: done, and the reply is lost")
            await self._wire()
            raise StorageError("the connection broke; nobody knows whether that was done")
        await self._wire()
        return answer

    async def _wire(self) -> None:
        roll, world = self._dice.random(), self._world
        if world.stall_rate and self._dice.random() < world.stall_rate:
            world.count("fault: process stands still")
            seconds = self._dice.choice((3.0, 65.0, 200.0, 1_000.0))  # the longest is a lid that was closed
            world.note(f"stands still for {seconds:g} s")
            world.loop.freeze(self._process, seconds)
            await asyncio.sleep(0)
        if roll < world.slow_rate:
            world.count("fault: slow store")
            await asyncio.sleep(self._dice.choice((0.05, 1.0, 30.0)))
        elif roll < 0.3:
            await asyncio.sleep(0)

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
        lease: Lease | None = None,
    ) -> Claim | None:
        async def do() -> Claim | None:
            taken = await self._true.append(run, expected, lines, claim, changes, lease)
            self._world.durable(run, list(lines), claim or taken)
            self._world.noticed |= {named(notice) for notice in (changes.notices if changes is not None else ())}
            if lease is not None:
                self._world.count(f"lease {'taken' * bool(lease.worker)}{' given back' * lease.ends} along")
            return taken

        return await self._asked("append", do)

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        return await self._asked("read", lambda: self._true.read(run, after, limit))

    async def head(self, run: str) -> int:
        return await self._asked("read", lambda: self._true.head(run))

    def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        return self._true.watch(run, after, others=others)

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        return await self._asked("claim", lambda: self._true.claim(run, worker, ttl_ms))

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        return await self._asked("renew", lambda: self._true.renew(claim, ttl_ms))

    async def release(self, claim: Claim, due: int | None = None) -> None:
        await self._asked("release", lambda: self._true.release(claim, due))

    async def due(self, limit: int = 100, only: ClaimFilter | None = None) -> list[str]:
        return await self._asked("read", lambda: self._true.due(limit, only))

    async def now(self) -> int:
        return await self._asked("read", self._true.now)

    async def wait_until_due(self, timeout: float | None = None, only: ClaimFilter | None = None) -> None:
        await self._true.wait_until_due(timeout, only)

    def watch_all(self) -> AsyncGenerator[None, None]:
        return self._true.watch_all()

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        return await self._asked("read", lambda: self._true.runs(query))

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        return await self._asked("read", lambda: self._true.requests(query))

    async def grants(self, query: Query = ALL) -> list[GrantRow]:
        return await self._asked("read", lambda: self._true.grants(query))

    async def outbox(self, limit: int = 100, done: Sequence[int] = ()) -> list[Notice]:
        return await self._asked("read", lambda: self._true.outbox(limit, done))

    async def tell(self, notices: Sequence[Notice]) -> None:
        await self._asked("tell", lambda: self._true.tell(notices))

    async def notified(self, timeout: float | None = None) -> None:
        await self._true.notified(timeout)

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        return await self._asked("read", lambda: self._true.deliveries(query))

    async def dispatch(self, claim: Claim, step: Dispatch) -> None:
        await self._asked("dispatch", lambda: self._true.dispatch(claim, step))

    async def send_again(self, numbers: Sequence[int]) -> int:
        return await self._asked("dispatch", lambda: self._true.send_again(numbers))

    async def tallies(self, period: Period) -> list[Tally]:
        return await self._asked("read", lambda: self._true.tallies(period))

    async def ahead(self, run: str) -> list[str]:
        return await self._asked("read", lambda: self._true.ahead(run))

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        return await self._asked("read", lambda: self._true.hashes(run))

    async def erase(self, run: str) -> None:
        await self._asked("erase", lambda: self._true.erase(run))
