"""Stores as earlier versions left them: what a schema added is taken back, and rows are sealed as they were."""

from __future__ import annotations

import json
from typing import Any

import apsw
import psycopg
from msgspec.structs import replace

from keyturn.journal.rows import RequestRow
from keyturn.journal.sealing import seal_row

#: Takes back what schema 12 changed in a file; PostgreSQL's indexes are as they were.
_BY_COLUMN = (
    "DROP INDEX requests_open",
    "CREATE INDEX requests_open ON requests (tenant, asked_at, id) WHERE state = 'open'",
    *(
        f"CREATE INDEX requests_open_{each} ON requests (tenant, {each}, asked_at, id) WHERE state = 'open'"
        for each in ("tool", "agent", "kind")
    ),
)
#: Takes back what schema 11 added.
WITHOUT_PRIORITIES = (
    *(f"DROP INDEX runs_{each}" for each in ("due", "queued")),
    "CREATE INDEX runs_due ON runs (tenant, due, agent, needs) WHERE due IS NOT NULL",
    "CREATE INDEX runs_queued ON runs (tenant, run) WHERE status = 'queued'",
    "ALTER TABLE runs DROP COLUMN priority",
)
#: Takes back what schemas 10 and 11 added.
WITHOUT_NEEDS = (
    *WITHOUT_PRIORITIES,
    "DROP INDEX runs_due",
    "CREATE INDEX runs_due ON runs (tenant, due) WHERE due IS NOT NULL",
    "ALTER TABLE runs DROP COLUMN needs",
)
#: Takes back what schemas 8 to 11 added.
WITHOUT_SHAPES = (
    *WITHOUT_NEEDS,
    *(f"DROP INDEX deliveries_{each}" for each in ("due", "left")),
    "CREATE INDEX deliveries_due ON deliveries (tenant, channel, due_at, number) WHERE state <> 'dead'",
    "ALTER TABLE deliveries DROP COLUMN sent_at",
    *(f"DROP INDEX requests_open_{each}" for each in ("shape", "unshaped")),
    "ALTER TABLE requests DROP COLUMN shape",
)
_REWRITE = "UPDATE requests SET shape = '', body = ?, seal = ? WHERE id = ?"


def as_it_was(row: RequestRow) -> RequestRow:
    """A row as it was before schema 8: its shape is in its body, and under its seal."""
    return replace(row, shape="", body=json.dumps(json.loads(row.body) | {"shape": row.shape}))


async def rewrite(store: Any) -> None:
    """Write every request as it was before schema 8."""
    for row in await store.requests():
        old = as_it_was(row)
        values = (old.body, seal_row(store.keys(), "default", old), old.id)
        await store.write(lambda db, values=values: db.tell(_REWRITE, *values))


def altered(url: str, *statements: str, version: int | None = None) -> None:
    """Do this to a store behind its back; with a version it is one of that schema, which is 11 or before."""
    if url.startswith("sqlite"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        before, noted = ((), ()) if version is None else (_BY_COLUMN, (f"PRAGMA user_version = {version}",))
        for statement in (*before, *statements, *noted):
            db.execute(statement)
        db.close()
        return
    noted = [] if version is None else [f"UPDATE keyturn_schema SET version = {version}"]
    with psycopg.connect(url, autocommit=True) as db:
        for statement in [*statements, *noted]:
            db.execute(statement.encode())
