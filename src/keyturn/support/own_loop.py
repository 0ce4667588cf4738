"""An event loop in a thread of its own, for programs without one: what is asked of it is waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Begin a coroutine in the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine comes to."""
        future = self.begin(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def running(self) -> bool:
        """Return whether it was not closed."""
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
