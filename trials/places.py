"""Where trials happen: folders in memory where there is such, SQLite files, schemas and tenants of a PostgreSQL.

A place is new to whoever asks for one. All of it is gone afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing.postgres import throwaway_postgres

from .faulty_wire import Wire, url
from .lives import IN_MEMORY, MEMORY, Place

#: Names the socket of a PostgreSQL and an empty database of it, for trials that do not start a server of their own.
SERVER = "KEYTURN_TRIALS_POSTGRES"


@dataclass
class Places:
    """Scratch space, an empty store to copy, and the socket and a database of a PostgreSQL if there is one."""

    scratch: Path
    socket: Path | None = None
    database: str = "postgres"
    _count: int = 0

    def new(self, store: str, *, fresh: bool = False) -> Place:
        """A new place. One that is not fresh has an empty store already."""
        self._count += 1
        name = f"t{os.getpid()}x{self._count}"
        folder = self.scratch / name
        folder.mkdir()
        if store == "memory":
            return Place(folder, MEMORY)
        if store == "sqlite":
            if not fresh:
                shutil.copy(self.scratch / "empty.db", folder / "runs.db")
            return Place(folder)
        if fresh:
            with psycopg.connect(self.url(), autocommit=True) as db:
                db.execute(f"CREATE SCHEMA {name}".encode())
        return Place(folder, self.url(name if fresh else "public"), name)

    def url(self, schema: str = "public") -> str:
        """The database, straight."""
        assert self.socket is not None
        folder, port = self.socket.parent, self.socket.name.rpartition(".")[2]
        return f"postgresql://postgres@/{self.database}?host={folder}&port={port}&options=-csearch_path%3D{schema}"

    def wired(self, place: Place, wire: Wire) -> Place:
        """The same place through a wire."""
        return replace(place, url=url(self.database, wire.port, options=f"-csearch_path%3D{_schema(place)}"))

    def clear(self, place: Place) -> None:
        """Forget a place."""
        shutil.rmtree(place.folder)
        IN_MEMORY.pop(place.folder, None)
        if _schema(place) not in ("", "public", MEMORY):
            with psycopg.connect(self.url(), autocommit=True) as db:
                db.execute("SET lock_timeout = '10s'")
                db.execute(f"DROP SCHEMA {_schema(place)} CASCADE".encode())

    def of(self, worker: int) -> Places:
        """A part of it for one worker."""
        scratch = self.scratch / f"worker-{worker}"
        scratch.mkdir()
        shutil.copy(self.scratch / "empty.db", scratch)
        return Places(scratch, self.socket, self.database)


def _schema(place: Place) -> str:
    return place.url.rpartition("%3D")[2]


@contextlib.contextmanager
def places(stores: list[str]) -> Generator[Places]:
    """Places for as long as the block lasts; a PostgreSQL is started if one of the stores is that."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # so that all of it is gone then, too
    memory = Path("/dev/shm")
    with contextlib.ExitStack() as stack:
        where = tempfile.mkdtemp(prefix="keyturn-trial-", dir=memory if memory.is_dir() else None)
        stack.callback(shutil.rmtree, where, ignore_errors=True)
        os.environ["XDG_RUNTIME_DIR"] = where  # where doorbells are: thousands of stores leave thousands of them
        made = Places(Path(where))
        if "postgresql" in stores and SERVER in os.environ:
            socket, made.database = os.environ[SERVER].split()
            made.socket = Path(socket)
        elif "postgresql" in stores:
            server = stack.enter_context(throwaway_postgres())
            sockets = server.directory.glob(".s.PGSQL.*")
            made.socket = next(path for path in sockets if not path.name.endswith(".lock"))
        asyncio.run(_prepared(made))
        yield made


async def _prepared(made: Places) -> None:
    await SQLiteJournal(made.scratch / "empty.db").close()
    if made.socket is not None:
        await PostgresJournal(made.url()).close()
