"""The slots of one worker that several tenants share: whoever waits for one is served in turn, tenant by tenant.

Between two turns of a tenant each other that waits has one. A tenant that has as many runs at work as it may does not
wait here, and keeps no slot from others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol


class Sharing(Protocol):
    """Moves runs of one tenant in slots that it shares with others."""

    #: How many slots are promised to those who waited, and not in use yet.
    promised: int
    leaving: bool

    @property
    def own_free(self) -> int:
        """Return how many more runs of this tenant may be moved."""
        ...


class SlotTurns:
    """Knows how many slots are in use, and gives those that are free in turn.

    >>> SlotTurns(4).free
    4
    """

    def __init__(self, slots: int) -> None:
        self.slots, self.taken = slots, 0
        # In the order of their turns; of each tenant those who wait, in their order.
        self._waiting: dict[Sharing, deque[asyncio.Future[bool]]] = {}

    @property
    def free(self) -> int:
        """Return how many more runs may be moved."""
        return max(self.slots - self.taken, 0)

    def taking(self, more: int) -> None:
        """Note that so many more slots are in use, or fewer."""
        self.taken += more
        if more < 0:
            self.give()

    async def wait(self, mover: Sharing) -> bool:
        """Wait for a slot, which the caller takes at once; return False where the tenant may not take one."""
        if mover.leaving or not mover.own_free:
            return False
        if self.free:  # then nobody waits
            return True
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(mover, deque()).append(turn)
        try:
            served = await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and turn.result():
                self._promise(mover, -1)
                self.give()
            raise
        if served:
            self._promise(mover, -1)
        return served

    def _promise(self, mover: Sharing, more: int) -> None:
        mover.promised += more
        self.taken += more

    def give(self) -> None:
        """Serve those who wait, as far as slots are free or their tenants may take none."""
        for mover in [each for each in self._waiting if each.leaving or not each.own_free]:
            for turn in self._waiting.pop(mover):
                _end(turn, served=False)
        while self.free and self._waiting:
            mover, turns = next(iter(self._waiting.items()))
            del self._waiting[mover]
            if _end(turns.popleft(), served=True):
                self._promise(mover, 1)
            if turns and not mover.own_free:
                for turn in turns:
                    _end(turn, served=False)
            elif turns:  # the others come first
                self._waiting[mover] = turns


def _end(turn: asyncio.Future[bool], *, served: bool) -> bool:
    """Tell one who waits; return whether that one still did."""
    waits = not turn.done()
    if waits:
        turn.set_result(served)
    return waits
