"""The journal in PostgreSQL, shared by many workers; time and leases are the database's.

Through `psycopg`. A transaction runs under READ COMMITTED, said at each one, whatever the server's default; rows are
locked in the order of the batch and a deadlock is tried again. A commit whose answer got lost is looked up, never
repeated.
"""

from __future__ import annotations

import asyncio
import json
import re
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any, Self

from ..core.errors import StorageError, StorageFull, UserError
from . import statements as say
from .commit_effects import merged
from .generation import Origin, begin, is_unsettled_template, read_meta, settle_template
from .postgres_listener import CHANNEL, PostgresListener, connected
from .session_sql import give_places
from .sql_journal import SQLJournal
from .store_thread import BatchFailed, StoreThread
from .tally_sql import add
from .waiters import Waiters

_AGAIN = {"40001", "40P01", "55P03"}
_FULL = {"53100", "53200"}
# A server that became a standby, or that its provider made read-only, stays so for a connection that it has.
_READ_ONLY = "25006"
# Another server, another timeline of it (a standby that was promoted, a restore to a point in time), another database.
_PLACE = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)
_WORD = r"(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
_URL = re.compile(rf"postgres(?:ql)?://(?:{_WORD}(?::{_WORD})?@)?[\w.,:\[\]%-]*(?:/{_WORD})?(?:\?[^#@\s]*)?", re.ASCII)
# How far the server's own log has come: a copy of its disk that is put back is behind.
_REACHED = b"SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
# Whoever makes or begins a store does so while nobody else does.
_ALONE = "SELECT pg_advisory_xact_lock(hashtext('keyturn.schema'))"
# What `NOTIFY` carries is short; a name that is longer wakes everybody.
_PAYLOAD = 7_000


class PostgresJournal(SQLJournal):
    """Stores runs in a PostgreSQL database; `url` is as psycopg takes it.

    `clock` is for tests: time is the database's.

    The tables are made in the schema that the connection's `search_path` names, or by an administrator before.
    """

    def __init__(self, url: str, *, clock: Callable[[], int] | None = None, tenant: str = "default") -> None:
        if find_spec("psycopg") is None:
            raise UserError("a PostgreSQL journal needs psycopg: pip install 'keyturn[postgres]'")
        bell, own = Waiters(), set[int]()

        def connect() -> PostgresConnection:
            return PostgresConnection(url, clock)

        def writing() -> PostgresConnection:
            made = connect()
            own.clear()
            own.add(made.process)
            made.origin = origin
            origin.look(made)  # whatever the connection was lost for, it may have been promoted meanwhile
            return made

        def after(results: list[Any]) -> None:
            bell.ring(merged(results).wakes)

        origin = prepare(url)
        self._listener = PostgresListener(url, bell, own)
        writer = StoreThread("keyturn-postgres-writer", writing, judge, after)
        reader = StoreThread("keyturn-postgres-reader", connect, judge, writes=False)
        super().__init__(say.POSTGRES, (writer, reader), bell, tenant, origin)
        weakref.finalize(self, self._listener.stop)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the journal of a URL such as `postgresql://ann@db.example/keyturn`."""
        return cls(url)

    async def listening(self) -> None:
        if not self._listener.hears:
            await asyncio.get_running_loop().run_in_executor(None, self._listener.begin)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._listener.close)
        await super().close()


# A lock that is held by a stopped process, or by an operator, is an error and no standstill.
_BOUND_LOCKS = "SELECT set_config('lock_timeout', %s, false) WHERE current_setting('lock_timeout') = '0'"
_OPENING_SECONDS = 60


class PostgresConnection:
    """Wraps one connection, in the one thread that uses it."""

    def __init__(self, url: str, clock: Callable[[], int] | None, lock_seconds: int = 10) -> None:
        self._clock = clock
        self._db = connected(url, prepare_threshold=2)
        self._db.execute(_BOUND_LOCKS, (f"{lock_seconds}s",))
        # For what gives no rows: to make a cursor costs as much as to use one.
        self._telling = self._db.cursor()
        self._said: dict[str, Any] = {}
        self.told = 0
        self._told_before = 0
        self._firm = True
        self.waits = True
        self.origin: Origin | None = None
        self._ahead: dict[tuple[str, str], list[Any] | None] = {}
        self.process: int = self._db.info.backend_pid
        # Inside a transaction what gives no rows is sent along with what follows, and not waited for.
        self._sending: ExitStack | None = None
        self._pipeline: Any = None

    def execute(self, sql: str, *values: Any) -> list[Any]:
        cursor = self._db.execute(self._in_dialect(sql), values or None)
        if self._pipeline is not None:
            self._pipeline.sync()
        return cursor.fetchall() if cursor.description is not None else []

    def tell(self, sql: str, *values: Any) -> None:
        self.told += 1
        self._telling.execute(self._in_dialect(sql), values or None, prepare=None if values else False)

    def _in_dialect(self, sql: str) -> bytes:
        said = self._said.get(sql)
        if said is None:
            said = self._said[sql] = say.POSTGRES.said(sql).encode()
        return said

    def known(self, tenant: str, run: str) -> list[Any]:
        if (tenant, run) not in self._ahead:
            return self.execute(say.POSTGRES.head, tenant, run)
        ahead = self._ahead.pop((tenant, run))  # used once: whoever comes next asks for what has become of it
        return [] if ahead is None else [ahead]

    def begin(self, firm: bool = True, runs: list[tuple[str, str]] | None = None) -> None:
        self._firm = firm
        self._sending = ExitStack()
        self._pipeline = self._sending.enter_context(self._db.pipeline())
        self.tell("BEGIN ISOLATION LEVEL READ COMMITTED")
        if not firm:
            self.tell("SET LOCAL synchronous_commit = off")
        self._told_before = self.told
        self._ahead = {}
        if runs:  # all in one go, and locked in one order everywhere
            locked = self._db.execute(self._in_dialect(say.HEADS), [list(names) for names in zip(*runs, strict=True)])
            # Read once they are locked: who waited for a lock may have waited for the store to be moved.
            noted = self._db.execute(self._in_dialect(say.META), (100,)) if self.origin is not None else None
            self._pipeline.sync()
            self._ahead = dict.fromkeys(runs) | {(tenant, run): head for tenant, run, *head in locked.fetchall()}
            if self.origin is not None and noted is not None:
                self.origin.glance(noted.fetchall(), self)

    def whole(self, do: Callable[[PostgresConnection], None]) -> None:
        """Run a function in a transaction, each statement answered before the next."""
        with self._db.transaction():
            do(self)

    def _sent(self) -> None:
        """Wait for the answers of everything that was sent."""
        sending = self._sending
        self._sending = None
        self._pipeline = None
        self._ahead = {}
        if sending is not None:
            sending.close()

    def commit(self, results: list[Any]) -> None:
        effects = merged(results)
        give_places(self, say.POSTGRES, effects.placed)
        add(self, effects.tallies)
        if effects.wakes:
            told = {payload if len(payload) < _PAYLOAD else "" for payload in map(json.dumps, set(effects.wakes))}
            self.tell("SELECT pg_notify(?, told) FROM unnest(?::text[]) AS told", CHANNEL, list(told))
        mark = None if self.origin is None else self.origin.mark
        counts = mark is not None and self._firm and self.told != self._told_before
        asked = self._db.execute(_REACHED) if counts else None
        self.tell("COMMIT")
        self._sent()
        if mark is not None and asked is not None:
            mark.reached(_number(asked.fetchone()))

    def rollback(self) -> None:
        from psycopg.pq import TransactionStatus

        with suppress(Exception):  # why is known already
            self._sent()
        if self._db.info.transaction_status != TransactionStatus.IDLE:
            self._db.execute(b"ROLLBACK")

    def now(self, said: int | None = None) -> int:
        if self._clock is not None:
            return self._clock()
        return int(self.execute(f"SELECT {say.POSTGRES.time}")[0][0] if said is None else said)

    def place(self) -> str | None:
        import psycopg

        try:
            with self._db.transaction():
                found: Any = self._db.execute(_PLACE).fetchone()
            return "/".join(map(str, found))
        except psycopg.Error:  # a server that does not tell: what it was promoted or restored from cannot be noticed
            return None

    def check_place(self) -> None:
        return None

    def damage(self) -> list[str]:
        return []  # the server looks after its own pages

    def reached(self) -> int | None:
        """Return how much the server wrote to its WAL; it is less where its disk was put back."""
        import psycopg

        try:
            with self._db.transaction():
                return _number(self._db.execute(_REACHED).fetchone())
        except psycopg.Error:
            return 0

    def close(self) -> None:
        with suppress(Exception):  # whoever drops a connection in the middle knows why
            self._sent()
        self._db.close()


def _number(row: Any) -> int:
    return row[0] if row is not None and isinstance(row[0], int) else 0


def prepare(url: str) -> Origin:
    """Migrate the schema to the newest version, each version whole or not at all, whoever comes first."""
    import psycopg

    try:
        db = PostgresConnection(url, None, _OPENING_SECONDS)
        try:
            _check_encoding(db)
            if not _is_current(db):
                db.whole(_migrate)
            origin = Origin(db.place() or "")
            if is_unsettled_template(db, origin):
                db.whole(lambda db: _settle_template(db, origin))
            origin.look(db)
            read_meta(db).check_whole()
        finally:
            db.close()
        return origin
    except psycopg.Error as error:
        if _plain_url(url) or getattr(error, "sqlstate", None) is not None:
            raise StorageError(f"the PostgreSQL journal cannot be opened: {error}") from error
        # What libpq cannot read it quotes, and a password that is not escaped is part of that.
        raise StorageError(
            "the PostgreSQL journal cannot be opened, and why is left out, since a part of the password may be in it: "
            "write postgresql://user:password@host:port/database, and percent-encode what is special in the password"
        ) from None


def _settle_template(db: PostgresConnection, origin: Origin) -> None:
    db.execute(_ALONE)
    settle_template(db, origin)


def _check_encoding(db: PostgresConnection) -> None:
    [(encoding,)] = db.execute("SHOW server_encoding")
    if encoding != "UTF8":
        raise StorageError(f"the database has the encoding {encoding}, and a journal needs UTF8: create another one")


def _is_current(db: PostgresConnection) -> bool:
    """Return whether the schema is this very version: such a database is only read to open it."""
    if not _is_made(db):
        return False
    return db.execute("SELECT max(version) FROM keyturn_schema") == [(say.SCHEMA,)]


def _is_made(db: PostgresConnection) -> bool:
    """Return whether the schema was begun.

    That a name is free the server may remember from before it waited for a lock; to read a catalog makes it look again.
    """
    return bool(db.execute("SELECT oid FROM pg_class WHERE oid = to_regclass('keyturn_schema')"))


def _migrate(db: PostgresConnection) -> None:
    db.execute(_ALONE)
    if not _is_made(db):
        # a role that may not create uses what an administrator made
        db.execute("CREATE TABLE keyturn_schema (version BIGINT NOT NULL)")
    [(found,)] = db.execute("SELECT max(version) FROM keyturn_schema")
    version = found or 0
    if version > say.SCHEMA:
        raise StorageError(f"the database was written by a newer Keyturn (schema {version}); upgrade to open it")
    if 0 < version < say.FIRST:
        raise StorageError(
            f"the database was written by an older format (schema {version}), which this Keyturn does not read; "
            "finish its runs with the Keyturn that wrote it"
        )
    for statements in say.migrations(say.POSTGRES)[max(version - say.FIRST + 1, 0) :]:
        for statement in statements:
            db.execute(statement)
    if version < say.SCHEMA:
        db.execute("INSERT INTO keyturn_schema (version) VALUES (?)", say.SCHEMA)
    if version == 0:
        begin(db)


def _plain_url(url: str) -> bool:
    """Return whether no part of the password can be taken for something else."""
    return _URL.fullmatch(url) is not None


def judge(error: BaseException) -> BatchFailed:
    """Convert an error of PostgreSQL to what it means for the job."""
    import psycopg

    state = getattr(error, "sqlstate", None)
    if state in _AGAIN:
        return BatchFailed(StorageError(f"the journal's database was too busy: {error}"), again=True)
    if state in _FULL:
        return BatchFailed(StorageFull("there is no room left in the journal's database; make room and resume"))
    if state == _READ_ONLY:
        return BatchFailed(StorageError(f"the journal's database is read-only: {error}"), drop=True)
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return BatchFailed(StorageError(f"the journal's database cannot be reached: {error}"), unknown=True)
    if isinstance(error, psycopg.Error):
        return BatchFailed(StorageError(f"the journal's database refused: {error}"))
    return BatchFailed(error)
