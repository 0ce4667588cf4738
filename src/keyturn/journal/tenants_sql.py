"""Find the tenants of a database that have runs which are due, or will be, for a worker that serves several.

One statement steps from tenant to tenant over the indexes of what is due: a tenant with a hundred thousand due runs
costs as much as a tenant with one, and a tenant of which nothing will be due costs nothing.
"""

from __future__ import annotations

from functools import cache

from ..core.priorities import PRIORITIES
from .due_sql import TURN_HAS_COME
from .optional import TenantDue
from .statements import SqlDialect
from .store_thread import StoreConnection

# Where a tenant is found of which something will be due, each with the index that begins with tenants.
_WANTED = (
    ("due IS NOT NULL", "runs_due"),
    ("held_until IS NOT NULL", "runs_held"),
    ("status = 'queued'", "runs_queued"),
)


def due_tenants(db: StoreConnection, dialect: SqlDialect) -> list[TenantDue]:
    """Return the tenants of which runs are due or will be, by name, each with the time of the first."""
    found = db.execute(_tenants(dialect))
    return [TenantDue(tenant, at) for tenant, at in found if isinstance(tenant, str) and isinstance(at, int)]


@cache
def _tenants(dialect: SqlDialect) -> str:
    def next_name(after: str) -> str:
        each = (
            f"SELECT min(tenant) AS name FROM runs{dialect.by.format(index)} WHERE {wanted}{after}"
            for wanted, index in _WANTED
        )
        return f"SELECT min(name) FROM ({' UNION ALL '.join(each)}) AS next_names"

    begun = "head > 0 AND status <> 'erased'"
    of_it = "WHERE runs.tenant = names.tenant"
    due = f"due IS NOT NULL AND holder IS NULL AND {begun}"
    times = (
        f"SELECT min(held_until) AS at FROM runs {of_it} AND held_until IS NOT NULL AND {begun}",
        *(f"SELECT min(due) FROM runs {of_it} AND priority = {place} AND {due}" for place in range(len(PRIORITIES))),
        f"SELECT min(0) FROM runs{dialect.by.format('runs_queued')} {of_it} AND {TURN_HAS_COME} AND {begun}",
    )
    first = f"SELECT min(at) FROM ({' UNION ALL '.join(times)}) AS times"
    return (
        f"WITH RECURSIVE names(tenant) AS ({next_name('')} UNION ALL "
        f"SELECT ({next_name(' AND tenant > names.tenant')}) FROM names WHERE names.tenant IS NOT NULL) "
        f"SELECT tenant, ({first}) AS at FROM names WHERE tenant IS NOT NULL ORDER BY tenant"
    )
