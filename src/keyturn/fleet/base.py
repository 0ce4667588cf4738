"""The seam to an engine: what carries "look at this run" from the process that made a run due to one that moves it.

An engine carries ids and nothing else. It may lose a wake, double it, deliver it late or in another order, or say that
it was delivered when it was not: the journal alone says which runs are due, a claim alone lets a process move one, and
a reconciler finds what an engine forgot. So an engine that is wrong costs time, and never a promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, runtime_checkable

import msgspec

from ..core.immutable import immutable
from ..core.priorities import NORMAL


@immutable
class Wake(msgspec.Struct, frozen=True):
    """Asks that a run be looked at.

    Two of the same cause are the same wake: one of them is enough. `priority` is 0 for a run that a user waits for
    ("interactive"), 1 for a normal one, 2 for a batch: an engine that can, hands over lower numbers first.

    >>> Wake("default", "run", "7").key
    'default:run:7'
    """

    tenant: str
    run: str
    cause: str
    priority: int = NORMAL

    @property
    def key(self) -> str:
        """Return the id under which an engine keeps it."""
        return f"{self.tenant}:{self.run}:{self.cause}"


@immutable
class WakeOutcome(msgspec.Struct, frozen=True):
    """Says what came of a wake.

    The run was `moved` until it was over or only people could move it; another process `held` it; this process is not
    one that can execute it (`elsewhere`); there is no such run, or it was erased (`gone`); its tenant has as many at
    work as it may, and this process claims it `later`; the process is shutting down (`leaving`); or the run could not
    be moved now (`failed`), and stays due.

    >>> WakeOutcome("held").outcome
    'held'
    """

    outcome: Literal["moved", "held", "elsewhere", "gone", "later", "leaving", "failed"]


@immutable
class EngineHealth(msgspec.Struct, frozen=True):
    """Says how an engine is: how many wakes it holds, and for how many seconds the oldest; None where it cannot say.

    >>> EngineHealth().error
    """

    backlog: int | None = None
    oldest_seconds: float | None = None
    error: str | None = None


@immutable
class EnginePlace(msgspec.Struct, frozen=True):
    """Says where an engine has the last wake of a run: the id there, its state in the engine's words, a link to it.

    >>> EnginePlace("default:run:7", "ENQUEUED").link
    ''
    """

    id: str
    state: str
    link: str = ""


class Moves(Protocol):
    """Moves runs in this process; what an engine hands its wakes to, in the event loop in which it works."""

    @property
    def slots(self) -> int:
        """Return how many runs are moved at once."""
        ...

    @property
    def tenant_slots(self) -> int:
        """Return how many of one tenant, where there are several."""
        ...

    async def move(self, wake: Wake) -> WakeOutcome:
        """Move a run until it is over or only people can move it, if it is there to be moved; raises no error."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Carries wakes from the processes that make runs due to those that move them.

    An error of any method is logged by its caller, and the work goes on without the engine.
    """

    def open(self, tenant: str | None) -> AbstractAsyncContextManager[None]:
        """Connect, and disconnect at the end; `wake` works between the two.

        The process starts, decides and moves runs of one tenant, or, where that is None, of any: wakes of the one kind
        of process need not reach the other kind. A setting that cannot work is a `UserError` with the remedy; anything
        else is tried again.
        """
        ...

    async def work(self, moves: Moves) -> None:
        """Hand wakes to a mover, several at once, until `stop` is called and what was handed over has ended."""
        ...

    def stop(self) -> None:
        """Hand over nothing more."""
        ...

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Carry wakes to a process that works.

        One that was carried before need not be carried again.
        """
        ...

    async def forget(self, tenant: str, run: str) -> None:
        """Delete all that it keeps of a run that was erased."""
        ...

    async def tidy(self, before: int) -> int:
        """Delete what is done, or given up, since before a time in milliseconds since 1970; return how much."""
        ...

    async def health(self) -> EngineHealth:
        """Return how it is."""
        ...

    async def place(self, tenant: str, run: str) -> EnginePlace | None:
        """Return where the last wake of a run is; None where nothing of it is kept."""
        ...
