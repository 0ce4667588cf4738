"""How tests wait: for a thing, never for a time. No test is here.

A test that needs time to pass has a clock of its own; a tool that must be slow waits for what never comes.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from keyturn import App
from keyturn.journal.rows import RunRow

LOOK_AGAIN = 0.005


async def until(condition: Callable[[], Any], seconds: float = 30, every: float = LOOK_AGAIN) -> Any:
    """Wait until a condition, plain or async, is true, and give back what it said.

    >>> seen: list[int] = []
    >>> asyncio.run(until(lambda: seen.append(1) or len(seen) > 2 and seen))
    [1, 1, 1]
    """
    last = time.monotonic() + seconds
    while True:
        said = condition()
        said = await said if inspect.isawaitable(said) else said
        if said:
            return said
        assert time.monotonic() < last, f"not so within {seconds} s: {_words(condition)}"
        await asyncio.sleep(every)


def until_now(condition: Callable[[], Any], seconds: float = 30) -> Any:
    """Wait until a condition is true where there is no event loop."""
    last = time.monotonic() + seconds
    while not (said := condition()):
        assert time.monotonic() < last, f"not so within {seconds} s: {_words(condition)}"
        time.sleep(LOOK_AGAIN)
    return said


async def until_status(app: App, run: str, *wanted: str, seconds: float = 30) -> RunRow:
    """Wait until a run of an app has one of these statuses, and give back its row."""

    async def row_of_it() -> RunRow | None:
        row = await app.get(run)
        return row if row.status in wanted else None

    return await until(row_of_it, seconds)


async def until_alone() -> None:
    """Wait until every other task of this loop has ended."""
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def turns_of_the_loop(count: int = 1) -> None:
    """Let everybody else go first, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def never() -> None:
    """Wait for what never comes: whoever waits is cancelled."""
    await asyncio.Event().wait()


def _words(condition: Callable[[], Any]) -> str:
    try:
        return " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)
