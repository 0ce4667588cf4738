"""Find the tenants of a database that have runs which are due, or will be, for a worker that serves several.

One statement steps over the indexes of what is due: from kind to kind of a tenant's runs (priority, agent, log format),
and from tenant to tenant. One with a hundred thousand due runs costs as much as a tenant with one, and a tenant of
which nothing will be due costs nothing.
"""

from __future__ import annotations

from functools import cache

from .due_sql import BEGUN, next_kind, turn_has_come
from .optional import TenantDue
from .statements import SqlDialect
from .store_thread import StoreConnection


def due_tenants(db: StoreConnection, dialect: SqlDialect) -> list[TenantDue]:
    """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
    found = db.execute(_tenants(dialect))
    return [TenantDue(tenant, at) for tenant, at in found if isinstance(tenant, str) and isinstance(at, int)]


@cache
def _tenants(dialect: SqlDialect) -> str:
    free = f"holder IS NULL AND {BEGUN}"
    after = next_kind("kinds", "tenant, priority, agent, needs")
    kinds = _steps(dialect, "kinds", "tenant, priority, agent, needs, due", f"due IS NOT NULL AND {free}", after)
    holders = _steps(
        *(dialect, "held", "tenant, held_until", f"held_until IS NOT NULL AND {BEGUN}", "each.tenant > held.tenant")
    )
    after = next_kind("queued", "tenant, session", "place")
    queued = _steps(dialect, "queued", "tenant, session, place, run", "status = 'queued'", after)
    come = f"each.tenant = queued.tenant AND each.run = queued.run AND {turn_has_come('each')} AND {BEGUN}"
    turns = f"SELECT runs.tenant, 0 FROM {dialect.each.format('queued', come, '', by='')}"
    times = f"SELECT tenant, due AS at FROM kinds UNION ALL SELECT * FROM held UNION ALL {turns}"
    return (
        f"WITH RECURSIVE {kinds}, {holders}, {queued} "
        f"SELECT tenant, min(at) FROM ({times}) AS times GROUP BY tenant ORDER BY tenant"
    )


def _steps(dialect: SqlDialect, name: str, columns: str, wanted: str, after: str) -> str:
    """Step over an index by its columns: from a row that is wanted to the first one after its tenant, or its kind."""
    by = dialect.by.format({"kinds": "runs_due"}.get(name, f"runs_{name}"))
    order = ", ".join(f"each.{column}" for column in columns.split(", "))
    step = dialect.each.format(name, f"{wanted} AND {after} ORDER BY {order} LIMIT 1", "", by=by)
    found = order.replace("each.", "runs.")
    return (
        f"{name}({columns}) AS (SELECT * FROM (SELECT {columns} FROM runs AS each{by} WHERE {wanted} ORDER BY {order} "
        f"LIMIT 1) AS first UNION ALL SELECT {found} FROM {step})"
    )
