"""The default engine: a worker asks the journal itself which runs are due, and sleeps until some are.

Nothing is carried and nothing is polled: the journal wakes those who wait. What is due is claimed in one question where
the store can, so that no two workers ask for the same run.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ..journal.base import Claim, ClaimFilter, Store, filters_due
from ..journal.optional import ClaimsDue
from .due_watch import DueWatch
from .mover import Mover
from .run.open_run import steady


class JournalEngine:
    """Hands what is due in a store to a mover, round by round."""

    def __init__(self, store: Store, mover: Mover) -> None:
        self._store, self._mover = store, mover
        self._watch = DueWatch(store, mover)

    async def round(self, leaving: asyncio.Future[Any]) -> None:
        """Take up what is due and there is room for; then wait for more work, or for room."""
        mover = self._mover
        free, only = mover.free, mover.filter()
        if free and not leaving.done():
            await self.take(free, only)
        stirred = asyncio.ensure_future(self._watch.stirred(only)) if mover.free else None
        ends = mover.tasks if stirred is None else [stirred]
        try:
            await asyncio.wait({leaving, *ends}, timeout=mover.full_for, return_when=asyncio.FIRST_COMPLETED)
            if stirred is not None and stirred.done():
                stirred.result()
        finally:
            if stirred is not None:
                stirred.cancel()

    async def take(self, free: int, only: ClaimFilter) -> int:
        """Take up what is due, so many runs at most; return how many were begun."""
        mover, asked = self._mover, steady()
        free = await mover.room(free)
        claims, due = await self._claimed(free, only) if free else ([], [])
        todo = [*(mover.accept(claim, asked) for claim in claims), *map(mover.take_up, due)]
        made = await asyncio.gather(*todo, return_exceptions=True)  # together, so that they share a commit
        for begun in made:
            if isinstance(begun, BaseException):
                raise begun
        return sum(begun is not None for begun in made)

    async def report(self, only: ClaimFilter) -> None:
        """Log what is due and no worker moves, once a minute at most, for one who waits otherwise than `round`."""
        await self._watch.report(only)

    async def _claimed(self, free: int, only: ClaimFilter) -> tuple[list[Claim], list[str]]:
        """Return runs that are due and were claimed, and the names of those that are to be claimed one by one."""
        if self._mover.limits is not None or not hasattr(self._store, "claim_due"):
            return [], await self._due(free, only)
        made = await cast("ClaimsDue", self._store).claim_due(self._mover.name, self._mover.lease_ms, free, only)
        return made.claims, made.others

    async def _due(self, free: int, only: ClaimFilter) -> list[str]:
        """Return runs that are due, and that this worker may be able to move."""
        if filters_due(self._store):
            return await self._store.due(free, only)
        due = await self._store.due(free + len(only.without))
        return [run for run in due if run not in only.without][:free]
