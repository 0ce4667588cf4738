"""Find the runs of a tenant that are due in a database, and claim them: by priority, and then by how long they are due.

Due are expired claims, claims that end too far ahead, and what wants a look. However many are due, as many rows are
read as are asked for: each part follows an index and has a limit of its own. Only expired claims may be sorted. What
wants a look is of a few kinds (priority, agent, log format). A statement steps from kind to kind and reads the first
rows of those that a worker can move: due runs of agents that no worker has cost what one of each costs. Of those that
are queued on a session the first alone may be due: however many are behind it, they cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
_BY_KIND = "each.priority, each.agent, each.needs, each.due LIMIT 1"
_NOTHING = {"tenant": "''", "agent": "''", "session": "''"}
_OF_KIND = "each.priority = kinds.priority AND each.agent = kinds.agent AND each.needs = kinds.needs"


def due(db: StoreConnection, dialect: SqlDialect, tenant: str, limit: int, only: ClaimFilter) -> list[DueRun]:
    """Return runs that are due, in the order in which they are claimed."""
    now = db.now()
    return _named(db.execute(_selected(dialect, _IN_TURN), *_values(dialect, tenant, now, limit, only)), now)


def overdue(db: StoreConnection, dialect: SqlDialect, tenant: str, limit: int, only: ClaimFilter) -> list[DueRun]:
    """Return runs that are due, those first that have been so for longest, whatever their priority.

    Of each kind its share of the page is read, then more of those whose whole share is on the page, and nothing that is
    due for a shorter time than all of it: however many kinds there are, little more is read than the page.
    """
    now = until = db.now()
    [(kinds,)] = db.execute(_counted(dialect), tenant, tenant, *_known_values(dialect, only))
    share = -(-limit // max(int(kinds), 1)) if isinstance(kinds, int) else limit
    while True:
        values = _values(dialect, tenant, now, limit, only, (until, share))
        found = db.execute(_selected(dialect, _OLDEST), *values)
        of_each = Counter(tuple(kind) for _, _, *kind in found)
        if share >= limit or max(of_each.values(), default=0) < share:
            return _named(found, now)
        until = min(until, found[-1][0]) if len(found) == limit else until  # a claim may end far ahead
        share = min(4 * share, limit)


def _named(found: Sequence[Any], now: int) -> list[DueRun]:
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
    steps = [tenant] * 4
    [(first,)] = db.execute(_next(dialect), *steps, *part, *part, *known, tenant, *part) or [(None,)]
    return int(first) if isinstance(first, int) else None


def _values(
    dialect: SqlDialect,
    tenant: str,
    now: int,
    limit: int,
    only: ClaimFilter,
    of_kind: tuple[int, int] | None = None,
) -> list[Any]:
    """Return the values of the places in `_kinds`, `_heads` and `_parts`, and the limit of all.

    `of_kind` is until when what is due of a kind is read, and how many of it: until now, and as many as of all.
    """
    until, share = of_kind or (now, limit)
    movable = _values_of(dialect, only)
    times = ((now, limit), (now + LONGEST_MS, limit), (until, share))
    timed = (value for time, most in times for value in (tenant, time, *movable, most))
    return [*[tenant] * 4, *timed, *_known_values(dialect, only), tenant, tenant, *movable, limit, limit]


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


def next_kind(kinds: str, columns: str, last: str = "due") -> str:
    """Select the rows of `each` that come after all of a kind, which has these columns, by an index that ends with one.

    SQLite reads from the first row that is as great, not greater, and only as far as it knows that the types are the
    same, which those of a computed value are: so the time is named, of which only a planted row has a greater one.
    """
    first, *others = columns.split(", ")
    of_kind = ", ".join([f"{kinds}.{first}", *(_computed(kinds, name) for name in others)])
    rest = ", ".join(f"each.{name}" for name in others)
    by_index = f"(each.{first}, {rest}, each.{last}) > ({of_kind}, {(1 << 63) - 1})"
    return f"{by_index} AND ({_computed('each', first)}, {rest}) > ({of_kind})"


def _computed(table: str, column: str) -> str:
    return f"coalesce({table}.{column}, {_NOTHING.get(column, '0')})"


@cache
def _selected(dialect: SqlDialect, order: str) -> str:
    """Select what is due; what is no name is left out here and not of the page: planted rows starve no others."""
    columns = "run, agent, needs, priority"
    found = (f"SELECT * FROM ({each}) AS part{n}" for n, each in enumerate(_parts(dialect, columns, order)))
    union = " UNION ALL ".join(found)
    return f"{_kinds(dialect)}, {_heads(dialect)} SELECT at, {columns} FROM ({union}) AS found ORDER BY {order} LIMIT ?"


@cache
def _locked(dialect: SqlDialect) -> str:
    """Select the same for whoever claims them, and lock them; what another is about to claim is skipped."""
    found = _parts(dialect, f"run, {HEAD_COLUMNS}", _IN_TURN, dialect.skipping)
    parts = [f"part{n} AS ({each})" for n, each in enumerate(found)]
    union = " UNION ALL ".join(f"SELECT * FROM part{n}" for n in range(len(parts)))
    page = f"SELECT *, {dialect.time} FROM ({union}) AS found ORDER BY {_IN_TURN} LIMIT ?"
    return f"{_kinds(dialect)}, {_heads(dialect)}, {', '.join(parts)} {page}"


def _parts(dialect: SqlDialect, columns: str, order: str, locked: str = "") -> list[str]:
    movable = _movable(dialect)
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
        f"SELECT 0 AS at, {columns} FROM runs WHERE {_come(dialect)} ORDER BY priority, run LIMIT ?{locked}",
    ]


@cache
def _next(dialect: SqlDialect) -> str:
    movable = _movable(dialect)
    first = (
        f"SELECT each.due FROM runs AS each{dialect.by.format('runs_due')} WHERE each.tenant = ? AND {_OF_KIND} "
        f"AND each.due IS NOT NULL AND holder IS NULL AND {movable} ORDER BY each.due LIMIT 1"
    )
    return (
        f"{_kinds(dialect)}, {_heads(dialect)} SELECT min(at) FROM (SELECT * FROM (SELECT held_until AS at FROM runs "
        f"WHERE tenant = ? AND held_until IS NOT NULL AND {movable} ORDER BY held_until LIMIT 1) AS held UNION ALL "
        f"SELECT ({first}) AS at FROM kinds WHERE {_known(dialect, 'kinds.')} UNION ALL SELECT * FROM (SELECT 0 AS at "
        f"FROM runs WHERE {_come(dialect)} LIMIT 1) AS turn) AS found"
    )


@cache
def _counted(dialect: SqlDialect) -> str:
    return f"{_kinds(dialect)} SELECT count(*) FROM kinds WHERE {_known(dialect)}"


def _kinds(dialect: SqlDialect) -> str:
    """Step from kind to kind over the index of what wants a look, of one tenant."""
    kind, by = "priority, agent, needs", dialect.by.format("runs_due")
    of_it = "each.tenant = ? AND each.due IS NOT NULL"
    step = dialect.each.format("kinds", f"{of_it} AND {next_kind('kinds', kind)} ORDER BY {_BY_KIND}", "", by=by)
    return (
        f"WITH RECURSIVE kinds({kind}) AS (SELECT * FROM (SELECT {kind} FROM runs AS each{by} WHERE {of_it} "
        f"ORDER BY {_BY_KIND}) AS first UNION ALL SELECT runs.priority, runs.agent, runs.needs FROM {step})"
    )


def _heads(dialect: SqlDialect) -> str:
    """Step from session to session over the index of what is queued, of one tenant, to the first run of each."""
    by, of_it = dialect.by.format("runs_queued"), "each.tenant = ? AND each.status = 'queued'"
    after = f"{of_it} AND each.session > heads.session ORDER BY each.session, each.place LIMIT 1"
    return (
        f"heads(session, run) AS (SELECT * FROM (SELECT each.session, each.run FROM runs AS each{by} WHERE {of_it} "
        "ORDER BY each.session, each.place LIMIT 1) AS first UNION ALL SELECT runs.session, runs.run FROM "
        f"{dialect.each.format('heads', after, '', by=by)})"
    )


def _come(dialect: SqlDialect) -> str:
    """Select the runs of one tenant whose turn has come, by the heads; those without a session wait for nobody."""
    alone = f"SELECT run FROM runs AS each{dialect.by.format('runs_queued')} WHERE each.tenant = ? AND session = ''"
    heads = dialect.within.format("run", f"SELECT run FROM heads UNION ALL {alone} AND status = 'queued'")
    return f"tenant = ? AND {heads} AND {turn_has_come('runs')} AND {_movable(dialect)}"


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
