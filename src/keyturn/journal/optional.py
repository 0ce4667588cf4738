"""The seams that a store may be without: what they answer is found out otherwise, later or with more questions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol, runtime_checkable

from .base import Claim, ClaimFilter, DueRun, FleetFull
from .due_feed import DueFollower

#: How the name of a worker ends whose process shows that it lives.
WATCHED = "-watched"


class DueClaims(NamedTuple):
    """Holds the claims on runs that were due, and the names of those that are due and have to be claimed one by one."""

    claims: list[Claim]
    others: list[str]


class WorkerRow(NamedTuple):
    """Describes a worker: how many runs it holds, when the first of its leases ends, and what shows that it lives.

    `alive` is None where nothing would show its death; `since` is when it began to show its life, `host` from which
    address, each where that is known. The `name` of one that holds nothing may be unknown.
    """

    name: str
    runs: int = 0
    until: int | None = None
    alive: bool | None = None
    since: int | None = None
    host: str = ""


class FleetLimits(NamedTuple):
    """Says how many runs all workers of a journal hold at once: of one tenant, and of all; None is without a limit.

    >>> FleetLimits(tenant=20).all
    """

    tenant: int | None = None
    all: int | None = None

    def room(self, of_tenant: int, of_all: int) -> int:
        """Return how many more runs may be held, where so many are; below 0 where those are too many.

        >>> FleetLimits(20, 50).room(5, 45)
        5
        """
        held = ((self.tenant, of_tenant), (self.all, of_all))
        return min((most - now for most, now in held if most is not None), default=1 << 31)

    def check(self, of_tenant: int, of_all: int) -> None:
        """Raise `FleetFull` where no more may be held."""
        if self.room(of_tenant, of_all) <= 0:
            raise FleetFull(of_all if self.tenant is None or of_tenant < self.tenant else of_tenant)


class TenantDue(NamedTuple):
    """Names a tenant, and when the first of its runs is due."""

    tenant: str
    at: int


@runtime_checkable
class ServesTenants(Protocol):
    """Says which tenants have work, for a worker that serves several: a store may be without it.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), ServesTenants)
    True
    """

    def of(self, tenant: str) -> Any:
        """Return the same store as another tenant sees it."""
        ...

    async def now(self) -> int:
        """Return the journal's time, in milliseconds since 1970."""
        ...

    async def due_tenants(self) -> list[TenantDue]:
        """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
        ...

    async def wait_until_tenants_due(self, timeout: float | None = None, without: Collection[str] = ()) -> None:
        """Wait until a run is due of a tenant that is not among these, or for `timeout` seconds, without polling.

        It may return early and never late.
        """
        ...


@runtime_checkable
class Backlog(Protocol):
    """Says which runs are due that no worker moves, and what a worker needs to move them.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), Backlog)
    True
    """

    async def overdue(self, limit: int = 100, only: ClaimFilter | None = None) -> list[DueRun]:
        """Return the runs that are due and that a filter admits, the longest first."""
        ...


@runtime_checkable
class NamesDue(Protocol):
    """Names the runs that commits of this process make due, for an engine that carries that to other processes.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), NamesDue)
    True
    """

    def follow_due(self, *, of_all: bool = False) -> DueFollower:
        """Name, from now on, the runs that commits of this process make due, of one tenant or of all."""
        ...


@runtime_checkable
class ClaimsDue(Protocol):
    """Claims what is due in one question, so that no two workers ask for the same run: a store may be without it."""

    async def claim_due(self, worker: str, ttl_ms: int, limit: int, only: ClaimFilter) -> DueClaims:
        """Take the leases on runs that are due."""
        ...


@runtime_checkable
class LimitsClaims(Protocol):
    """Counts what all workers hold, for limits of the whole fleet: a store may be without it.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), LimitsClaims)
    True
    """

    async def room(self, limits: FleetLimits) -> int:
        """Return how many more runs may be held now."""
        ...

    async def claim_within(self, run: str, worker: str, ttl_ms: int, limits: FleetLimits) -> Claim:
        """Take the lease on a run, or raise `FleetFull`: what is held is counted while nobody else claims so."""
        ...


@runtime_checkable
class Presence(Protocol):
    """Knows which workers' processes died, before their leases run out; a name that is watched ends with `WATCHED`."""

    async def be_present(self, worker: str) -> bool:
        """Show, until the process ends, that a worker of it lives; return whether that can be shown here."""
        ...

    async def be_absent(self, worker: str) -> None:
        """Show it no more."""
        ...

    async def absent(self) -> list[str]:
        """Return the watched workers that hold runs and of which nothing shows that they live."""
        ...

    async def end_claims(self, worker: str) -> None:
        """Let the leases of a worker that died be over: its runs are due at once."""
        ...


@runtime_checkable
class PresenceOfTenants(Presence, Protocol):
    """Knows the same of the workers of all tenants."""

    def of(self, tenant: str) -> Presence:
        """Return the same store as another tenant sees it."""
        ...

    async def absent_of_tenants(self) -> list[tuple[str, str]]:
        """Return tenant and name of the watched workers that hold runs and of which nothing shows that they live."""
        ...


@runtime_checkable
class ListsWorkers(Protocol):
    """Lists the workers of a journal, for operators: a store may be without it.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> isinstance(MemoryJournal(), ListsWorkers)
    False
    """

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that hold runs, or of which a lock shows that they live."""
        ...
