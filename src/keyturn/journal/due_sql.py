"""Find the runs of a tenant that are due in a database, and claim them: by priority, and then by how long they are due.

Due are expired claims, claims that end too far ahead, and what wants a look. However many are due, as many rows are
read as are asked for: each part follows an index and has a limit of its own. Only expired claims may be sorted.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..core.errors import LogDamaged
from ..core.priorities import PRIORITIES
from .base import RESERVED, ClaimFilter, DueRun, Lease
from .lease_sql import LONGEST_MS, place_in, take
from .optional import DueClaims
from .statements import HEAD_COLUMNS, SqlDialect
from .store_thread import StoreConnection

# A queued run that nobody was before when somebody last looked is due by that alone.
TURN_HAS_COME = (
    "status = 'queued' AND holder IS NULL AND due IS NULL AND NOT EXISTS (SELECT 1 FROM runs AS others "
    "WHERE others.tenant = runs.tenant AND others.session = runs.session AND others.session <> '' "
    "AND others.place < runs.place)"
)
_IN_TURN = "priority, at, run"
_OLDEST = "at, run"
_QUEUED = "priority, run"
_PLACES = range(len(PRIORITIES))


def due(db: StoreConnection, dialect: SqlDialect, tenant: str, limit: int, only: ClaimFilter) -> list[DueRun]:
    """Return runs that are due, in the order in which they are claimed."""
    return _due(db, dialect, tenant, limit, only, _IN_TURN)


def overdue(db: StoreConnection, dialect: SqlDialect, tenant: str, limit: int, only: ClaimFilter) -> list[DueRun]:
    """Return runs that are due, those first that have been so for longest, whatever their priority."""
    return _due(db, dialect, tenant, limit, only, _OLDEST)


def _due(
    db: StoreConnection, dialect: SqlDialect, tenant: str, limit: int, only: ClaimFilter, order: str
) -> list[DueRun]:
    now = db.now()
    found = db.execute(_selected(dialect, order), *_values(dialect, tenant, now, limit, only))
    return [DueRun(run, at or now, *needs) for at, run, *needs in found]


def claim_due(
    db: StoreConnection, dialect: SqlDialect, tenant: str, lease: Lease, limit: int, only: ClaimFilter
) -> DueClaims:
    """Take the leases on runs that are due; what is no plain case of that is named, and not taken."""
    found = db.execute(_locked(dialect), *_values(dialect, tenant, db.now(), limit, only))
    made = DueClaims([], [])
    for _, run, *row in found:
        try:
            at = place_in(run, (*row[:-1], db.now(row[-1])))
        except LogDamaged:
            at = None
        held = at is None or (at.holder is not None and (at.holder == lease.worker or at.now < at.until))
        if at is None or held or run.startswith(RESERVED):
            made.others.append(run)
        else:
            made.claims.append(take(db, tenant, run, at, lease.worker, lease.ttl_ms)[0])
    return made


def next_due(db: StoreConnection, dialect: SqlDialect, tenant: str, only: ClaimFilter) -> int | None:
    """Return when the next run is due."""
    [(first,)] = db.execute(_next(dialect), *(tenant, *_chosen(dialect, only)) * (2 + len(PRIORITIES))) or [(None,)]
    return int(first) if isinstance(first, int) else None


def _values(dialect: SqlDialect, tenant: str, now: int, limit: int, only: ClaimFilter) -> list[Any]:
    """Return the values of the places in `_parts`, and the limit of all."""
    chosen = (*_chosen(dialect, only), limit)
    times = ((now,), (now + LONGEST_MS,), *((now,) for _ in PRIORITIES), ())
    return [*(value for time in times for value in (tenant, *time, *chosen)), limit]


def _chosen(dialect: SqlDialect, only: ClaimFilter) -> tuple[Any, ...]:
    """Return the values of the places in `_movable`."""
    agents = None if only.agents is None else dialect.listed(only.agents)
    return only.format, agents, agents, dialect.listed(only.without)


@cache
def _selected(dialect: SqlDialect, order: str) -> str:
    """Select what is due; what is no name is left out here and not of the page: planted rows starve no others."""
    columns = "run, agent, needs, priority"
    parts = (f"SELECT * FROM ({each}) AS part{n}" for n, each in enumerate(_parts(dialect, columns, order)))
    return f"SELECT at, {columns} FROM ({' UNION ALL '.join(parts)}) AS found ORDER BY {order} LIMIT ?"


@cache
def _locked(dialect: SqlDialect) -> str:
    """Select the same for whoever claims them, and lock them; what another is about to claim is skipped."""
    found = _parts(dialect, f"run, {HEAD_COLUMNS}", _IN_TURN)
    parts = [f"part{n} AS ({each}{dialect.skipping})" for n, each in enumerate(found)]
    union = " UNION ALL ".join(f"SELECT * FROM part{n}" for n in range(len(parts)))
    page = f"SELECT *, {dialect.time} FROM ({union}) AS found ORDER BY {_IN_TURN} LIMIT ?"
    return f"WITH {', '.join(parts)} {page}"


def _parts(dialect: SqlDialect, columns: str, order: str) -> list[str]:
    held = f"SELECT held_until AS at, {columns} FROM runs WHERE tenant = ? AND held_until"
    due = f"SELECT due AS at, {columns} FROM runs WHERE tenant = ? AND due <= ? AND holder IS NULL"
    queued = f"SELECT 0 AS at, {columns} FROM runs{dialect.by.format('runs_queued')} WHERE tenant = ?"
    parts = (
        (f"{held} <= ?", order),  # no more than a fleet holds at once
        (f"{held} > ?", order),
        *((f"{due} AND priority = {place}", "at") for place in _PLACES),  # each in the order of the index
        (f"{queued} AND {TURN_HAS_COME}", _QUEUED),  # of one time: also in the order of its index
    )
    return [f"{part} AND {_movable(dialect)} ORDER BY {by} LIMIT ?" for part, by in parts]


@cache
def _next(dialect: SqlDialect) -> str:
    movable, queued = _movable(dialect), dialect.by.format("runs_queued")
    due = " UNION ALL ".join(
        f"SELECT min(due) AS at FROM runs WHERE tenant = ? AND priority = {place} AND due IS NOT NULL "
        f"AND holder IS NULL AND {movable}"
        for place in _PLACES
    )
    return (
        "SELECT min(at) FROM (SELECT min(held_until) AS at FROM runs WHERE tenant = ? AND held_until IS NOT NULL "
        f"AND {movable} UNION ALL {due} UNION ALL SELECT * FROM (SELECT 0 AS at FROM runs{queued} "
        f"WHERE tenant = ? AND {TURN_HAS_COME} AND {movable} LIMIT 1) AS turn) AS found"
    )


@cache
def _movable(dialect: SqlDialect) -> str:
    """Select runs that have a name, were begun and are not erased, and that a `ClaimFilter` admits."""
    named = f" AND {dialect.text.format('run')}" if dialect.text else ""
    agents = f"({dialect.any_name} IS NULL OR {dialect.among.format('agent')} OR substr(run, 1, 1) = '{RESERVED}')"
    admitted = f"needs <= ? AND {agents} AND NOT {dialect.among.format('run')}"
    return f"head > 0 AND status <> 'erased'{named} AND {admitted}"
