"""The event loop on which all MCP connections run, in one daemon thread for as long as the process lives.

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
_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}


def mcp_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of this process, started on first use; a forked process gets one of its own."""
    with _LOCK:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            loop = asyncio.new_event_loop()
            _LOOPS[os.getpid()] = loop
            threading.Thread(target=loop.run_forever, name="keyturn-mcp", daemon=True).start()
        return loop


async def on_mcp_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on the MCP loop; cancelling here cancels it there."""
    loop = mcp_loop()
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """From the MCP loop, await a coroutine on a caller's own loop, where its callbacks expect to run."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
