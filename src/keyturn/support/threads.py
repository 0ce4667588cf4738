"""Worker threads for blocking tools: a thread pool for each event loop, that ends with its loop.

The loop's default pool is small, and looking up a host's name needs it: forty tools that sleep would keep a model from
being asked. A place among the threads can be taken before the work is there, so that what waits for a thread has not
begun. What has its word meanwhile, while the place is held, needs none: with all places held by those who wait for one
more, none would ever be free. Nothing here knows what a tool is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

MOST = 64


class Place:
    """Holds a place among the threads of a loop: the next work that is run where it is given has it.

    It is left once that work has ended; at the end of a block in which it was given, or that it is a context manager
    of, where there was no work.
    """

    def __init__(self, free: asyncio.Semaphore | None) -> None:
        self._free = free
        self._used = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        if not self._used:
            self.leave()

    def given(self) -> Given:
        """Let the next work of a block have the place."""
        return Given(self)

    @contextlib.contextmanager
    def kept(self) -> Generator[None]:
        """Keep the place for what comes after this block; work of the block, and of what it calls, needs none."""
        token = _KEPT.set(self._free or _KEPT.get())
        try:
            yield
        finally:
            _KEPT.reset(token)

    def use(self, free: asyncio.Semaphore) -> bool:
        """Return whether this is an unused place of that pool, which is used from now on."""
        usable = self._free is free and not self._used
        self._used = self._used or usable
        return usable

    def leave(self) -> None:
        """Leave the place to others, once."""
        free, self._free = self._free, None
        if free is not None:
            free.release()


class Given:
    """Lets the next work of a block have a place, which is left at its end where there was none; once for each call."""

    __slots__ = ("_place", "_token")

    def __init__(self, place: Place) -> None:
        self._place = place

    def __enter__(self) -> None:
        self._token = _GIVEN.set(self._place)

    def __exit__(self, *_raised: object) -> None:
        _GIVEN.reset(self._token)
        self._place.__exit__()


#: The place of work that needs none.
NOWHERE = Place(None)
_GIVEN: ContextVar[Place] = ContextVar("keyturn_thread", default=NOWHERE)
# The places of which one is kept for whoever waits for what runs here.
_KEPT: ContextVar[asyncio.Semaphore | None] = ContextVar("keyturn_thread_kept", default=None)


class Pool:
    """Runs work in the threads of one loop.

    A thread is made when none is idle, up to `MOST`; then work waits its turn. As many more are for work without a
    place, where one is kept.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MOST, thread_name_prefix="keyturn-tool")
        self._beside = ThreadPoolExecutor(MOST, thread_name_prefix="keyturn-beside")
        self._free = asyncio.Semaphore(MOST)
        self._working: set[Future[Any]] = set()
        self._life: AsyncGenerator[None, None] | None = None

    @property
    def busy(self) -> bool:
        """Return whether no place is free, where one is needed."""
        return self._free.locked() and not self._is_kept

    @property
    def _is_kept(self) -> bool:
        """Return whether whoever waits for this has a place already."""
        return _KEPT.get() is self._free

    async def place(self) -> Place:
        """Take a place, at once where one is free."""
        if self._is_kept:
            return NOWHERE
        await self._free.acquire()
        return Place(self._free)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns; cancelling the wait does not stop the thread."""
        if self._life is None:
            self._life = self._until_the_loop_ends(asyncio.get_running_loop())
            await anext(self._life)
        given = _GIVEN.get()
        place = given if given.use(self._free) else await self.place()
        threads = self._beside if place is NOWHERE else self._threads
        job = threads.submit(copy_context().run, work)
        self._working.add(job)
        job.add_done_callback(self._working.discard)
        try:
            return await asyncio.wrap_future(job)
        finally:
            if job.done():
                place.leave()
            else:  # who waited was cancelled, and the thread works on
                job.add_done_callback(_leave_later(place, asyncio.get_running_loop()))

    async def _until_the_loop_ends(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """A generator that ends the pool when it is closed: a loop that ends closes its generators.

        Nothing that a tool began goes on behind the back of whoever awaited `asyncio.run`.
        """
        try:
            yield
        finally:
            _POOLS.pop(loop, None)
            self._threads.shutdown(wait=False)
            self._beside.shutdown(wait=False)
            left = [asyncio.wrap_future(job) for job in tuple(self._working)]
            await asyncio.gather(*left, return_exceptions=True)


def _leave_later(place: Place, loop: asyncio.AbstractEventLoop) -> Callable[[Future[Any]], None]:
    def ended(_job: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and its places are gone with it
            loop.call_soon_threadsafe(place.leave)

    return ended


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()


def _pool() -> Pool:
    loop = asyncio.get_running_loop()
    pool = _POOLS.get(loop)
    if pool is None:
        pool = _POOLS[loop] = Pool()
    return pool


def all_busy() -> bool:
    """Return whether no thread of the running loop is free."""
    return _pool().busy


async def place_of(blocks: bool) -> Place:
    """Take a place among the threads of the running loop for work that `blocks`, at once where one is free."""
    return await _pool().place() if blocks else NOWHERE


async def in_thread(work: Callable[[], T]) -> T:
    """Call `work` in a thread of the running loop's pool, in the caller's context, and return what it returns.

    >>> asyncio.run(in_thread(lambda: "done"))
    'done'
    """
    return await _pool().run(work)
