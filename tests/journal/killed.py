"""Run by tests as a process of its own: it forks, and each child is killed at the K-th statement of what it does.

    python killed.py migrate|append URL [EACH]

With EACH = 4 it is each fourth statement alone.

After each kill it looks, without opening a journal, at what the store holds, and prints one line of JSON for each K.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg

from keyturn.journal import open_journal
from keyturn.journal.postgres import prepare as prepare_postgres
from keyturn.journal.rows import Changes, GrantRow, RequestRow, RunRow
from keyturn.journal.sqlite import SQLiteConnection
from keyturn.journal.sqlite import prepare as prepare_sqlite

TABLES = ("deliveries", "events", "grants", "outbox", "requests", "runs")
ROW = RequestRow("q", "run", "r/1.0", "approval", "pay", "desk", "d", 5)
CHANGES = Changes(RunRow("run", "desk", "waiting", 5, 5), [ROW], grants=[GrantRow("g", "run", "pay", "desk")])


def counted(at: int) -> None:
    """Have this process killed at its `at`-th statement."""
    left = [at]

    def count(function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(self: Any, *values: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(self, *values, **named)

        return counting

    for name in ("execute", "begin", "commit"):
        setattr(SQLiteConnection, name, count(getattr(SQLiteConnection, name)))
    psycopg.Connection.execute = count(psycopg.Connection.execute)  # type: ignore[method-assign]  # a test's trace


def killed(at: int, do: Callable[[], Any]) -> bool:
    """Do something in a child that is killed at its `at`-th statement; False where it came to its end."""
    child = os.fork()
    if child == 0:
        counted(at)
        do()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


async def append(url: str) -> None:
    journal: Any = open_journal(url)
    await journal.append("run", 0, [b"1"], None, CHANGES)
    await journal.close()


def prepare(url: str) -> None:
    if url.startswith("sqlite"):
        prepare_sqlite(path_of(url))
    else:
        prepare_postgres(url)


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def rows(url: str, statement: str) -> list[Any]:
    """What a statement finds, asked by a connection that is none of ours."""
    if url.startswith("sqlite"):
        db = apsw.Connection(str(path_of(url)))
        try:
            return db.execute(statement).fetchall()
        finally:
            db.close()
    with psycopg.connect(url, autocommit=True) as postgres:
        return postgres.execute(statement.encode()).fetchall()


def tables(url: str) -> list[str]:
    if url.startswith("sqlite"):
        found = rows(url, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    else:
        found = rows(url, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")
    return sorted(name for (name,) in found if name in TABLES)


def held(url: str) -> list[int]:
    """How many lines, requests, grants and heads there are."""
    counts = [rows(url, f"SELECT count(*) FROM {table}")[0][0] for table in ("events", "requests", "grants")]
    return [*counts, sum(head for (head,) in rows(url, "SELECT head FROM runs"))]


def cleared(url: str) -> None:
    """An empty store again."""
    if url.startswith("sqlite"):
        for end in ("", "-wal", "-shm"):
            Path(str(path_of(url)) + end).unlink(missing_ok=True)
        return
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(b"DROP SCHEMA public CASCADE")
        db.execute(b"CREATE SCHEMA public")


def main(what: str, url: str, each: str = "1") -> None:
    for at in range(1, 200, int(each)):
        cleared(url)
        if what == "append":
            prepare(url)
        dead = killed(at, (lambda: asyncio.run(append(url))) if what == "append" else (lambda: prepare(url)))
        found: Any = tables(url) if what == "migrate" else held(url)
        if what == "migrate":
            prepare(url)
        print(json.dumps([at, dead, found, tables(url)]))
        if not dead:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
