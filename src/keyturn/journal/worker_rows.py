"""The workers of a journal in a database: which hold runs, and which show that they live.

What a worker holds is in the rows of its runs; that it lives is shown by a lock of its process, which is a file's in
SQLite and an advisory one in PostgreSQL. A worker that holds nothing and shows nothing leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .base import RESERVED
from .optional import WATCHED, WorkerRow

HELD_BY = (
    "SELECT holder, count(*), min(held_until) FROM runs WHERE tenant = ? AND held_until IS NOT NULL "
    f"AND substr(run, 1, 1) <> '{RESERVED}' GROUP BY holder ORDER BY holder"
)
# The lock of a worker is the hash of its name: that of one which holds nothing cannot be named.
HELD_OR_PRESENT = (
    "WITH held AS (SELECT holder, runs, until, "
    f"CASE WHEN right(holder, {len(WATCHED)}) = '{WATCHED}' THEN hashtext(holder)::bigint & 4294967295 END AS key "
    f"FROM ({HELD_BY}) AS leases (holder, runs, until)), "
    "shown AS (SELECT objid::bigint AS key, min((extract(epoch FROM backend_start) * 1000)::bigint) AS since, "
    "min(host(client_addr)) AS host FROM pg_locks LEFT JOIN pg_stat_activity AS process ON process.pid = pg_locks.pid "
    "WHERE locktype = 'advisory' AND objsubid = 2 AND classid::bigint = ? AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY objid) "
    "SELECT holder, coalesce(runs, 0), until, shown.key IS NOT NULL, since, host "
    "FROM held FULL JOIN shown ON held.key = shown.key ORDER BY holder, since"
)


def rows_of_locks(found: Iterable[tuple[Any, ...]]) -> list[WorkerRow]:
    """Return the workers of the rows of `HELD_OR_PRESENT`."""
    return [
        WorkerRow(holder or "", runs, until, True if shown else _without_lock(holder or ""), since, host or "")
        for holder, runs, until, shown, since, host in found
    ]


def rows_of_files(
    held: Iterable[tuple[str, int, int]], present: Mapping[str, int], is_gone: Callable[[str], bool]
) -> list[WorkerRow]:
    """Return the workers that hold runs, and those whose files are locked, each with since when.

    >>> found = rows_of_files([("process-1@here", 1, 5)], {"worker-2@here-watched": 0}, lambda name: True)
    >>> [(row.name, row.alive) for row in found]
    [('process-1@here', None), ('worker-2@here-watched', True)]
    """
    made: dict[str, WorkerRow] = {name: WorkerRow(name, alive=True, since=since) for name, since in present.items()}
    for name, runs, until in held:
        alive = False if name.endswith(WATCHED) and is_gone(name) else True if name in present else None
        made[name] = WorkerRow(name, runs, until, alive, present.get(name))
    return [made[name] for name in sorted(made)]


def _without_lock(name: str) -> bool | None:
    """Return whether a holder without a lock lives: one that never showed it is not known to be dead."""
    return False if name.endswith(WATCHED) else None
