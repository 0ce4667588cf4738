"""What a journal in memory says of all its tenants, for a worker that serves several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress

from .memory_logs import MemoryTenant
from .optional import TenantDue


def due_tenants(tenants: Mapping[str, MemoryTenant]) -> list[TenantDue]:
    """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
    firsts = [(name, min(each.wanted(), default=None)) for name, each in sorted(tenants.items())]
    return [TenantDue(name, first[0]) for name, first in firsts if first is not None]


def held_runs(tenants: Mapping[str, MemoryTenant], tenant: str, now: int) -> tuple[int, int]:
    """Return how many runs are held, of a tenant and of all."""
    held = {name: each.held(now) for name, each in tenants.items()}
    return held.get(tenant, 0), sum(held.values())


async def wait_until_due(
    lock: AbstractContextManager[object],
    clock: Callable[[], int],
    tenants: Mapping[str, MemoryTenant],
    timeout: float | None,
    without: Collection[str],
) -> None:
    """Wait until a run is due of a tenant that is not among these, or for `timeout` seconds."""
    with lock:
        told = asyncio.get_running_loop().create_future()
        anybody = next(iter(tenants.values())).anybody
        anybody.append(told)
        due = [each.at for each in due_tenants(tenants) if each.tenant not in without]
    waits = [max(at - clock(), 0) / 1_000 for at in due] + ([] if timeout is None else [timeout])
    try:
        await asyncio.wait({told}, timeout=min(waits, default=None))
    finally:
        with lock, suppress(ValueError):
            anybody.remove(told)
