"""The seam to a store of logs: append a line where it is expected, read lines, and hold a run.

A journal keeps lines in order and knows nothing of what they say. It grants at most one claim on a run at
a time, each with a higher epoch than the last, and says which runs are due. It has its own clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

import msgspec


class LostRace(Exception):
    """An append expected another head than the one the journal has: refold, decide again."""


class Claim(msgspec.Struct, frozen=True):
    """The right to move a run forward, until it is released or its time is up."""

    run: str
    worker: str
    epoch: int
    until: int


@runtime_checkable
class Journal(Protocol):
    """Where logs live.

    `append` is atomic and durable when it returns; `expected` is the number of lines the log has. With a
    `claim`, an append under an epoch that is no longer the newest is refused with `Conflict`.
    """

    async def append(self, run: str, expected: int, lines: Sequence[bytes], claim: Claim | None = None) -> None:
        """Add lines to a run's log, all or none, or raise `LostRace`."""
        ...

    async def read(self, run: str, after: int = 0) -> list[bytes]:
        """The lines of a run from position `after` on."""
        ...

    async def head(self, run: str) -> int:
        """How many lines a run's log has; 0 for a run it does not know."""
        ...

    def watch(self, run: str, after: int) -> AsyncIterator[bytes]:
        """The lines of a run from `after` on, as they come, without polling."""
        ...

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        """Take a run, or raise `Conflict` naming who has it."""
        ...

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        """Hold a claim longer, or raise `Conflict` if it was taken over."""
        ...

    async def release(self, claim: Claim, due: int | None = None) -> None:
        """Give a run back; `due` says when it wants to be looked at again."""
        ...

    async def due(self, limit: int = 100) -> list[str]:
        """Runs that nobody holds and whose time has come, the oldest first."""
        ...
