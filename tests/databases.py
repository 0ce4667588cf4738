"""Empty PostgreSQL databases for tests: one that a test gave back is emptied and given out under another name.

To make a database copies hundreds of files. What a test set for a database stays with it, so that one with settings,
rights, schemas or an encoding of its own is dropped. No test is here.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from keyturn.testing.postgres import PostgresMissing, throwaway_postgres

_AS_IT_WAS_MADE = """
SELECT d.datacl IS NULL AND (d.encoding, d.datcollate, d.datctype) = (t.encoding, t.datcollate, t.datctype)
  AND NOT EXISTS (SELECT FROM pg_db_role_setting s WHERE s.setdatabase = d.oid)
FROM pg_database d, pg_database t WHERE d.datname = %s AND t.datname = 'template1'
"""
_NOTHING_ELSE = """
SELECT NOT EXISTS (SELECT FROM pg_namespace WHERE nspname !~ '^pg_|^public$|^information_schema$')
  AND NOT EXISTS (SELECT FROM pg_extension WHERE extname <> 'plpgsql')
  AND NOT EXISTS (SELECT FROM pg_largeobject_metadata)
"""


#: The server that was started before this process was forked; None where each process starts its own.
_SHARED: list[str | None] = []


def are_used_by(items: Iterable[pytest.Item]) -> bool:
    """Return whether a test needs the server."""
    named = {name for item in items for name in getattr(item, "fixturenames", ())}
    given = (getattr(getattr(item, "callspec", None), "params", {}) for item in items)
    return not named.isdisjoint({"postgres_server", "new_database"}) or any("postgresql" in p.values() for p in given)


@contextmanager
def shared() -> Generator[None]:
    """Share a server with all processes that are forked in the block: to make and to start one takes two seconds."""
    with server() as url:
        _SHARED.append(url)
        yield
        if "KEYTURN_COSTS" in os.environ:
            costs: Any = importlib.import_module("tests.costs")
            costs.note_servers()


@contextmanager
def server() -> Generator[str | None]:
    """Yield the URL of a PostgreSQL, where there is one to start."""
    if _SHARED:
        yield _SHARED[0]
        return
    try:
        with throwaway_postgres() as started:
            with psycopg.connect(started.url, autocommit=True) as db:
                db.execute("ALTER SYSTEM SET autovacuum = off")  # it goes round all the databases there are
                db.execute("SELECT pg_reload_conf()")
            yield started.url
    except PostgresMissing:
        yield None


class Databases:
    """Makes and empties the databases of one server, over a connection to its first one."""

    def __init__(self, server: str, door: psycopg.Connection[Any]) -> None:
        self._base, self._door = server.rpartition("/")[0] + "/", door
        self._spare: list[str] = []
        # Without fsync, to copy the files of a database is quicker than to write all of it to the log.
        self._recent = door.info.server_version >= 150_000  # before, the schema `public` was made with other rights
        self._how = "STRATEGY FILE_COPY" if self._recent else ""

    def new(self) -> str:
        """Return the URL of an empty database, whose name no test had before."""
        if self._spare:
            return self._base + self._spare.pop()
        name = _unused()
        self._door.execute(f"CREATE DATABASE {name} {self._how}".encode())
        return self._base + name

    def give_back(self, url: str) -> None:
        """Empty a database, or drop it: hundreds of them are gigabytes, and a server that stops for a minute.

        It has another name first, by which whoever had it open does not find it again.
        """
        name = url.rpartition("/")[2]
        if self._recent and self._holds(_AS_IT_WAS_MADE, name) and (renamed := self._renamed(name)):
            if self._emptied(self._base + renamed):
                self._spare.append(renamed)
                return
            name = renamed
        self._door.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    def _renamed(self, name: str) -> str | None:
        """Return its new name, or None where somebody opens it again and again."""
        to = _unused()
        self._door.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            self._door.execute(f"ALTER DATABASE {name} RENAME TO {to}".encode())
        except psycopg.errors.ObjectInUse:
            return None
        return to

    def _holds(self, question: str, *given: Any) -> bool:
        row = self._door.execute(question.encode(), given).fetchone()
        return row is not None and bool(row[0])

    def _emptied(self, url: str) -> bool:
        with psycopg.connect(url, autocommit=True) as db:
            row = db.execute(_NOTHING_ELSE.encode()).fetchone()
            if row is None or not row[0]:
                return False
            db.execute("DROP SCHEMA IF EXISTS public CASCADE")
            db.execute("CREATE SCHEMA public AUTHORIZATION pg_database_owner")
            db.execute("GRANT USAGE ON SCHEMA public TO PUBLIC")
        return True


def _unused() -> str:
    return f"s{uuid4().hex[:12]}"
