"""Wait until a run is due that a worker can move, and report what is due and no worker moves."""

from __future__ import annotations

import asyncio
import logging

from ..journal.base import ClaimFilter, Store, filters_due
from .backlog import LATE_MS, left_alone, what_moves
from .mover import Mover

log = logging.getLogger("keyturn.worker")

_PAUSE = 0.5  # how often a journal that knows no filter is asked, in seconds, while runs are due for others alone
_LOOK_AGAIN = 1.0  # how soon is noticed, in seconds, that this worker can move other runs than it asked for


class DueWatch:
    """Waits for what a mover can move; nothing is asked of the store meanwhile, but for the report once a minute."""

    def __init__(self, store: Store, mover: Mover) -> None:
        self._store, self._mover = store, mover
        # The agents and log formats whose runs were reported to be moved by no worker, and when is looked again.
        self._reported, self._reports_at = set[tuple[str, int]](), 0.0

    async def stirred(self, only: ClaimFilter) -> None:
        """Wait until something may be due that can be moved here, which may change meanwhile."""
        if not filters_due(self._store):  # what is left to others is due all the time
            await (asyncio.sleep(_PAUSE) if self._mover.left else self._store.wait_until_due())
            return
        waiting = asyncio.ensure_future(self._store.wait_until_due(None, only))
        try:
            while not waiting.done() and self._mover.filter() == only:
                await asyncio.wait({waiting}, timeout=_LOOK_AGAIN)
                await self.report(only)
            if waiting.done():
                waiting.result()
        finally:
            waiting.cancel()

    async def report(self, only: ClaimFilter) -> None:
        """Log once for each agent and log format that runs are late which this worker cannot move, nor any other."""
        now = asyncio.get_running_loop().time()
        self._reports_at = self._reports_at or now + LATE_MS / 1_000
        if now < self._reports_at:
            return
        self._reports_at = now + LATE_MS / 1_000
        for (agent, format), late in (await left_alone(self._store, only)).items():
            if (agent, format) not in self._reported:
                self._reported.add((agent, format))
                said = "runs of agent %r of tenant %r are due for over a minute (%d), and no worker executes them: %s"
                log.warning(said, agent, self._mover.tenant, len(late), what_moves(agent, format))
