"""Wait, in a session, until calls have ended, wait for a person, or are at work at their provider.

It hears of each step of the run and asks nothing of the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from ..core.call_ids import is_below
from ..core.run import Run


class Settling:
    """Waits for calls of one run, as long as that is driven."""

    def __init__(self, run: Callable[[], Run], driven: Callable[[], bool]) -> None:
        self._run, self._driven = run, driven
        self._stepped = asyncio.Event()

    def stepped(self) -> None:
        """Look again: the run has moved, or is driven no longer."""
        self._stepped.set()

    async def settled(self, calls: Iterable[str]) -> None:
        """Wait until these calls have ended or are left to others."""
        for call in calls:
            while self._driven() and call in (run := self._run()).calls and not _left(run, call):
                self._stepped.clear()
                await self._stepped.wait()


def _left(run: Run, call: str) -> bool:
    """Return whether a call is left to others: to a person, itself or a call inside of it, or to its provider."""
    asked = any(name == call or is_below(name, call) for name in run.groups["wait"])
    return asked or (call in run.groups["started"] and run.calls[call].proposal.by_provider)
