"""Where connections live: one event loop of our own, in one thread, for as long as the process does.

A connection belongs to the loop and the task that opened it, while callers come and go: `run_sync` opens a loop each
time, a notebook blocks its own. So every connection lives here, and callers reach over. No server is known here.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_LOCK = threading.Lock()
_HOMES: dict[int, asyncio.AbstractEventLoop] = {}


def home() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked process gets one of its own."""
    with _LOCK:
        loop = _HOMES.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            _HOMES[os.getpid()] = loop
            threading.Thread(target=loop.run_forever, name="keyturn-mcp", daemon=True).start()
        return loop


async def at_home(work: Coroutine[Any, Any, T]) -> T:
    """Await something there; being cancelled here cancels it there."""
    loop = home()
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def over_there(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """From home, await something in a caller's own loop, as its callbacks expect it."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
