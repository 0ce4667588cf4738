"""The workers of an app in this process: the embedded one, and one for each call of `work`.

All are stopped together. The embedded one is begun only where no other is at work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.errors import KeyturnError
from ..engine.worker import Worker, WorkerLoop
from ..journal.base import Store
from ..journal.optional import Backlog


class AppWorkers:
    """Holds the workers that are at work; `make` makes one.

    >>> AppWorkers(lambda: None).busy
    0
    """

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make
        self._at_work = set[Worker]()
        self._embedded: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        #: How often they were stopped.
        self.stops = 0

    def __len__(self) -> int:
        return len(self._at_work)

    @property
    def busy(self) -> int:
        """Return how many runs they move right now."""
        return sum(worker.busy for worker in self._at_work)

    @property
    def trouble(self) -> str | None:
        """Return why one of them cannot work on the journal now, or ended; None while all can."""
        errors = (error for error in (*(worker.error for worker in self._at_work), self._error) if error is not None)
        return next(map(str, errors), None)

    @property
    def embedded(self) -> bool:
        """Return whether the embedded one has not ended."""
        return self._embedded is not None and not self._embedded.done()

    def set(self, name: str, value: Any) -> None:
        """Set how each works from now on: its `slots`, its `grace`, its `lease`."""
        for worker in self._at_work:
            set_of(worker, name, value)

    def embed(self) -> None:
        """Begin a worker beside the caller, unless one is at work."""
        if not self._at_work:
            worker, self._error = self._hired(), None
            self._embedded = asyncio.ensure_future(worker.run())
            self._embedded.add_done_callback(partial(self._ended, worker))

    def _ended(self, worker: Worker, task: asyncio.Task[None]) -> None:
        self._at_work.discard(worker)
        self._error = None if task.cancelled() else task.exception()

    async def work(self, stops: int) -> None:
        """Work until `stop` is called, or not at all where that was called since `stops` was read."""
        if stops != self.stops:
            return
        worker = self._hired()
        try:
            await worker.run()
        finally:
            self._at_work.discard(worker)

    async def stop(self) -> None:
        """Stop all of them, and wait for the embedded one."""
        self.stops += 1
        for worker in self._at_work:
            worker.stop()
        try:
            if self._embedded is not None:
                await self._embedded
        finally:
            self._embedded = None

    def _hired(self) -> Worker:
        worker = self._make()
        self._at_work.add(worker)
        return worker


def set_of(worker: WorkerLoop, name: str, value: Any) -> None:
    """Set how a worker works, by the name of the setting; a `lease` in seconds."""
    if name == "lease":
        worker.lease_ms = int(value * 1_000)
    else:
        setattr(worker, name, value)


async def oldest_due_seconds(journal: Store) -> float:
    """Return for how long a run has been due that no worker moves, in seconds; 0 where none is, or nobody knows."""
    if not isinstance(journal, Backlog):
        return 0.0
    first = await journal.overdue(1)
    return max(await journal.now() - first[0].at, 0) / 1_000 if first else 0.0


async def why_down(journal: Store, seconds: float) -> str | None:
    """Return why a journal cannot be worked on; one that does not answer within that time is down."""
    try:
        async with asyncio.timeout(seconds):
            await journal.due(1)
    except TimeoutError:
        return f"the journal did not answer within {seconds:g} s"
    except (KeyturnError, OSError) as error:
        return str(error)
    return None
