"""Bound what reads the logs of a whole store for a request: few at a time, one for each person, for so long at most.

Whoever asks is told where the bound was met, and what has none: the command line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from ..core.errors import KeyturnError
from ..directory.state import ADMIN
from .visitor import Visitor

#: Seconds that a search, and the reading of every log of a store, may take over HTTP.
SEARCH_SECONDS = 8.0
#: Runs and lines of logs that one page of a search may look at.
SEARCH_LOOKS = 10_000
WHOLE_SECONDS = 60.0
#: Seconds that somebody waits for those before them.
WAITING_SECONDS = 60.0


class TookTooLong(KeyturnError):
    """Raised where reading the logs took longer than a server takes for one request.

    >>> TookTooLong("verifying").message
    'verifying took too long'
    """

    def __init__(self, what: str, more: str = "") -> None:
        super().__init__(f"{what} took too long{more}")


class AtWork(KeyturnError):
    """Raised where somebody asks for a second reading of logs while their first is under way or waits.

    >>> raise AtWork("ada")
    Traceback (most recent call last):
    ...
    keyturn.server.reading_logs.AtWork: ada has a search under way or waiting: let it end first
    """

    def __init__(self, person: str) -> None:
        super().__init__(f"{person} has a search under way or waiting: let it end first")


class LogReaders:
    """Lets one search read logs at a time, and beside it one administrator verify or export; each person has one.

    >>> LogReaders().waiting
    0
    """

    def __init__(self) -> None:
        self._searches, self._administrators = asyncio.Semaphore(1), asyncio.Semaphore(1)
        self._people = set[str]()

    @property
    def waiting(self) -> int:
        """Return how many people read or wait."""
        return len(self._people)

    @asynccontextmanager
    async def search(self, person: str, *, administers: bool = False) -> AsyncGenerator[None]:
        """Hold a place; whoever holds one counts their time from then on, and not while they waited for it."""
        if person in self._people:
            raise AtWork(person)
        slot = self._administrators if administers else self._searches
        self._people.add(person)
        try:
            await self._taken(slot)
            try:
                yield
            finally:
                slot.release()
        finally:
            self._people.discard(person)

    async def _taken(self, slot: asyncio.Semaphore) -> None:
        try:
            async with asyncio.timeout(WAITING_SECONDS):
                await slot.acquire()
        except TimeoutError:
            raise TookTooLong("waiting for others who read the logs", ": try again") from None


@asynccontextmanager
async def reading_logs(state: Any, visitor: Visitor, what: str, command: str) -> AsyncGenerator[None]:
    """Let somebody read all logs, and end it when its time is up; `command` is what has no such bound.

    Administrators do not wait for those who search.
    """
    seconds = WHOLE_SECONDS
    async with state.readers.search(visitor.id, administers=ADMIN in visitor.roles):
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            bound = f": it was stopped after {seconds:g} s. `{command}` has no such bound"
            raise TookTooLong(what, bound) from None
