"""Run a library that blocks in a thread, so that a server that does not answer never holds up the event loop.

Each channel and each engine has threads of its own, a few. One that never comes back is lost to its owner and to nobody
else, and does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


class DaemonThreads:
    """Runs functions in daemon threads, at most `most` at once.

    >>> asyncio.run(DaemonThreads(2).run(lambda: 5))
    5
    """

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)

    async def run(self, do: Callable[[], Result]) -> Result:
        """Run a function in a thread and return what it returns; whoever is cancelled waits for it no longer."""
        if not self._free.acquire(blocking=False):
            raise TimeoutError("earlier calls have not come back from the library")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()

        def work() -> None:
            error: BaseException | None = None
            result: Result | None = None
            try:
                result = do()
            except BaseException as raised:  # whatever it was, it ends this thread and not the process
                error = raised
            finally:
                self._free.release()
            with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(_settle, done, result, error)

        try:
            threading.Thread(target=work, name="keyturn-blocking", daemon=True).start()
        except RuntimeError:  # a process short of memory
            self._free.release()
            raise
        return await done


def _settle(done: asyncio.Future[Result], result: Result | None, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)  # type: ignore[arg-type]  # the result of a function that raised nothing
    elif isinstance(error, Exception) and not isinstance(error, StopIteration):
        done.set_exception(error)
    else:
        done.set_exception(RuntimeError(f"the library raised {type(error).__name__}"))
