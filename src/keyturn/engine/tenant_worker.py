"""The worker that serves several tenants of one journal: one set of slots, and one claim name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from ..journal.base import Store
from ..journal.optional import Presence, PresenceOfTenants, ServesTenants
from .engine_line import EngineLine
from .mover import Mover
from .run.new_ids import claimant
from .tenant_reconciler import TenantReconciler
from .tenant_rounds import TenantMovers, TenantRounds
from .worker import WorkerLoop

#: Makes the mover of a tenant, for a worker of this name; None for a tenant that is not served.
Makes = Callable[[str, str], Awaitable[Mover | None]]


class TenantWorker(WorkerLoop):
    """Moves runs of several tenants, at most `slots` at once, each tenant's by the mover that `make` makes of it.

    With a `line`, another engine hands runs over, as for the worker of one tenant.
    """

    def __init__(
        self,
        store: Store,
        make: Makes,
        *,
        slots: int,
        tenant_slots: int,
        grace: float,
        lease_ms: int,
        settle: Callable[[], Awaitable[Any]] | None = None,
        line: EngineLine | None = None,
    ) -> None:
        async def made(tenant: str) -> Mover | None:
            return await make(tenant, self.name)

        limits = {"slots": slots, "tenant_slots": tenant_slots}
        movers = TenantMovers(made, name=claimant("worker"), **limits, lease_ms=lease_ms)
        if line is not None and line.engine is None:
            line = None
        tenants = cast("ServesTenants", store)
        rounds = TenantRounds(tenants, movers) if line is None else TenantReconciler(tenants, movers, line)
        super().__init__(store, movers, rounds, grace=grace, settle=settle, line=line)
        self._movers = movers

    def limit(self, slots: int, of_one: int) -> None:
        """Set how many runs are moved at once from now on, and how many of one tenant."""
        self._movers.limit(slots, of_one)

    def _watched(self, store: Presence) -> Presence:
        return _HoldersOfTenants(store) if isinstance(store, PresenceOfTenants) else store


class _HoldersOfTenants:
    """Knows the holders of the runs of all tenants, as a store knows those of one."""

    def __init__(self, store: PresenceOfTenants) -> None:
        self._store = store
        self._held = dict[str, list[str]]()

    async def be_present(self, worker: str) -> bool:
        return await self._store.be_present(worker)

    async def be_absent(self, worker: str) -> None:
        await self._store.be_absent(worker)

    async def absent(self) -> list[str]:
        """Return the watched workers that hold runs of any tenant and of which nothing shows that they live."""
        self._held = dict[str, list[str]]()
        for tenant, worker in await self._store.absent_of_tenants():
            self._held.setdefault(worker, []).append(tenant)
        return list(self._held)

    async def end_claims(self, worker: str) -> None:
        """Let its leases be over, of every tenant."""
        for tenant in self._held.get(worker, ()):
            await self._store.of(tenant).end_claims(worker)
