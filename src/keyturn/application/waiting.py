"""Wait until a run is over or requires a decision, by its row and the lines that are appended."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

from ..core.errors import NotPending
from ..journal.base import Store
from ..journal.rows import ENDED, RunRow

_Get = Callable[[], Awaitable[RunRow]]


async def waited(journal: Store, get: _Get, run_id: str, seen: list[RunRow]) -> RunRow:
    """Return the row of a run that is over or requires a decision; `seen` has the last one meanwhile."""
    async with contextlib.aclosing(_rows(journal, get, run_id)) as rows:
        async for row in rows:
            seen[:] = [row]
            if row.status in (*ENDED, "waiting"):
                return row
    raise NotPending(f"run {run_id!r} is no longer watched")


async def _rows(journal: Store, get: _Get, run_id: str) -> AsyncGenerator[RunRow]:
    """Yield the run's row, now and after each line."""
    yield await get()
    head = await journal.head(run_id)
    yield await get()
    async with contextlib.aclosing(journal.watch(run_id, head)) as lines:
        async for _line in lines:
            yield await get()
