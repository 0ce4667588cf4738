"""A backup of the store that is put back: what happened after it was made is true, and nobody wrote it down.

The real settlement then goes over the store, on a connection that fails as all others do.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from copy import deepcopy

from keyturn.core.errors import StorageError
from keyturn.engine.run import log_cache
from keyturn.inbox.restored import settle_whole

from .loop import Process
from .store import FaultyStore
from .world import World

_WHY = "was brought back from a copy"


class Backup:
    """The store as it was, and what everybody knew then."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs, self._rows = deepcopy((world.store._mine.logs, world.store._mine.rows))
        self._runs = deepcopy(world.witness.runs)
        self._kept, self._told = world.kept.copy(), len(world.acknowledged)
        self._effects = _counted(world)
        self._noticed, self._register = world.noticed.copy(), deepcopy(world.witness.register)

    def put_back(self) -> None:
        """Put the copy in the place of the store. What tools did since is not undone."""
        world = self._world
        world.store._mine.logs, world.store._mine.rows = self._logs, self._rows
        world.kept, world.acknowledged = self._kept, world.acknowledged[: self._told]
        world.unwritten += _counted(world) - self._effects
        world.witness.put_back(self._runs)
        world.noticed, world.witness.register = self._noticed, self._register
        log_cache.forget()  # those who knew more are dead


def _counted(world: World) -> Counter[str]:
    return Counter({key: len(acts) for key, acts in world.effects.items()}) - world.unwritten


class Restoring(FaultyStore):
    """The connection of whoever settles a store that was put back."""

    def __init__(self, world: World, process: Process, name: str) -> None:
        super().__init__(world, process)
        self._why: str | None = _WHY
        self._name = name

    def moved(self) -> None:
        """Nobody moved it."""

    async def restored(self) -> str | None:
        """Say why it is not worked on."""
        return self._why

    async def taken_for_restored(self) -> str:
        """Name this restore."""
        return self._name

    async def tenants(self) -> list[str]:
        """There is one."""
        return [self.tenant]

    def of(self, _tenant: str) -> Restoring:
        """The same store."""
        return self

    async def every_run(self) -> list[str]:
        """Name all runs."""
        return await self._asked("read", self._names)

    async def _names(self) -> list[str]:
        return [run for run, log in self._world.store._mine.logs.items() if log.lines]

    async def settled(self) -> None:
        """It may be worked on."""
        self._why = None


async def settle_put_back(world: World, process: Process, name: str) -> None:
    """Settle the store, however often it fails meanwhile."""
    store = Restoring(world, process, name)
    while await store.restored() is not None:
        try:
            await settle_whole(store)
        except StorageError as error:
            world.count("refused: a settlement")
            world.note(f"not settled: {error}")
            await asyncio.sleep(5.0)
