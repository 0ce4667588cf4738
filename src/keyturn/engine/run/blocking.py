"""Wait for async work without `await`: in an event loop of its own, also where one runs in this thread already.

A notebook's cells run inside a loop that cannot be entered again. The work then has a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def waited_for(work: Coroutine[Any, Any, T]) -> T:
    """Return what the work returns, or raise what it raises; this thread is blocked until then."""
    if not _in_a_loop():
        return asyncio.run(work)
    outcome: list[Any] = []

    def apart() -> None:
        try:
            outcome.append((asyncio.run(work), None))
        except BaseException as error:  # handed to the caller's thread, whatever it is
            outcome.append((None, error))

    thread = threading.Thread(target=copy_context().run, args=(apart,), name="keyturn-run-sync")
    thread.start()
    thread.join()
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _in_a_loop() -> bool:
    """Return whether this thread runs a loop; work done inside the `except` would carry this error as its context."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
