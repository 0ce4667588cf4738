"""The SQL statements of the journals, in one text for both dialects, so that neither drifts from the other.

Values are always passed beside a statement, never put into it. A question mark is a value's place; a dialect that
writes it otherwise changes it once, here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.json import encode

from ..core.priorities import NORMAL
from .base import RESERVED
from .optional import WATCHED
from .rows import COUNTED_FROM, EDGES, ENDED

# The first version that this Keyturn reads, and the newest.
FIRST = 2
_ENDED = ", ".join(f"'{status}'" for status in ENDED)
SCHEMA = 13


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """Holds where the two databases differ in SQL."""

    blob: str
    counter: str
    compact: str
    locked: str
    mark: str
    # The database's time, where it has one: asked along with other things.
    time: str
    # Whether a column holds what it was declared as, and text is UTF-8, where the database does not see to that itself.
    whole: str
    text: str
    # The day that it is, in days since 1970.
    today: str
    # Lets one writer at a time give places on a session, where the database has several writers.
    alone: str
    # Lets nobody begin to write to a run until the transaction ends, where the database has several writers.
    still: str
    # Locks the rows that are found, without those that another has locked, where the database locks rows.
    skipping: str
    # Joins a table of names to the first rows of runs for each of its rows, by what holds of these.
    each: str
    # Selects what is among the rows of a query, each looked up by its key.
    within: str
    # Names the index to go by, where the database has no statistics by which to choose one.
    by: str
    # A list of names that is given as one value, and whether a column is among them.
    any_name: str
    among: str
    listed: Callable[[tuple[str, ...]], Any]

    @property
    def head(self) -> str:
        """Select where a log ends, who holds its run, and the time, for whoever is about to change that."""
        return f"SELECT {HEAD_COLUMNS}, {self.time} FROM runs WHERE tenant = ? AND run = ?{self.locked}"

    def said(self, statement: str) -> str:
        """Return a statement in this dialect."""
        return statement if self.mark == "?" else statement.replace("?", self.mark)


SQLITE = SqlDialect(
    *("BLOB", "INTEGER PRIMARY KEY AUTOINCREMENT", " WITHOUT ROWID", "", "?", "0"),
    whole="typeof({}) = 'integer'",
    # Most names are ASCII, which is decided without a call; a NUL would end the comparison early.
    text="typeof({0}) = 'text' AND instr(CAST({0} AS BLOB), x'00') = 0 "
    "AND ({0} NOT GLOB '*[^ -~]*' OR keyturn_text(CAST({0} AS BLOB)))",
    today="CAST(strftime('%s', 'now') AS INTEGER) / 86400",
    alone="",
    still="",
    skipping="",
    each="{0} CROSS JOIN runs ON (runs.tenant, runs.run) IN "
    "(SELECT each.tenant, each.run FROM runs AS each{by} WHERE {1})",
    within="{} IN ({})",
    by=" INDEXED BY {}",
    any_name="?",
    among="EXISTS (SELECT 1 FROM json_each(?) WHERE value = {})",
    listed=lambda names: encode(names).decode(),
)
POSTGRES = SqlDialect(
    *("BYTEA", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "", " FOR UPDATE", "%s"),
    time="(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    whole="",
    text="",
    today="floor(extract(epoch FROM clock_timestamp()) / 86400)::bigint",
    alone="SELECT pg_advisory_xact_lock(hashtextextended(?, 6))",
    still="LOCK TABLE runs, meta IN EXCLUSIVE MODE",
    skipping=" FOR UPDATE SKIP LOCKED",
    each="{0} CROSS JOIN LATERAL (SELECT each.* FROM runs AS each WHERE {1}{2}) AS runs",
    within="{} = ANY(ARRAY({}))",
    by="",
    any_name="?::text[]",
    among="{} = ANY(?::text[])",
    listed=list,
)


def migrations(dialect: SqlDialect) -> list[list[str]]:
    """Return the statements of each version of the schema from `FIRST` on; a released one is never changed."""
    begun = [_first(dialect), _WIDER_GRANTS, _deliveries(dialect), _tallies(dialect), _SESSIONS, _TAKERS, _SHAPES]
    return [*begun, _SENT, _NEEDS, _PRIORITY, [*_covering(dialect), *_KINDS], _QUEUES]


def _first(dialect: SqlDialect) -> list[str]:
    blob, compact = dialect.blob, dialect.compact
    return [
        "CREATE TABLE runs (tenant TEXT NOT NULL, run TEXT NOT NULL, head BIGINT NOT NULL DEFAULT 0, "
        "epoch BIGINT NOT NULL DEFAULT 0, holder TEXT, held_until BIGINT, due BIGINT, "
        "agent TEXT NOT NULL DEFAULT '', status TEXT NOT NULL DEFAULT '', started_at BIGINT NOT NULL DEFAULT 0, "
        "updated_at BIGINT NOT NULL DEFAULT 0, waiting BIGINT NOT NULL DEFAULT 0, turns BIGINT NOT NULL DEFAULT 0, "
        "workflow TEXT NOT NULL DEFAULT '', error TEXT NOT NULL DEFAULT '', seal TEXT NOT NULL DEFAULT '', "
        f"PRIMARY KEY (tenant, run)){compact}",
        "CREATE INDEX runs_held ON runs (tenant, held_until) WHERE held_until IS NOT NULL",
        "CREATE INDEX runs_due ON runs (tenant, due) WHERE due IS NOT NULL",
        "CREATE INDEX runs_started ON runs (tenant, started_at, run)",
        f"CREATE TABLE events (tenant TEXT NOT NULL, run TEXT NOT NULL, seq BIGINT NOT NULL, line {blob} NOT NULL, "
        "PRIMARY KEY (tenant, run, seq))",
        "CREATE TABLE requests (tenant TEXT NOT NULL, id TEXT NOT NULL, run TEXT NOT NULL, call TEXT NOT NULL, "
        "kind TEXT NOT NULL, tool TEXT NOT NULL, agent TEXT NOT NULL, digest TEXT NOT NULL, asked_at BIGINT NOT NULL, "
        "expires_at BIGINT, reason TEXT NOT NULL, risk TEXT NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, "
        "closed_at BIGINT, closed_by TEXT NOT NULL, seal TEXT NOT NULL, PRIMARY KEY (tenant, id))",
        "CREATE INDEX requests_open ON requests (tenant, asked_at, id) WHERE state = 'open'",
        "CREATE INDEX requests_asked ON requests (tenant, asked_at, id)",
        "CREATE INDEX requests_run ON requests (tenant, run)",
        "CREATE TABLE grants (tenant TEXT NOT NULL, run TEXT NOT NULL, id TEXT NOT NULL, tool TEXT NOT NULL, "
        "agent TEXT NOT NULL, body TEXT NOT NULL, uses BIGINT NOT NULL, revoked BIGINT NOT NULL, seal TEXT NOT NULL, "
        f"PRIMARY KEY (tenant, run, id)){compact}",
        f"CREATE TABLE outbox (number {dialect.counter}, tenant TEXT NOT NULL, run TEXT NOT NULL, "
        "topic TEXT NOT NULL, about TEXT NOT NULL)",
        "CREATE INDEX outbox_tenant ON outbox (tenant, number)",
        f"CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL){compact}",
    ]


_WIDER_GRANTS = [
    "ALTER TABLE grants ADD COLUMN reach TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX grants_reach ON grants (tenant, reach, agent) WHERE reach <> ''",
]


def _deliveries(dialect: SqlDialect) -> list[str]:
    return [
        f"CREATE TABLE deliveries (number {dialect.counter}, tenant TEXT NOT NULL, channel TEXT NOT NULL, "
        "person TEXT NOT NULL, topic TEXT NOT NULL, run TEXT NOT NULL, subject TEXT NOT NULL, about TEXT NOT NULL, "
        "notice BIGINT NOT NULL, due_at BIGINT NOT NULL, delay BIGINT NOT NULL, attempts BIGINT NOT NULL, "
        "state TEXT NOT NULL, error TEXT NOT NULL)",
        "CREATE INDEX deliveries_due ON deliveries (tenant, channel, due_at, number) WHERE state <> 'dead'",
        "CREATE INDEX deliveries_subject ON deliveries (tenant, subject, channel, person, number)",
        "CREATE INDEX deliveries_state ON deliveries (tenant, state, number)",
    ]


TALLY_NAMES = ("what", "tool", "agent", "kind", "risk", "person")
TALLY_NUMBERS = ("count", "ms", *(f"t{place}" for place in range(len(EDGES) + 1)))


def _tallies(dialect: SqlDialect) -> list[str]:
    names = ", ".join(f"{name} TEXT NOT NULL DEFAULT ''" for name in TALLY_NAMES)
    numbers = ", ".join(f"{name} BIGINT NOT NULL DEFAULT 0" for name in TALLY_NUMBERS)
    return [
        # The names are looked for by their digest: they may be longer than an index takes.
        f"CREATE TABLE tallies (tenant TEXT NOT NULL, day BIGINT NOT NULL, name TEXT NOT NULL, {names}, {numbers}, "
        f"PRIMARY KEY (tenant, day, name)){dialect.compact}",
        "INSERT INTO tallies (tenant, day, name, what, ms) "
        f"SELECT DISTINCT tenant, 0, '{COUNTED_FROM}', '{COUNTED_FROM}', {dialect.today} FROM runs",
        # A page of open requests by any one filter, in order, without a look at those that do not fit.
        "DROP INDEX requests_run",
        "CREATE INDEX requests_of_run ON requests (tenant, run, asked_at, id)",
        *(
            f"CREATE INDEX requests_open_{each} ON requests (tenant, {each}, asked_at, id) WHERE state = 'open'"
            for each in ("tool", "agent", "kind")
        ),
    ]


_SESSIONS = [
    "ALTER TABLE runs ADD COLUMN session TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN place BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX runs_session ON runs (tenant, session, place) WHERE session <> ''",
    "CREATE INDEX runs_queued ON runs (tenant, run) WHERE status = 'queued'",
]

_TAKERS = [
    "ALTER TABLE runs ADD COLUMN takers BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX runs_set_aside ON runs (tenant, started_at, run) WHERE status = 'set_aside'",
]

_SHAPES = [
    "ALTER TABLE requests ADD COLUMN shape TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX requests_open_shape ON requests (tenant, shape, asked_at, id) WHERE state = 'open' AND shape <> ''",
    # What was asked before there was the column, which its seal does not cover, is open for a while and then gone.
    "CREATE INDEX requests_open_unshaped ON requests (tenant, kind, tool, asked_at, id) "
    "WHERE state = 'open' AND shape = ''",
]

# What was sent is kept, and is in no index of what is to be done.
_SENT = [
    "ALTER TABLE deliveries ADD COLUMN sent_at BIGINT NOT NULL DEFAULT 0",
    "DROP INDEX deliveries_due",
    "CREATE INDEX deliveries_due ON deliveries (tenant, channel, due_at, number) "
    "WHERE state <> 'dead' AND state <> 'sent'",
    "CREATE INDEX deliveries_left ON deliveries (tenant, number) WHERE state <> 'sent'",
]

# What a worker needs to move a run is in the index by which runs are found that are due: its agent, and the format.
_NEEDS = [
    "ALTER TABLE runs ADD COLUMN needs BIGINT NOT NULL DEFAULT 0",
    "DROP INDEX runs_due",
    "CREATE INDEX runs_due ON runs (tenant, due, agent, needs) WHERE due IS NOT NULL",
]

# A run that was started before, or by a Keyturn that knows no priorities, has the normal one.
_PRIORITY = [
    f"ALTER TABLE runs ADD COLUMN priority BIGINT NOT NULL DEFAULT {NORMAL}",
    "DROP INDEX runs_due",
    "CREATE INDEX runs_due ON runs (tenant, priority, due, agent, needs) WHERE due IS NOT NULL",
    "DROP INDEX runs_queued",
    "CREATE INDEX runs_queued ON runs (tenant, priority, run) WHERE status = 'queued'",
]

# What is due is found kind by kind: those of one priority, agent and format follow each other.
_KINDS = [
    "DROP INDEX runs_due",
    "CREATE INDEX runs_due ON runs (tenant, priority, agent, needs, due) WHERE due IS NOT NULL",
]

# Whose turn has come is found session by session: the first that is queued on each.
_QUEUES = [
    "DROP INDEX runs_queued",
    "CREATE INDEX runs_queued ON runs (tenant, session, place, run) WHERE status = 'queued'",
]


def _covering(dialect: SqlDialect) -> list[str]:
    """Let one index of open requests serve every filter where an index is named: each index is a page of each commit.

    A filter that nothing fits reads the index from end to end, 15 ms for 100,000 open requests.
    """
    if not dialect.by:
        return []
    return [
        "DROP INDEX requests_open",
        *(f"DROP INDEX requests_open_{each}" for each in ("tool", "agent", "kind")),
        "CREATE INDEX requests_open ON requests (tenant, asked_at, id, tool, agent, kind) WHERE state = 'open'",
    ]


RUN_COLUMNS = "run, agent, status, started_at, updated_at, waiting, turns, workflow, error"
REQUEST_COLUMNS = (
    "id, run, call, kind, tool, agent, digest, asked_at, expires_at, reason, risk, body, state, closed_at, closed_by, "
    "shape"
)
GRANT_COLUMNS = "id, run, tool, agent, body, reach, uses, revoked"
HEAD_COLUMNS = "head, epoch, holder, held_until, due, status, started_at, session, takers, priority"
HEAD = f"SELECT {HEAD_COLUMNS} FROM runs WHERE tenant = ? AND run = ?"
# PostgreSQL's, for a whole batch.
HEADS = (
    f"SELECT tenant, run, {HEAD_COLUMNS}, {POSTGRES.time} FROM runs WHERE (tenant, run) IN "
    "(SELECT * FROM unnest(?::text[], ?::text[])) ORDER BY tenant, run FOR UPDATE"
)
NEW_RUN = "INSERT INTO runs (tenant, run) VALUES (?, ?) ON CONFLICT (tenant, run) DO NOTHING"
ADD_LINE = "INSERT INTO events (tenant, run, seq, line) VALUES (?, ?, ?, ?)"
# `takers` counts claims since a holder wrote a line or released the run: what others append leaves it as it is.
APPENDED = "UPDATE runs SET head = ?, due = ?, takers = takers * ? WHERE tenant = ? AND run = ?"
# In one statement, so that the count and the lines are of one moment.
LINES = (
    "SELECT runs.head, runs.status, events.seq, events.line FROM runs LEFT JOIN events ON events.tenant = runs.tenant "
    "AND events.run = runs.run AND events.seq >= ? WHERE runs.tenant = ? AND runs.run = ? ORDER BY events.seq"
)
SOME_LINES = LINES.replace("events.seq >= ?", "events.seq >= ? AND events.seq < ?")
LINE_AT = "SELECT line FROM events WHERE tenant = ? AND run = ? AND seq = ?"
ALL_LINES = "SELECT seq, line FROM events WHERE tenant = ? AND run = ? ORDER BY seq"
TAKEN = (
    "UPDATE runs SET epoch = ?, holder = ?, held_until = ?, due = NULL, takers = takers + 1 "
    "WHERE tenant = ? AND run = ?"
)
RENEWED = "UPDATE runs SET held_until = ? WHERE tenant = ? AND run = ?"
RELEASED = "UPDATE runs SET holder = NULL, held_until = NULL, due = ?, takers = ? WHERE tenant = ? AND run = ?"
# How many runs are held, of a tenant and of all; what is no run is not counted.
HELD_RUNS = (
    "SELECT coalesce(sum(CASE WHEN tenant = ? THEN 1 ELSE 0 END), 0), count(*) FROM runs "
    f"WHERE held_until > ? AND substr(run, 1, 1) <> '{RESERVED}'"
)
# What a worker holds that died.
HOLDERS = "SELECT DISTINCT holder FROM runs WHERE tenant = ? AND held_until IS NOT NULL"
HOLDERS_OF_TENANTS = "SELECT DISTINCT tenant, holder FROM runs WHERE held_until IS NOT NULL"
_WITHOUT_LOCK = (
    f" AND right(holder, {len(WATCHED)}) = '{WATCHED}' AND NOT EXISTS (SELECT FROM pg_locks WHERE "
    "locktype = 'advisory' AND objsubid = 2 AND classid::bigint = ? AND objid::bigint = (hashtext(holder)::bigint & "
    "4294967295) AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)
HOLDERS_WITHOUT_LOCK = HOLDERS + _WITHOUT_LOCK
HOLDERS_OF_TENANTS_WITHOUT_LOCK = HOLDERS_OF_TENANTS + _WITHOUT_LOCK
OVER_FOR = "UPDATE runs SET held_until = ? WHERE tenant = ? AND holder = ? AND held_until > ?"
# Of all tenants, where a store was restored.
END_CLAIMS = (
    "UPDATE runs SET epoch = epoch + 1, holder = NULL, held_until = NULL, due = coalesce(due, ?), takers = 0 "
    "WHERE holder IS NOT NULL"
)
# The same with what is known of the run since.
MOVED = (
    "UPDATE runs SET head = ?, due = ?, takers = takers * ?, agent = ?, status = ?, updated_at = ?, waiting = ?, "
    "turns = ?, workflow = ?, error = ?, needs = ?, seal = ? WHERE tenant = ? AND run = ?"
)
# The last of those on its session; within a transaction that nobody else gives places in.
PLACED = (
    "UPDATE runs SET session = ?, place = 1 + (SELECT coalesce(max(others.place), 0) FROM runs AS others "
    "WHERE others.tenant = ? AND others.session = ? AND others.session <> '') "
    "WHERE tenant = ? AND run = ? AND session = ''"
)
GONE = "UPDATE runs SET session = '', place = 0 WHERE tenant = ? AND run = ?"
AHEAD = (
    "SELECT others.run FROM runs AS mine JOIN runs AS others ON others.tenant = mine.tenant "
    "AND others.session = mine.session AND others.session <> '' AND others.place < mine.place "
    f"WHERE mine.tenant = ? AND mine.run = ? AND (others.status NOT IN ({_ENDED}) OR others.held_until > ?) "
    "ORDER BY others.place, others.run LIMIT 100"
)
# Apart, because an index is written whenever one of its columns is named.
STARTED = "UPDATE runs SET started_at = ?, priority = ? WHERE tenant = ? AND run = ?"
REQUEST = f"SELECT {REQUEST_COLUMNS}, seal FROM requests WHERE tenant = ? AND id = ?"
CLOSE = "UPDATE requests SET state = ?, closed_at = ?, closed_by = ?, seal = ? WHERE tenant = ? AND id = ?"
OPEN = (
    f"INSERT INTO requests (tenant, {REQUEST_COLUMNS}, seal) VALUES ({', '.join('?' * 18)}) "
    "ON CONFLICT (tenant, id) DO UPDATE SET run = excluded.run, call = excluded.call, kind = excluded.kind, "
    "tool = excluded.tool, agent = excluded.agent, digest = excluded.digest, asked_at = excluded.asked_at, "
    "expires_at = excluded.expires_at, reason = excluded.reason, risk = excluded.risk, body = excluded.body, "
    "state = excluded.state, closed_at = excluded.closed_at, closed_by = excluded.closed_by, shape = excluded.shape, "
    "seal = excluded.seal"
)
GRANT_OF = f"SELECT {GRANT_COLUMNS}, seal FROM grants WHERE tenant = ? AND run = ? AND id = ?"
GRANT = (
    "INSERT INTO grants (tenant, run, id, tool, agent, body, reach, uses, revoked, seal) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (tenant, run, id) DO UPDATE SET tool = excluded.tool, agent = excluded.agent, body = excluded.body, "
    "reach = excluded.reach, uses = excluded.uses, revoked = excluded.revoked, seal = excluded.seal"
)
ERASE_LINE = "UPDATE events SET line = ? WHERE tenant = ? AND run = ? AND seq = ?"
RUN = f"SELECT {RUN_COLUMNS}, seal FROM runs WHERE tenant = ? AND run = ?"
ERASED = (
    "UPDATE runs SET agent = ?, status = ?, updated_at = ?, waiting = ?, turns = ?, workflow = ?, error = ?, seal = ?, "
    "due = NULL, holder = NULL, held_until = NULL WHERE tenant = ? AND run = ?"
)
ERASE = (
    "DELETE FROM requests WHERE tenant = ? AND run = ?",
    "DELETE FROM grants WHERE tenant = ? AND run = ?",
    "DELETE FROM outbox WHERE tenant = ? AND run = ?",
    "DELETE FROM deliveries WHERE tenant = ? AND run = ?",
)
# A run whose row cannot be read is looked at again after some time, and lets others be looked at meanwhile.
SHELVE = "UPDATE runs SET holder = NULL, held_until = NULL, due = ? WHERE tenant = ? AND run = ?"
TENANTS = (
    "SELECT tenant FROM (SELECT tenant FROM runs UNION SELECT tenant FROM events UNION SELECT tenant FROM requests) "
    "AS found ORDER BY tenant LIMIT ?"
)
# Every run of which there is anything: a row that was altered or taken away does not hide what else there is.
NAMES = (
    "SELECT run FROM (SELECT run FROM runs WHERE tenant = ? UNION SELECT run FROM events WHERE tenant = ? "
    "UNION SELECT run FROM requests WHERE tenant = ?) AS found ORDER BY run LIMIT ?"
)
META = (
    "SELECT name, value FROM meta WHERE name IN ('id', 'generation', 'restored', 'place', 'moved', 'filling', 'seal') "
    "ORDER BY name LIMIT ?"
)
COUNT = "SELECT name, value FROM meta WHERE name IN ('id', 'count') ORDER BY name LIMIT ?"
# Where it is still what it was when it was last read or written here, in the same store.
COUNT_ON = (
    "UPDATE meta SET value = ? WHERE name = 'count' AND value = ? AND (SELECT value FROM meta WHERE name = 'id') = ?"
)
SET_META = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
DROP_META = "DELETE FROM meta WHERE name = ?"
# Whether a store holds anything at all.
ANY = tuple(
    f"SELECT 1 FROM {table} LIMIT 1"
    for table in ("runs", "events", "requests", "grants", "outbox", "deliveries", "tallies")
)
