"""Wait, in a session, until calls have ended or wait for a person.

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
        """Wait until these calls have ended or wait for a person."""
        for call in calls:
            while self._driven() and call in (run := self._run()).calls and not _waits(run, call):
                self._stepped.clear()
                await self._stepped.wait()


def _waits(run: Run, call: str) -> bool:
    """Return whether a call, or one that was made inside of it, waits for a person."""
    return any(name == call or is_below(name, call) for name in run.groups["wait"])
