"""A session in a SQLite file, with the standard library and nothing else.

One connection per object, one lock per connection, one transaction per write. A file may hold many
sessions and be written by many processes; work on a file happens in a thread, so that another
writer's lock never stops the event loop. The tables are laid out like those that OpenAI's Agents
SDK writes, so that a file moves between the two. No knowledge here of what the items mean.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import Sealed
from ..support.sqlite_files import APPLICATION, OpenFile, refused_session
from .base import SESSION_RULES, SessionABC, SessionSettings
from .encoding import encoded

T = TypeVar("T")

BUSY_SECONDS = 30.0
# SQLite 3.7.0 to 3.51.2 can corrupt a WAL file that two connections write and checkpoint at once
# (https://sqlite.org/wal.html#walresetbug), which a server and a worker on one file do. Interpreters ship old
# libraries for years; the rollback journal they get here is slower and does not lose conversations.
WAL_IS_SAFE_FROM = (3, 51, 3)

# A name is pasted into SQL, so it is an identifier or it is refused; quoting alone would leave SQLite's own
# names (sqlite_...) and names that differ in case only.
_IDENTIFIER = re.compile(r"(?!sqlite_)[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII | re.IGNORECASE)


# sqlite3 is imported in `_open`, since a run without such a session should not pay for it; until then a connection
# is known by what it can do.


class _Cursor(Protocol):
    """The part of a DB-API cursor that is used here."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class _Connection(Protocol):
    """The part of a DB-API connection that is used here."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Sequence[object] = ..., /) -> _Cursor: ...

    def executemany(self, sql: str, parameters: Sequence[Sequence[object]], /) -> object: ...

    def close(self) -> None: ...


class SQLiteSession(SessionABC, Sealed):
    """Stores a conversation in a SQLite file; by default in memory, where it is gone after `close()`.

    >>> import asyncio
    >>> session = SQLiteSession("ada")
    >>> asyncio.run(session.add_items([{"role": "user", "content": "hello"}]))
    >>> asyncio.run(session.pop_item())
    {'role': 'user', 'content': 'hello'}
    >>> session.close()
    """

    _rules = SESSION_RULES

    def __init__(
        self,
        session_id: str,
        db_path: str | os.PathLike[str] = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self.db_path = os.fspath(db_path)
        self.sessions_table = _identifier(sessions_table)
        self.messages_table = _identifier(messages_table)
        if sessions_table.lower() == messages_table.lower():
            raise UserError(f"sessions and messages cannot share the table {messages_table!r}: give them two names")
        self._lock = threading.Lock()
        self._connection: _Connection | None = None
        self._held: OpenFile | None = None
        self._closed = False

    async def get_items(self, limit: int | None = None) -> list[Item]:
        wanted = self.session_settings.window(limit)
        query = f'SELECT id, message_data FROM "{self.messages_table}" WHERE session_id = ? ORDER BY id DESC LIMIT ?'

        def read(connection: _Connection) -> list[Item]:
            rows = connection.execute(query, (self.session_id, -1 if wanted is None else wanted)).fetchall()
            return [self._decode(row) for row in reversed(rows)]

        return await self._do(read)

    async def add_items(self, items: list[Item]) -> None:
        # Encoded here and not in the thread: the caller may go on to edit its dicts as soon as it may run again.
        rows = [(self.session_id, text) for text in encoded(items)]
        if not rows:
            return

        def append(connection: _Connection) -> None:
            with _transaction(connection):
                connection.execute(
                    f'INSERT OR IGNORE INTO "{self.sessions_table}" (session_id) VALUES (?)', (self.session_id,)
                )
                connection.executemany(
                    f'INSERT INTO "{self.messages_table}" (session_id, message_data) VALUES (?, ?)', rows
                )
                connection.execute(
                    f'UPDATE "{self.sessions_table}" SET updated_at = CURRENT_TIMESTAMP WHERE session_id = ?',
                    (self.session_id,),
                )

        await self._do(append)

    async def pop_item(self) -> Item | None:
        newest = f'SELECT id, message_data FROM "{self.messages_table}" WHERE session_id = ? ORDER BY id DESC LIMIT 1'

        def take(connection: _Connection) -> Item | None:
            with _transaction(connection):
                row = connection.execute(newest, (self.session_id,)).fetchone()
                if row is None:
                    return None
                # Not decoded first: a row that is not JSON can still be popped away, though not read.
                connection.execute(f'DELETE FROM "{self.messages_table}" WHERE id = ?', (row[0],))
            return self._decode(row)

        return await self._do(take)

    async def clear_session(self) -> None:
        def clear(connection: _Connection) -> None:
            with _transaction(connection):
                for table in (self.messages_table, self.sessions_table):
                    connection.execute(f'DELETE FROM "{table}" WHERE session_id = ?', (self.session_id,))

        await self._do(clear)

    def close(self) -> None:
        """Close the file after the current work; using the session afterwards is an error."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if self._held is not None:
                self._held.close()
                self._held = None

    async def _do(self, work: Callable[[_Connection], T]) -> T:
        # A database in memory has no other writer to wait for, and a thread costs more than the work.
        if self.db_path == ":memory:":
            return self._locked(work)
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[_Connection], T]) -> T:
        with self._lock:
            if self._closed:
                raise UserError(f"session {self.session_id!r} was closed: make a new SQLiteSession on its file")
            if self._connection is None:
                self._connection = self._open()
            return work(self._connection)

    def _open(self) -> _Connection:
        import sqlite3

        if os.path.exists(self.db_path):  # before it is opened: closing it again would drop a journal's locks
            OpenFile(self.db_path, "session").close()
        try:
            connection = sqlite3.connect(
                self.db_path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        except sqlite3.OperationalError as error:
            remedy = "its directory must exist and this process must be allowed to write there"
            raise UserError(f"the session file {self.db_path!r} cannot be opened ({error}): {remedy}") from error
        try:
            if connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,):
                raise refused_session(self.db_path)
            if sqlite3.sqlite_version_info >= WAL_IS_SAFE_FROM:
                # SQLite answers "busy" here without waiting when another process is at the same switch. Its switch
                # holds for the file, and until then the rollback journal is as correct, only slower.
                with suppress(sqlite3.OperationalError):
                    connection.execute("PRAGMA journal_mode = WAL")
            self._create_tables(connection)
            if os.path.exists(self.db_path):
                self._held = OpenFile(self.db_path, "session")
                weakref.finalize(self, self._held.close)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create_tables(self, connection: _Connection) -> None:
        index = f"ix_{self.messages_table}_session_id"
        names = (self.sessions_table, self.messages_table, index)
        found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name IN (?, ?, ?)", names).fetchone()
        if found[0] == len(names):  # the usual case, which must not ask for the write lock
            return
        with _transaction(connection):
            connection.execute(
                f'CREATE TABLE IF NOT EXISTS "{self.sessions_table}" (session_id TEXT PRIMARY KEY, '
                "created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
            )
            connection.execute(
                f'CREATE TABLE IF NOT EXISTS "{self.messages_table}" (id INTEGER PRIMARY KEY AUTOINCREMENT, '
                "session_id TEXT NOT NULL, message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)"
            )
            connection.execute(f'CREATE INDEX IF NOT EXISTS "{index}" ON "{self.messages_table}" (session_id, id)')

    def _decode(self, row: tuple[int, str]) -> Item:
        try:
            return json.loads(row[1])
        except ValueError as error:
            # Skipping it would hand the model a history with a hole, and perhaps a call without its output.
            raise UserError(
                f"row {row[0]} of {self.messages_table} in {self.db_path!r} is not JSON ({error}): "
                "restore the file, or delete that row"
            ) from error


def _identifier(name: str) -> str:
    if not _IDENTIFIER.fullmatch(name):
        raise UserError(f"{name!r} is not a table name: use letters, digits and underscores, without sqlite_ in front")
    return name


@contextmanager
def _transaction(connection: _Connection) -> Generator[None]:
    # IMMEDIATE takes the write lock at once: a transaction that begins as a reader and then writes is told "busy"
    # without the busy timeout.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk rolls back by itself
            connection.execute("ROLLBACK")
        raise
