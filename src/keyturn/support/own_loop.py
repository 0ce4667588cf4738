"""An event loop in a thread of its own, for programs without one: what is asked of it is waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from ..core.errors import UserError

T = TypeVar("T")

_CLOSED = "it was closed: what was waited for has no answer here"
_GRACE = 5.0


class _Call(Generic[T]):
    """Holds a coroutine whose future is done once the coroutine has ended, also where it was cancelled."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.coroutine = coroutine
        self._task: asyncio.Future[T] | None = None

    async def whole(self) -> T:
        """Return what the coroutine comes to."""
        self._task = asyncio.ensure_future(self.coroutine)
        return await self._task

    def cancel(self) -> None:
        """Cancel the coroutine, in its loop."""
        if self._task is not None:
            self._task.cancel()


class OwnLoop:
    """Runs coroutines in a thread of its own.

    >>> async def five(): return 5
    >>> loop = OwnLoop("examples")
    >>> loop.result(five())
    5
    >>> loop.close()
    >>> loop.running
    False
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()
        self._closing = threading.Lock()
        self._closed = False

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin a coroutine in the loop."""
        with self._closing:
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise UserError(_CLOSED)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine comes to; on an interrupt it is cancelled, and has ended before this raises."""
        call = _Call(coroutine)
        future = self._begun(call)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise UserError(_CLOSED) from None
        except BaseException:
            if self._cancelled(call, future):
                concurrent.futures.wait([future], _GRACE)
            raise

    async def aio(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine comes to, in another loop; where this is cancelled, it has ended before."""
        call = _Call(coroutine)
        future = self._begun(call)
        made = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(made)
        except asyncio.CancelledError:
            if self._cancelled(call, future):
                await asyncio.wait([made], timeout=_GRACE)
            raise

    def _begun(self, call: _Call[T]) -> concurrent.futures.Future[T]:
        try:
            return self.begin(call.whole())
        except UserError:
            call.coroutine.close()
            raise

    def _cancelled(self, call: _Call[Any], future: concurrent.futures.Future[Any]) -> bool:
        """Cancel a call in its loop, and return whether it was at work."""
        with self._closing:
            if self._closed or future.done():
                return False
            self._loop.call_soon_threadsafe(call.cancel)
            return True

    @property
    def running(self) -> bool:
        """Return whether it was not closed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End what is waited for still, whose callers are told so, and the thread."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            ending = asyncio.run_coroutine_threadsafe(_ended(), self._loop)
        ending.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _ended() -> None:
    """Cancel every other task of this loop, and wait until none is left."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_GRACE)
