"""The seams to a store of runs: logs (append a line where it is expected, read lines, hold a run), and rows about them.

A journal keeps lines in order and knows nothing of what they say: their seals are made and verified by whoever writes
and reads them, with the journal's `keys` where it has such a method, else with this process's, and for its `tenant`. It
grants at most one claim on a run at a time, each with a higher epoch than the last, and says which runs are due. It has
its own clock, in milliseconds since 1970, and it alone says when a claim is over. A journal object is the view of one
tenant: it neither sees nor holds another tenant's runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from .rows import ALL, Changes, GrantRow, Notice, Query, RequestRow, RunRow


class LostRace(Exception):
    """An append expected another head than the one the journal has: refold, decide again.

    >>> raise LostRace("expected 2 lines, the log has 3")
    Traceback (most recent call last):
    ...
    keyturn.journal.base.LostRace: expected 2 lines, the log has 3
    """


class Claim(msgspec.Struct, frozen=True):
    """The right to move a run forward, until it is released or its time is up and somebody else takes it.

    `at` is the journal's time when it was given, by which the holder sets its clock; `head` is how many lines the log
    had then, as far as the journal says.

    >>> Claim("run", "worker 1", epoch=1, until=60_000).epoch
    1
    """

    run: str
    worker: str
    epoch: int
    until: int
    at: int = 0
    head: int = 0


@runtime_checkable
class Journal(Protocol):
    """Where logs live.

    Due is a run that nobody holds and of which one of these is true: its `release` named a time that has come, its
    claim ran out, or somebody who did not hold it appended (a decision, a message) and no holder has seen that yet. So
    a decision wakes a run, and a worker that dies does not leave it asleep.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Journal)
    True
    """

    async def append(
        self,
        run: str,
        expected: int,
        lines: Sequence[bytes],
        claim: Claim | None = None,
        changes: Changes | None = None,
    ) -> None:
        """Add lines to a run's log, all or none, and with them what they change; durable when this returns.

        `expected` is the number of lines the log has; with another number it has lost the race and raises `LostRace`.
        A `claim` that is not the run's newest, or was released, is refused with `Conflict` naming the holder, and
        before the race is looked at. One whose time is up and that nobody took over still holds.
        """
        ...

    async def read(self, run: str, after: int = 0) -> list[bytes]:
        """The lines of a run from position `after` on; none for a run it does not know, or that was erased.

        Where it has other lines than it counts it raises `LogDamaged`. That they are the true ones is for the reader.
        """
        ...

    async def head(self, run: str) -> int:
        """How many lines a run's log has; 0 for a run it does not know."""
        ...

    def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        """The lines of a run from `after` on, as they come, without polling. It does not end by itself: close it.

        With `others`, only a line that somebody appended without a claim has to be told at once: what a holder asks.
        """
        ...

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        """Take a run, or raise `Conflict` naming who has it, even if that is a worker of the same name."""
        ...

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        """Hold a claim for `ttl_ms` from now, or raise `Conflict` if it was taken over or released."""
        ...

    async def release(self, claim: Claim, due: int | None = None) -> None:
        """Give a run back; `due` says when it wants to be looked at again. Nothing happens if it was taken over."""
        ...

    async def due(self, limit: int = 100) -> list[str]:
        """Runs that are due, those first that have been so for longest."""
        ...


@runtime_checkable
class Records(Protocol):
    """What is known of runs without reading their logs, and when somebody should look at them.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Records)
    True
    """

    async def now(self) -> int:
        """The journal's time, in milliseconds since 1970."""
        ...

    async def stir(self, timeout: float | None = None) -> None:
        """Wait until a run is due, or for `timeout` seconds. It may return early and never late; nothing is polled."""
        ...

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        """Runs, by when they started. `id` and `run` mean the same here."""
        ...

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        """Requests, by when they were asked."""
        ...

    async def grants(self, query: Query = ALL) -> list[GrantRow]:
        """Standing decisions, by run and id; `state` "revoked" or "open" chooses."""
        ...

    async def outbox(self, limit: int = 100, done: int | None = None) -> list[Notice]:
        """Notices that were not told yet, in order. Those up to number `done` were, and are forgotten first."""
        ...

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        """Of each line of a run the digest of what it says and its seal, on trust; they outlive an erasure."""
        ...

    async def erase(self, run: str) -> None:
        """Forget what a run's lines and rows say. Their digests and seals stay, so the chain can still be verified.

        A run that somebody holds is refused with `Conflict`; an erased one takes no more lines.
        """
        ...


class Store(Journal, Records, Protocol):
    """A journal that keeps rows, too: all that come with Keyturn do."""
