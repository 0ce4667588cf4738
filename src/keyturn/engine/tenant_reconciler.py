"""The reconciler of a worker of several tenants: looks at those with runs that are late, and moves them in turn.

It keeps the times of that of one tenant. Where the worker has no room, as with an engine that hands over the runs of
others first, a tenant whose runs are late stands in line for a slot, so that no tenant delays another by more than the
time until its runs are late, a look and one turn of each.
"""

from __future__ import annotations

import asyncio
from typing import cast

from ..journal.base import Store
from ..journal.optional import ServesTenants
from . import reconciler
from .due_watch import DueWatch
from .engine_line import EngineLine
from .reconciler import LateRuns, Looks
from .tenant_rounds import TenantMovers, after, shares

_AT_ONCE = 16  # of so many tenants it is asked at once what is due


class TenantReconciler(Looks):
    """Looks after the engine of several tenants, and moves by their movers what that engine does not hand over."""

    def __init__(self, store: ServesTenants, movers: TenantMovers, line: EngineLine) -> None:
        super().__init__(cast("Store", store), movers, line)
        self._tenants, self._movers = store, movers
        # Of the tenants that are late, with what reports runs that no worker executes.
        self._of = dict[str, tuple[LateRuns, DueWatch]]()
        self._last = ""

    async def _stirred(self) -> None:
        await self._tenants.wait_until_tenants_due(None, self._movers.unserved())

    async def _late(self, now: int, began: int) -> list[LateRuns]:
        """Return the runs that are late, of each tenant; those whose turn is next come first."""
        until = now - reconciler.WOKEN
        due = {each.tenant for each in await self._tenants.due_tenants() if each.at <= until}
        known, self._of = self._of, {}
        names, late = after(self._last, due - self._movers.unserved()), list[LateRuns]()
        for first in range(0, len(names), _AT_ONCE):
            some = names[first : first + _AT_ONCE]
            found = await asyncio.gather(*(self._find(name, known.get(name), now, began) for name in some))
            late += [each for each in found if each is not None]
        return late

    async def _find(
        self, tenant: str, known: tuple[LateRuns, DueWatch] | None, now: int, began: int
    ) -> LateRuns | None:
        mover = await self._movers.of(tenant)
        if mover is None:
            return None
        if known is None:
            known = LateRuns(mover.store, mover, self._line), DueWatch(mover.store, mover)
        self._of[tenant] = runs, watch = known
        only = mover.filter()
        await watch.report(only)
        return runs if await runs.find(only, now, began) else None

    async def _move(self, late: list[LateRuns]) -> None:
        """Move an equal share of each tenant; one that finds no room stands in line."""
        moved = [runs for runs in late if runs.to_move][: self._movers.free]
        for runs, share in zip(moved, shares(self._movers.free, len(moved)), strict=True):
            await runs.move(share)
            self._last = runs.mover.tenant
        for runs in late:
            if not runs.mover.free:
                self._movers.pull(runs.mover.tenant)
