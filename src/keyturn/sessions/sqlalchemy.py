"""A session in a SQL database by SQLAlchemy: SQLite through aiosqlite, PostgreSQL through psycopg or asyncpg.

The tables are those that OpenAI's Agents SDK writes, so that a database moves between the two. Each write is one
transaction that first takes the session's row: batches stay whole, and ids grow in the order in which they are seen.
SQLAlchemy is imported when the first such session is made. No knowledge here of what the items mean.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ..core.errors import UserError
from ..core.items import Item
from ..core.settable import Sealed
from ..sqlite_files import APPLICATION, OpenFile, refused_session
from .base import SESSION_RULES, SessionABC, SessionSettings
from .encoding import decoded, encoded
from .sqlalchemy_statements import statements

T = TypeVar("T")

BUSY_SECONDS = 30.0
# What a plain address means; the driver that SQLAlchemy would choose for it by itself blocks the event loop.
_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
# Others at the same database may be making the same tables, one by one.
_CREATING_TRIES = 4

# What is known of an engine belongs to it, not to one of the many sessions that use it.
_turns: WeakKeyDictionary[Any, asyncio.Lock] = WeakKeyDictionary()
_created: WeakKeyDictionary[Any, set[tuple[str, str]]] = WeakKeyDictionary()
_files: WeakKeyDictionary[Any, OpenFile] = WeakKeyDictionary()


class SQLAlchemySession(SessionABC, Sealed):
    """Stores a conversation in your database: give it your `AsyncEngine`, or a `url` from which it makes one.

    The tables are made at first use if you ask with `create_tables=True`; otherwise they are in your migrations. One
    engine serves many sessions; one that was made from a `url` belongs to its session and ends with `close()`.

    >>> import asyncio
    >>> async def example():
    ...     session = SQLAlchemySession.from_url("ada", url="sqlite://", create_tables=True)
    ...     await session.add_items([{"role": "user", "content": "hello"}])
    ...     items = await session.get_items()
    ...     await session.close()
    ...     return items
    >>> asyncio.run(example())
    [{'role': 'user', 'content': 'hello'}]
    """

    _rules = SESSION_RULES

    def __init__(
        self,
        session_id: str,
        *,
        engine: Any = None,
        url: Any = None,
        create_tables: bool = False,
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: SessionSettings | None = None,
    ) -> None:
        if (engine is None) == (url is None):
            raise UserError("SQLAlchemySession needs your engine= or a url= to make one from, and not both")
        if sessions_table == messages_table:
            raise UserError(f"sessions and messages cannot share the table {messages_table!r}: give them two names")
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self.engine = _engine(url) if engine is None else engine
        self._owned = engine is None
        self._names = (sessions_table, messages_table)
        self._sql = statements(_dialect(self.engine), *self._names)
        self._create_tables = create_tables

    @classmethod
    def from_url(
        cls, session_id: str, *, url: object, engine_kwargs: dict[str, Any] | None = None, **options: Any
    ) -> SQLAlchemySession:
        """Make a session with an engine of its own.

        `options` are those of the session, `engine_kwargs` the engine's.

        >>> SQLAlchemySession.from_url("ada", url="sqlite:///chats.db").engine.url.drivername
        'sqlite+aiosqlite'
        """
        session = cls(session_id, engine=_engine(url, **(engine_kwargs or {})), **options)
        session._owned = True
        return session

    async def get_items(self, limit: int | None = None) -> list[Item]:
        wanted = self.session_settings.window(limit)
        query = self._sql.all if wanted is None else self._sql.newest.limit(wanted)

        async def read(connection: Any) -> Any:
            return (await self._say(connection, query)).all()

        rows = await self._do(read)
        return [self._item(row) for row in (rows if wanted is None else reversed(rows))]

    async def add_items(self, items: list[Item]) -> None:
        rows = [{"session_id": self.session_id, "message_data": text} for text in encoded(items)]
        if not rows:
            return

        async def append(connection: Any) -> None:
            await self._say(connection, *self._sql.enter)
            await connection.execute(self._sql.append, rows)

        await self._do(append)

    async def pop_item(self) -> Item | None:
        async def take(connection: object) -> Any:
            return (await self._say(connection, *self._sql.take, self._sql.pop)).one_or_none()

        row = await self._do(take)
        # Decoded afterwards: a row that is not JSON can be popped away, though not read.
        return None if row is None else self._item(row)

    async def clear_session(self) -> None:
        async def clear(connection: object) -> None:
            await self._say(connection, *self._sql.take, self._sql.clear, self._sql.leave)

        await self._do(clear)

    async def close(self) -> None:
        """Close the engine if it was made here; your own stays open."""
        if self._owned:
            await self.engine.dispose()

    async def _say(self, connection: Any, *statements: Any) -> Any:
        """Execute the statements and return what the last of them answers."""
        answers = [await connection.execute(statement, {"session": self.session_id}) for statement in statements]
        return answers[-1]

    async def _do(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Do the work in a transaction, which is committed where nothing is raised."""
        from sqlalchemy.exc import DBAPIError

        if self._create_tables and self._names not in _created.setdefault(self.engine.sync_engine, set()):
            await self._create()
        try:
            return await _transaction(self.engine, work)
        except DBAPIError as error:
            if not self._create_tables and await self._missing():
                raise UserError(
                    f"the database has no table {self._names[0]!r} or {self._names[1]!r}: pass create_tables=True, "
                    "or make them in a migration"
                ) from error
            raise

    async def _create(self) -> None:
        from sqlalchemy.exc import DBAPIError

        for left in reversed(range(_CREATING_TRIES)):
            try:
                await _transaction(self.engine, lambda connection: connection.run_sync(self._sql.metadata.create_all))
                break
            except DBAPIError:
                # Each of several processes finds the tables missing, and all but one are told that they exist.
                if not left or await self._missing() is None:
                    raise
        _created[self.engine.sync_engine].add(self._names)

    async def _missing(self) -> bool | None:
        """Return whether one of the tables is missing; None where the database cannot be asked."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import DBAPIError

        def look(connection: object) -> bool:
            known: Any = inspect(connection)
            return not all(known.has_table(name) for name in self._names)

        try:
            return await _transaction(self.engine, lambda connection: connection.run_sync(look))
        except DBAPIError:
            return None

    def _item(self, row: Any) -> Item:
        return decoded(row.message_data, f"row {row.id} of {self._names[1]}")


def _engine(url: Any, **options: Any) -> Any:
    try:
        from sqlalchemy import make_url
        from sqlalchemy.ext.asyncio import create_async_engine

        address = make_url(url)
        address = address.set(drivername=_DRIVERS.get(address.drivername, address.drivername))
        if address.get_backend_name() == "sqlite":
            options = {**options, "connect_args": {"timeout": BUSY_SECONDS, **options.get("connect_args", {})}}
        return create_async_engine(address, **options)
    except ModuleNotFoundError as error:
        raise UserError(
            f"this session needs the package {error.name!r}: pip install 'keyturn[sqlalchemy]', "
            "and for PostgreSQL 'keyturn[sqlalchemy,postgres]'"
        ) from error


def _dialect(engine: Any) -> str:
    if not hasattr(engine, "sync_engine"):
        raise UserError("engine= must be an AsyncEngine: make it with sqlalchemy.ext.asyncio.create_async_engine")
    return engine.dialect.name


async def _transaction(engine: Any, work: Callable[[Any], Awaitable[T]]) -> T:
    async def within() -> T:
        async with engine.begin() as connection:
            return await work(connection)

    if engine.dialect.name != "sqlite":
        return await within()
    await _check_file(engine)
    # SQLAlchemy drops a connection whose transaction is cancelled: a database in memory is gone with it, and a file
    # stays locked until somebody collects it. So what has begun is brought to its end.
    async with _turn(engine):
        task = asyncio.create_task(within())
        try:
            return await asyncio.shield(task)
        finally:
            await _ended(task)


async def _check_file(engine: Any) -> None:
    """Refuse the file of a journal, which drivers of the interpreter's SQLite would destroy."""
    path = engine.url.database
    if engine.sync_engine in _files or not path or not os.path.exists(path):
        return
    held = OpenFile(path, "session")  # first, because opening the file and closing it again drops a journal's locks
    try:
        async with engine.connect() as connection:
            if (await connection.exec_driver_sql("PRAGMA application_id")).scalar() == APPLICATION:
                raise refused_session(path)
    except BaseException:
        held.close()
        raise
    weakref.finalize(engine.sync_engine, held.close)
    _files[engine.sync_engine] = held


async def _ended(task: asyncio.Task[Any]) -> None:
    """Wait for a task to end, however often the one who waits is cancelled."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])


def _turn(engine: Any) -> Any:
    """Wait for the other transactions where an engine has one connection for everybody (SQLite in memory)."""
    from sqlalchemy.pool import StaticPool

    if not isinstance(engine.pool, StaticPool):
        return nullcontext()
    return _turns.setdefault(engine.sync_engine, asyncio.Lock())
