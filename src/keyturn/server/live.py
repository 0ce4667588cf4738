"""Tell pages and programs at once that something was written: one watcher of the journal for all who listen.

Who waits for one run is told of that run alone, so that programs that wait for their requests do not all look again
after each change of any.

What changed each of them looks up by itself. So nothing is missed, whatever was slow, and who comes back after a break
sees what is so now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Hashable
from typing import Any

from ..core.errors import StorageError
from ..journal.base import Store

_AGAIN = 1.0
#: Between two notices it is quiet for so long, for as long as the looks after one kept the loop, and at most so long.
_SOONEST, _LATEST = 0.005, 0.1
_KEPT = 20  # looks of one change that are shared: each may be as large as a page


class Live:
    """Watches a store while somebody listens.

    `ended` is set when the server stops, and ends whoever listens.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rings = set[asyncio.Event]()
        self._of_runs = set[asyncio.Event]()
        self._watching: asyncio.Task[None] | None = None
        self._version = 0
        self._looked = dict[Hashable, tuple[int, asyncio.Task[Any]]]()
        self.ended = asyncio.Event()

    @property
    def listeners(self) -> int:
        """Return how many listen."""
        return len(self._rings) + len(self._of_runs)

    async def changes(self, every: float, run: str = "") -> AsyncGenerator[bool]:
        """Yield at once, then after whatever was written (True), and when nothing was for so many seconds (False).

        With `run`, whatever was written to that run.
        """
        async with self._listening_to(run) if run else self._listening() as ring:
            changed = True
            while not self.ended.is_set():
                yield changed
                changed = await _rung(ring, every)

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncGenerator[asyncio.Event]:
        ring = asyncio.Event()
        self._rings.add(ring)
        self._watch()
        try:
            yield ring
        finally:
            self._rings.discard(ring)
            if not self._rings:
                self._looked.clear()

    @contextlib.asynccontextmanager
    async def _listening_to(self, run: str) -> AsyncGenerator[asyncio.Event]:
        head, ring = await self._store.head(run), asyncio.Event()
        following = asyncio.ensure_future(self._follow_run(run, head, ring))
        self._of_runs.add(ring)
        try:
            yield ring
        finally:
            following.cancel()
            self._of_runs.discard(ring)

    async def _follow_run(self, run: str, head: int, ring: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(StorageError):
                await self._ring_after(run, head, ring)
            await asyncio.sleep(_AGAIN)

    async def _ring_after(self, run: str, head: int, ring: asyncio.Event) -> None:
        async with contextlib.aclosing(self._store.watch(run, head)) as lines:
            async for _ in lines:
                ring.set()

    async def once(self, what: Hashable, look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return what a look finds; those who ask for the same after the same change share one look."""
        version, task = self._looked.get(what, (-1, None))
        if task is None or version != self._version or (task.done() and task.exception() is not None):
            task = asyncio.ensure_future(look())
            for old in [each for each, (seen, _) in self._looked.items() if seen != self._version]:
                del self._looked[old]
            if len(self._looked) >= _KEPT:
                del self._looked[next(iter(self._looked))]
            self._looked[what] = (self._version, task)
        return await asyncio.shield(task)

    def end(self) -> None:
        """End whoever listens."""
        self.ended.set()
        for ring in (*self._rings, *self._of_runs):
            ring.set()
        if self._watching is not None:
            self._watching.cancel()

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._version += 1  # nobody watched for a while: what was looked up before may be old
            self._watching = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        while self._rings:
            with contextlib.suppress(StorageError):  # a store that is away for a while is looked for again
                await self._ring_on()
            await asyncio.sleep(_AGAIN)

    async def _ring_on(self) -> None:
        """Ring whoever listens after each change, until nobody does."""
        loop = asyncio.get_running_loop()
        async with contextlib.aclosing(self._store.watch_all()) as told:
            async for _ in told:
                self._version += 1
                for ring in self._rings:
                    ring.set()
                if not self._rings:
                    return
                rung = loop.time()
                await asyncio.sleep(_SOONEST)  # what is written in one breath is told once
                await asyncio.sleep(min(loop.time() - rung, _LATEST) - _SOONEST)


async def _rung(ring: asyncio.Event, every: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(every):
            await ring.wait()
    rung = ring.is_set()
    ring.clear()
    return rung
