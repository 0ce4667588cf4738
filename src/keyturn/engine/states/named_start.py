"""Start a run once under a name: said again with the same words it is the same run, and with others it is refused.

The name is in the run's id and the words are in its log, so that this holds for all processes of a journal.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from ...core.digest import canonical
from ...core.errors import Conflict
from ...core.people import plain_text
from ...journal.base import Journal, LostRace, RunHeld
from ..run.log_cache import log_in

ONCE = "once"
# For how long a start waits for that of another process: as long as a session takes.
_LOOKS, _PAUSE = 100, 0.05
_PLAIN = (dict, list, str, int, float, bool, type(None))


class NamedStart:
    """Holds the name of a start, and a digest of its words.

    >>> NamedStart("retry-7", ["ops", "Rotate the keys"]).run == NamedStart("retry-7", ["ops", "Other"]).run
    True
    """

    def __init__(self, name: str, words: Any) -> None:
        given = plain_text(name, "once").encode()
        self.run = hashlib.sha256(b"keyturn start\n" + given).hexdigest()[:32]
        self.said = hashlib.sha256(canonical(words).encode()).hexdigest()

    @classmethod
    def of_fork(cls, name: str, run: str, at: int | None) -> NamedStart:
        """Name a fork of a run.

        >>> NamedStart.of_fork("retry-7", "5e1f", 3).run == NamedStart("retry-7", ["5e1f", 3]).run
        False
        """
        return cls(f"fork {run} {plain_text(name, 'once')}", [run, at])

    async def begun(self, journal: Journal, begin: Callable[[], Awaitable[str]]) -> str:
        """Begin the run, which has this id, unless that was done; return the id."""
        if await self._there(journal):
            return self.run
        try:
            await begin()
        except RunHeld:  # another process begins it right now, and tells its session
            if await self._comes(journal):
                return self.run
            raise
        except (Conflict, LostRace):
            if await self._there(journal):  # another process was faster
                return self.run
            raise
        await self._there(journal)  # a start in a session may find that another process was faster
        return self.run

    async def _comes(self, journal: Journal) -> bool:
        """Return whether the run begins within a moment."""
        for _ in range(_LOOKS):
            if await self._there(journal):
                return True
            await asyncio.sleep(_PAUSE)
        return False

    async def _there(self, journal: Journal) -> bool:
        if not await journal.head(self.run):
            return False
        log = await log_in(journal, self.run)
        if not log.steps:
            raise Conflict("the run of this name was erased; choose another name for a new one")
        if log.run.about.get(ONCE) != self.said:
            raise Conflict("a run was started under this name with other words; choose another name for this one")
        return True


def plain_part(value: object) -> Any:
    """Return a value as far as two starts can be compared by it: plain data as it is, anything else by its type.

    >>> plain_part({"customer": 7})
    {'customer': 7}
    """
    return value if type(value) in _PLAIN else type(value).__qualname__
