"""The seams to a store of runs: logs (append, read, lease by claim, watch), rows about them, and the outbox.

A journal keeps lines in order and knows nothing of what they say: their seals are made and verified by whoever writes
and reads them, with the journal's `keys` where it has such a method, else with this process's, and for its `tenant`. It
grants at most one claim on a run at a time, each with a higher epoch than the last (a fencing token: an append under an
older one is refused), and says which runs are due. It has its own clock, in milliseconds since 1970, and it alone says
when a claim is over. A journal object is the view of one tenant: it neither sees nor holds another tenant's runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..core.errors import Conflict
from ..core.priorities import NORMAL
from .rows import (
    ALL,
    Changes,
    Delivery,
    DeliveryQuery,
    Dispatch,
    GrantRow,
    Notice,
    Period,
    Query,
    RequestRow,
    RunRow,
    Tally,
)

#: How the name of a log begins that is no run: nobody moves it. What it holds is the affair of whoever writes it.
RESERVED = "@"


class LostRace(Exception):
    """Raised by an append that expected another head than the log has: refold, decide again.

    >>> raise LostRace("expected 2 lines, the log has 3")
    Traceback (most recent call last):
    ...
    keyturn.journal.base.LostRace: expected 2 lines, the log has 3
    """


class RunHeld(Conflict):
    """Raised where another process holds a run; the winner is its holder.

    >>> RunHeld("5e1f", "worker-2").message
    "run '5e1f' is held by 'worker-2'; wait for it"
    """

    def __init__(self, run: str, holder: str) -> None:
        super().__init__(f"run {run!r} is held by {holder!r}; wait for it", winner=holder)


class FleetFull(Conflict):
    """Raised where as many runs are held as a limit of the fleet admits.

    >>> FleetFull(20).message
    'the workers of this journal execute 20 runs already, which is their limit; the run is executed when one ends'
    """

    def __init__(self, most: int) -> None:
        super().__init__(
            f"the workers of this journal execute {most} runs already, which is their limit; the run is executed when "
            "one ends"
        )


async def is_other_store(journal: Any, known: str) -> bool:
    """Return whether a store was restored since it had this id, so that what was read of it before may be gone."""
    look = getattr(journal, "looked_at", None)
    return look is not None and (await look() is not None or journal.identity != known)


class Claim(msgspec.Struct, frozen=True):
    """A lease on a run: the right to move it forward, until it is released, or expires and somebody else takes it.

    `at` is the journal's time when it was given, by which the holder sets its clock; `head` is how many lines the log
    had then, as far as the journal says. `lost` counts the holders right before this one that neither wrote a line nor
    released the run: they died while they took it up. `since` is when its holder had it, by a clock of its process.
    `untried` says, as it is released, that its holder lacks what the run needs: that says nothing of those before.

    >>> Claim("run", "worker 1", epoch=1, until=60_000).epoch
    1
    """

    run: str
    worker: str
    epoch: int
    until: int
    at: int = 0
    head: int = 0
    lost: int = 0
    since: float | None = None
    untried: bool = False


class Lease(msgspec.Struct, frozen=True):
    """Says what an append does to the lease on its run, all or none with its lines.

    For a `worker` it is taken for `ttl_ms` before the lines, by nobody who has a claim. With `orderly` only that of a
    run whose last holder gave it back: else the race is lost, since what the holder left is to be looked at first. With
    `ends` it is given back after the lines, and the run wants to be looked at when it is `due`.

    >>> Lease("worker 1", 60_000).ends
    False
    """

    worker: str = ""
    ttl_ms: int = 0
    ends: bool = False
    due: int | None = None
    orderly: bool = False


#: No line has a newer format.
_ANY_FORMAT = (1 << 63) - 1


class ClaimFilter(msgspec.Struct, frozen=True):
    """Selects, of the runs that are due, those that a worker can move.

    They are of its `agents` (None: of any), no line of theirs has a newer format than `format`, and they are not among
    those that it found out to be unable to move (`without`). Logs that are no runs are selected by every worker.

    >>> ClaimFilter(("desk",), 2).admits("run", "desk", 3)
    False
    """

    agents: tuple[str, ...] | None = None
    format: int = _ANY_FORMAT
    without: tuple[str, ...] = ()

    def admits(self, run: str, agent: str, format: int) -> bool:
        """Return whether a run is selected."""
        known = self.agents is None or agent in self.agents or run.startswith(RESERVED)
        return known and format <= self.format and run not in self.without


class DueRun(msgspec.Struct, frozen=True):
    """Describes a run that is due: since when, and what a worker needs to move it.

    >>> DueRun("run", at=0, agent="desk").format
    0
    """

    run: str
    at: int
    agent: str
    format: int = 0
    priority: int = NORMAL


def filters_due(journal: Any) -> bool:
    """Return whether a journal selects due runs by a `ClaimFilter`; one written before there was that does not.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> filters_due(MemoryJournal())
    True
    """
    return _takes(getattr(journal.due, "__func__", journal.due), "only")


def leases_along(journal: Any) -> bool:
    """Return whether a journal's appends take a `Lease` along; one that was written before there was that does not.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> leases_along(MemoryJournal())
    True
    """
    return _takes(getattr(journal.append, "__func__", journal.append), "lease")


@lru_cache(64)
def _takes(method: Callable[..., Any], name: str) -> bool:
    given = signature(method, follow_wrapped=False).parameters
    inner: Callable[..., Any] | None = getattr(method, "__wrapped__", None)
    passes_on = inner is not None and any(each.kind is each.VAR_KEYWORD for each in given.values())
    return name in given or (passes_on and _takes(inner, name))


@runtime_checkable
class Journal(Protocol):
    """Stores the logs of runs.

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
        lease: Lease | None = None,
    ) -> Claim | None:
        """Append lines to a run's log, all or none, with the row changes they cause; durable when this returns.

        `expected` is the number of lines the log has; with another number it has lost the race and raises `LostRace`.
        A `claim` that is not the run's newest, or was released, is refused with `Conflict` naming the holder, and
        before the race is looked at. One whose time is up and that nobody took over still holds.

        A `lease` goes along with lines as if it were claimed right before them, or released right after: the claim
        that is taken is returned, and where the append is refused, nobody holds the run by it. A journal may be without
        this parameter (see `leases_along`): then its claims and releases are asked for by themselves.
        """
        ...

    async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
        """Return the lines of a run from position `after` on, `limit` at most; none for an unknown or erased run.

        Where it has other lines than it counts it raises `LogDamaged`. That they are the true ones is for the reader.
        """
        ...

    async def head(self, run: str) -> int:
        """Return how many lines a run's log has; 0 for a run it does not know."""
        ...

    def watch(self, run: str, after: int = 0, *, others: bool = False) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a run from `after` on, as they come, without polling.

        It does not end by itself: close it.

        With `others`, only a line that somebody appended without a claim has to be told at once: what a holder asks.
        """
        ...

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        """Take the lease on a run, or raise `Conflict` naming the holder, even if that is a worker of the same name."""
        ...

    async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
        """Renew the lease for `ttl_ms` from now, or raise `Conflict` if it was taken over or released."""
        ...

    async def release(self, claim: Claim, due: int | None = None) -> None:
        """Give the lease back; `due` says when the run wants to be looked at again.

        Nothing happens if it was taken over.
        """
        ...

    async def due(self, limit: int = 100, only: ClaimFilter | None = None) -> list[str]:
        """Return the runs that are due, by priority, and of one priority those first that have been so for longest.

        A journal may be without the parameter `only` (see `filters_due`): then a worker finds out by itself what it
        cannot move.
        """
        ...


@runtime_checkable
class Records(Protocol):
    """Answers queries about runs without reading their logs, and says when somebody should look at them.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Records)
    True
    """

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970."""
        ...

    async def wait_until_due(self, timeout: float | None = None, only: ClaimFilter | None = None) -> None:
        """Wait until a run is due, or for `timeout` seconds, without polling.

        It may return early and never late.
        """
        ...

    async def runs(self, query: Query = ALL) -> list[RunRow]:
        """Return runs, by when they started; `id` and `run` mean the same here."""
        ...

    async def requests(self, query: Query = ALL) -> list[RequestRow]:
        """Return requests, by when they were asked."""
        ...

    async def grants(self, query: Query = ALL) -> list[GrantRow]:
        """Return standing decisions, by run and id; `state` "revoked" or "open" chooses."""
        ...

    async def outbox(self, limit: int = 100, done: Sequence[int] = ()) -> list[Notice]:
        """Return undelivered notices in order; those with the numbers `done` were delivered and are deleted first."""
        ...

    async def hashes(self, run: str) -> list[tuple[str, str]]:
        """Return, of each line of a run, the digest and the seal, unverified; they outlive an erasure."""
        ...

    async def erase(self, run: str) -> None:
        """Erase what a run's lines and rows say.

        Their digests and seals stay, so the chain can still be verified.

        A run that somebody holds is refused with `Conflict`; an erased one takes no more lines.
        """
        ...


@runtime_checkable
class Outbox(Protocol):
    """Keeps what people are to be told until they were told: notices, then one delivery for each person and channel.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Outbox)
    True
    """

    async def tell(self, notices: Sequence[Notice]) -> None:
        """Add notices of what no line says, such as that somebody looked at a request."""
        ...

    async def notified(self, timeout: float | None = None) -> None:
        """Wait until there are notices, or deliveries that were sent again, or for `timeout` seconds.

        It may return early and never late.
        """
        ...

    def watch_all(self) -> AsyncGenerator[None, None]:
        """Yield at once, and soon after anything is written, without polling: once for several writes, or for none.

        It does not end by itself: close it.
        """
        ...

    async def deliveries(self, query: DeliveryQuery) -> list[Delivery]:
        """Return deliveries, by number unless the query says otherwise."""
        ...

    async def dispatch(self, claim: Claim, step: Dispatch) -> None:
        """Apply a dispatcher's step, all or nothing; refused with `Conflict` where its claim was taken over."""
        ...

    async def send_again(self, numbers: Sequence[int]) -> int:
        """Let dead deliveries wait anew, due at once and with all their attempts; return how many there were."""
        ...


@runtime_checkable
class Tallies(Protocol):
    """Adds up what became of requests, in the append that says so: no question about it reads the requests.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Tallies)
    True
    """

    async def tallies(self, period: Period) -> list[Tally]:
        """Return what was counted in a period; on day 0 one of `COUNTED_FROM` says on which day counting began."""
        ...


@runtime_checkable
class Sessions(Protocol):
    """Keeps the order of the runs on each session, in the append by which a run comes and the release by which it goes.

    A run that is queued is due as soon as no other is before it.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Sessions)
    True
    """

    async def ahead(self, run: str) -> list[str]:
        """Return the runs that came to the same session before this one and are not over, in their order.

        One that is over counts for as long as somebody holds it: its last words may not be in the session yet.
        """
        ...


class Store(Journal, Records, Outbox, Tallies, Sessions, Protocol):
    """A journal that keeps rows, too: all that come with Keyturn do."""
