"""Find the runs of a tenant that are due in a database, and claim them: by priority, and then by how long they are due.

Due are expired claims, claims that end too far ahead, and what wants a look. However many are due, as many rows are
read as are asked for: each part follows an index and has a limit of its own. Only expired claims may be sorted. What
wants a look is of a few kinds (priority, agent, log format). A statement steps from kind to kind and reads the first
rows of those that a worker can move: due runs of agents that no worker has cost what one of each costs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..core.errors import LogDamaged
from .base import RESERVED, ClaimFilter, DueRun, Lease
from .lease_sql import LONGEST_MS, place_in, take
from .optional import DueClaims
from .statements import HEAD_COLUMNS, SqlDialect
from .store_thread import StoreConnection

BEGUN = "head > 0 AND status <> 'erased'"
_IN_TURN = "priority, at, run"
_OLDEST = "at, run"
_QUEUED = "priority, run"
_BY_KIND = "each.priority, each.agent, each.needs, each.due LIMIT 1"
_NOTHING = {"tenant": "''", "agent": "''"}
_OF_KIND = "each.priority = kinds.priority AND each.agent = kinds.agent AND each.needs = kinds.needs"


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
    part, known = (tenant, *_values_of(dialect, only)), _known_values(dialect, only)
    [(first,)] = db.execute(_next(dialect), tenant, tenant, *part, *part, *known, *part) or [(None,)]
    return int(first) if isinstance(first, int) else None


def _values(dialect: SqlDialect, tenant: str, now: int, limit: int, only: ClaimFilter) -> list[Any]:
    """Return the values of the places in `_kinds` and `_parts`, and the limit of all."""
    page = (*_values_of(dialect, only), limit)
    timed = (value for time in (now, now + LONGEST_MS, now) for value in (tenant, time, *page))
    return [tenant, tenant, *timed, *_known_values(dialect, only), tenant, *page, limit]


def _known_values(dialect: SqlDialect, only: ClaimFilter) -> tuple[Any, ...]:
    """Return the values of the places in `_known`."""
    agents = None if only.agents is None else dialect.listed(only.agents)
    return only.format, agents, agents


def _values_of(dialect: SqlDialect, only: ClaimFilter) -> tuple[Any, ...]:
    """Return the values of the places in `_movable`."""
    return *_known_values(dialect, only), dialect.listed(only.without)


def turn_has_come(runs: str) -> str:
    """Select, of these runs, the queued ones that nobody was before when somebody last looked: due by that alone."""
    return (
        "status = 'queued' AND holder IS NULL AND due IS NULL AND NOT EXISTS (SELECT 1 FROM runs AS others "
        f"WHERE others.tenant = {runs}.tenant AND others.session = {runs}.session AND others.session <> '' "
        f"AND others.place < {runs}.place)"
    )


def next_kind(kinds: str, columns: str) -> str:
    """Select the rows of `each` that come after all of a kind, which has these columns, by the index.

    SQLite reads from the first row that is as great, not greater, and only as far as it knows that the types are the
    same, which those of a computed value are: so the time is named, of which only a planted row has a greater one.
    """
    first, *others = columns.split(", ")
    of_kind = ", ".join([f"{kinds}.{first}", *(_computed(kinds, name) for name in others)])
    rest = ", ".join(f"each.{name}" for name in others)
    by_index = f"(each.{first}, {rest}, each.due) > ({of_kind}, {(1 << 63) - 1})"
    return f"{by_index} AND ({_computed('each', first)}, {rest}) > ({of_kind})"


def _computed(table: str, column: str) -> str:
    return f"coalesce({table}.{column}, {_NOTHING.get(column, '0')})"


@cache
def _selected(dialect: SqlDialect, order: str) -> str:
    """Select what is due; what is no name is left out here and not of the page: planted rows starve no others."""
    columns = "run, agent, needs, priority"
    found = (f"SELECT * FROM ({each}) AS part{n}" for n, each in enumerate(_parts(dialect, columns, order)))
    union = " UNION ALL ".join(found)
    return f"{_kinds(dialect)} SELECT at, {columns} FROM ({union}) AS found ORDER BY {order} LIMIT ?"


@cache
def _locked(dialect: SqlDialect) -> str:
    """Select the same for whoever claims them, and lock them; what another is about to claim is skipped."""
    found = _parts(dialect, f"run, {HEAD_COLUMNS}", _IN_TURN, dialect.skipping)
    parts = [f"part{n} AS ({each})" for n, each in enumerate(found)]
    union = " UNION ALL ".join(f"SELECT * FROM part{n}" for n in range(len(parts)))
    page = f"SELECT *, {dialect.time} FROM ({union}) AS found ORDER BY {_IN_TURN} LIMIT ?"
    return f"{_kinds(dialect)}, {', '.join(parts)} {page}"


def _parts(dialect: SqlDialect, columns: str, order: str, locked: str = "") -> list[str]:
    movable, queued = _movable(dialect), dialect.by.format("runs_queued")
    held = f"SELECT held_until AS at, {columns} FROM runs WHERE tenant = ? AND held_until"
    page = (
        f"each.tenant = ? AND {_OF_KIND} AND each.due <= ? AND holder IS NULL AND {movable} ORDER BY each.due LIMIT ?"
    )
    due = dialect.each.format("kinds", page, locked, by=dialect.by.format("runs_due"))
    of_runs = ", ".join(f"runs.{column}" for column in columns.split(", "))
    return [
        f"{held} <= ? AND {movable} ORDER BY {order} LIMIT ?{locked}",  # no more than a fleet holds at once
        f"{held} > ? AND {movable} ORDER BY {order} LIMIT ?{locked}",
        f"SELECT runs.due AS at, {of_runs} FROM {due} WHERE {_known(dialect, 'kinds.')}",
        # Of one time: in the order of its index.
        f"SELECT 0 AS at, {columns} FROM runs{queued} WHERE tenant = ? AND {turn_has_come('runs')} AND {movable} "
        f"ORDER BY {_QUEUED} LIMIT ?{locked}",
    ]


@cache
def _next(dialect: SqlDialect) -> str:
    movable, queued = _movable(dialect), dialect.by.format("runs_queued")
    first = (
        f"SELECT each.due FROM runs AS each{dialect.by.format('runs_due')} WHERE each.tenant = ? AND {_OF_KIND} "
        f"AND each.due IS NOT NULL AND holder IS NULL AND {movable} ORDER BY each.due LIMIT 1"
    )
    return (
        f"{_kinds(dialect)} SELECT min(at) FROM (SELECT * FROM (SELECT held_until AS at FROM runs WHERE tenant = ? "
        f"AND held_until IS NOT NULL AND {movable} ORDER BY held_until LIMIT 1) AS held UNION ALL "
        f"SELECT ({first}) AS at FROM kinds WHERE {_known(dialect, 'kinds.')} UNION ALL SELECT * FROM (SELECT 0 AS at "
        f"FROM runs{queued} WHERE tenant = ? AND {turn_has_come('runs')} AND {movable} LIMIT 1) AS turn) AS found"
    )


def _kinds(dialect: SqlDialect) -> str:
    """Step from kind to kind over the index of what wants a look, of one tenant."""
    kind, by = "priority, agent, needs", dialect.by.format("runs_due")
    of_it = "each.tenant = ? AND each.due IS NOT NULL"
    step = dialect.each.format("kinds", f"{of_it} AND {next_kind('kinds', kind)} ORDER BY {_BY_KIND}", "", by=by)
    return (
        f"WITH RECURSIVE kinds({kind}) AS (SELECT * FROM (SELECT {kind} FROM runs AS each{by} WHERE {of_it} "
        f"ORDER BY {_BY_KIND}) AS first UNION ALL SELECT runs.priority, runs.agent, runs.needs FROM {step})"
    )


def _known(dialect: SqlDialect, of: str = "") -> str:
    """Select the kinds that a `ClaimFilter` may admit; logs that are no runs have no agent."""
    any_agent, named = f"{dialect.any_name} IS NULL", dialect.among.format(f"{of}agent")
    return f"{of}needs <= ? AND ({any_agent} OR {named} OR {of}agent = '')"


@cache
def _movable(dialect: SqlDialect) -> str:
    """Select runs that have a name, were begun and are not erased, and that a `ClaimFilter` admits."""
    named = f" AND {dialect.text.format('run')}" if dialect.text else ""
    agents = f"({dialect.any_name} IS NULL OR {dialect.among.format('agent')} OR substr(run, 1, 1) = '{RESERVED}')"
    admitted = f"needs <= ? AND {agents} AND NOT {dialect.among.format('run')}"
    return f"{BEGUN}{named} AND {admitted}"
