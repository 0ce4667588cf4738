"""Worker threads for blocking tools: a thread pool for each event loop, that ends with its loop.

The loop's default pool is small, and looking up a host's name needs it: forty tools that sleep would keep a model from
being asked. Nothing here knows what a tool is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

MOST = 64


class Pool:
    """Runs work in the threads of one loop.

    A thread is made when none is idle, up to `MOST`; then work waits its turn.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="keyturn-tool")
        self._working: set[Future[Any]] = set()
        self._life: AsyncGenerator[None, None] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; cancelling the wait does not stop the thread."""
        if self._life is None:
            self._life = self._until_the_loop_ends(asyncio.get_running_loop())
            await anext(self._life)
        job = self._threads.submit(copy_context().run, work)
        self._working.add(job)
        job.add_done_callback(self._working.discard)
        return await asyncio.wrap_future(job)

    async def _until_the_loop_ends(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """A generator that ends the pool when it is closed: a loop that ends closes its generators.

        Nothing that a tool began goes on behind the back of whoever awaited `asyncio.run`.
        """
        try:
            yield
        finally:
            _POOLS.pop(loop, None)
            self._threads.shutdown(wait=False)
            left = [asyncio.wrap_future(job) for job in tuple(self._working)]
            await asyncio.gather(*left, return_exceptions=True)


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


async def in_thread(work: Callable[[], T]) -> T:
    """Call `work` in a thread of the running loop's pool, in the caller's context, and return what it returns.

    >>> asyncio.run(in_thread(lambda: "done"))
    'done'
    """
    loop = asyncio.get_running_loop()
    pool = _POOLS.get(loop)
    if pool is None:
        pool = _POOLS[loop] = Pool()
    return await pool.run(work)
