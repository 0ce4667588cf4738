"""Name the runs that commits of this process made due, for an engine that carries wakes to other processes.

It is off the write path: a commit leaves names here and waits for nobody. What nobody follows is not kept, and what is
not read in time is dropped: the run stays due, and whoever looks at the store finds it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ..core.priorities import NORMAL

#: The cause of a run that was erased: nothing of it is to be kept anywhere.
ERASED = "erased"
_MOST = 10_000


class MadeDue(NamedTuple):
    """Names a run that a commit made due; the same cause is the same commit.

    >>> MadeDue("default", "run", "7").cause
    '7'
    """

    tenant: str
    run: str
    cause: str
    priority: int = NORMAL


class DueFollower:
    """Reads what commits made due for one tenant, or for all, since it was made, in one event loop.

    Close it when done.
    """

    def __init__(self, feed: DueFeed, tenant: str | None) -> None:
        self._feed, self.tenant = feed, tenant
        self._made = deque[MadeDue](maxlen=_MOST)
        self._loop, self._there = asyncio.get_running_loop(), asyncio.Event()

    def put(self, made: Sequence[MadeDue]) -> None:
        """Keep names until they are read; from any thread."""
        self._made.extend(made)
        if made:
            with suppress(RuntimeError):  # its loop is closed: nobody reads there any more
                self._loop.call_soon_threadsafe(self._there.set)

    async def next(self) -> list[MadeDue]:
        """Return what was named since the last time, once there is anything."""
        await self._there.wait()
        self._there.clear()
        return self.rest()

    def rest(self) -> list[MadeDue]:
        """Return what was named and not read."""
        return [self._made.popleft() for _ in range(len(self._made))]

    def close(self) -> None:
        """Follow no more."""
        self._feed.leave(self)


class DueFeed:
    """Hands what commits made due to those who follow.

    >>> DueFeed().put([MadeDue("default", "run", "7")])
    """

    def __init__(self) -> None:
        self._followers = set[DueFollower]()
        self._lock = threading.RLock()

    def follow(self, tenant: str | None) -> DueFollower:
        """Begin to follow, for one tenant; None for all."""
        follower = DueFollower(self, tenant)
        with self._lock:
            self._followers.add(follower)
        return follower

    def leave(self, follower: DueFollower) -> None:
        """Take a follower out."""
        with self._lock:
            self._followers.discard(follower)

    def put(self, made: Sequence[MadeDue]) -> None:
        """Hand out names after a commit; from any thread."""
        if not self._followers:
            return
        with self._lock:
            followers = list(self._followers)
        for follower in followers:
            follower.put([each for each in made if follower.tenant in (None, each.tenant)])
