"""Refuse a saved state that was already resumed in this process.

For each run of which a state was given out it keeps how many steps the run has, even after all handles are gone (under
200 bytes a run). Another process's use of the same state is noticed only through a journal that both share.
"""

from __future__ import annotations

import threading

from ...core.errors import Conflict


class UsedStates:
    """Tracks how far each run of this process came, and which are being driven now."""

    def __init__(self) -> None:
        self._positions: dict[bytes, int] = {}
        self._driving: set[bytes] = set()
        self._lock = threading.Lock()

    def take(self, run: str, position: int) -> None:
        """Mark a run as driven from a position, or raise `Conflict` where it moved on or is driven."""
        key = bytes.fromhex(run)
        with self._lock:
            if key in self._driving:
                raise Conflict("this run is in progress; wait for it, a state can be resumed once", winner=run)
            if position < self._positions.get(key, -1):
                raise Conflict(
                    "this state is stale: its run already continued from here, and what it approved may have run; use "
                    "the newer state",
                    winner="a newer state of the same run",
                )
            self._driving.add(key)

    def forget(self) -> None:
        """Forget every run, as if this were another process."""
        with self._lock:
            self._positions.clear()
            self._driving.clear()

    def give_back(self, run: str, position: int | None) -> None:
        """Record how far the run came; None if it is over and no state of it was given out."""
        key = bytes.fromhex(run)
        with self._lock:
            self._driving.discard(key)
            if position is not None:
                self._positions[key] = max(position, self._positions.get(key, -1))


#: What this process remembers: every run in hand asks it, unless it was opened as another process would open it.
THIS_PROCESS = UsedStates()
