"""The journal in PostgreSQL, shared by many workers; time and leases are the database's.

Through `psycopg`. A transaction runs under READ COMMITTED, said at each one, whatever the server's default; rows are
locked in the order of the batch and a deadlock is tried again. A commit whose answer got lost is looked up, never
repeated.
"""

from __future__ import annotations

import asyncio
import json
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any, Self

from ..core.errors import StorageError, StorageFull, UserError
from ..support.pooled_urls import pooled_url, why_unopened
from . import statements as say
from .base import ClaimFilter
from .commit_effects import merged, waking
from .generation import Origin, is_unsettled_template, read_meta
from .optional import DueClaims, WorkerRow
from .postgres_listener import CHANNEL, PRESENT, PostgresListener, connected
from .postgres_schema import check_encoding, is_current, migrate, settle_once
from .sealing import check_name
from .session_sql import give_places
from .sql_journal import SQLJournal
from .store_thread import BatchFailed, StoreConnection, StoreThread
from .tally_sql import add
from .waiters import AT_MOST, POOLED_AT_MOST, Waiters
from .worker_rows import HELD_OR_PRESENT, rows_of_locks

_AGAIN = {"40001", "40P01", "55P03"}
_FULL = {"53100", "53200"}
# A server that became a standby, or that its provider made read-only, stays so for a connection that it has.
_READ_ONLY = "25006"
# Another server, another timeline of it (a standby that was promoted, a restore to a point in time), another database.
_PLACE = (
    "SELECT (SELECT system_identifier FROM pg_control_system()), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), "
    "(SELECT oid FROM pg_database WHERE datname = current_database())"
)
# How far the server's own log has come: a copy of its disk that is put back is behind.
_REACHED = b"SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint"
_NOTIFY = b"SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, told) FROM unnest(%s::text[]) AS told"
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
        given, (url, pooled) = url, pooled_url(url)

        def connect() -> PostgresConnection:
            return PostgresConnection(url, clock, pooled=pooled)

        def writing() -> PostgresConnection:
            made = connect()
            own.clear()
            own.add(made.process)
            made.origin = origin
            origin.look(made)  # whatever the connection was lost for, it may have been promoted meanwhile
            return made

        origin = prepare(url, pooled=pooled)
        self._listener = PostgresListener(url, bell, own)
        writer = StoreThread("keyturn-postgres-writer", writing, judge, waking(bell))
        reader = StoreThread("keyturn-postgres-reader", connect, judge, writes=False)
        super().__init__(say.POSTGRES, (writer, reader), bell, tenant, origin)
        #: As it was given: an engine may keep its tables beside the journal's.
        self.url = given
        self._pooled = pooled
        self._at_most = POOLED_AT_MOST if pooled else AT_MOST
        weakref.finalize(self, self._listener.stop)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the journal of a URL such as `postgresql://ann@db.example/keyturn`.

        With `?pooled=1` nothing is kept in a session of the server, so that a pooler may give each transaction another:
        no prepared statements, no LISTEN. Other processes' commits are then looked for once a second.
        """
        return cls(url)

    async def claim_due(self, worker: str, ttl_ms: int, limit: int, only: ClaimFilter) -> DueClaims:
        """Take the leases on runs that are due, in one question: what another worker is about to claim is skipped."""
        check_name("a worker's name", worker)
        await self._check_origin()
        made: list[DueClaims] = []

        def take(db: Any) -> DueClaims:
            made[:] = [self._mine.claim_due(db, worker, ttl_ms, limit, only)]
            db.glance()  # once they are locked: who waited for that may have waited for the store to be moved
            self._origin.check()
            return made[0]

        def taken(db: StoreConnection) -> tuple[bool, Any]:
            claims = made[0].claims if made else []
            held = [each for each in claims if self._mine.held_by(db, each.run) == (worker, each.epoch)]
            return bool(held), DueClaims(held, [])

        try:
            return await self._writer.ask(take, taken, firm=False)
        except asyncio.CancelledError:
            await self._writer.ask(lambda db: self._return(made[0].claims if made else [], db), firm=False)
            raise

    async def be_present(self, worker: str) -> bool:
        """Show by a lock of a session that a worker of this process lives."""
        if self._pooled:
            return False
        return await asyncio.get_running_loop().run_in_executor(None, self._listener.be_present, worker)

    async def be_absent(self, worker: str) -> None:
        """Give that lock back, soon."""
        self._listener.be_absent(worker)

    async def absent(self) -> list[str]:
        """Return the watched workers that hold runs and whose lock nobody holds."""
        if self._pooled:
            return []
        found = await self._reader.ask(lambda db: db.execute(say.HOLDERS_WITHOUT_LOCK, self.tenant, PRESENT))
        return [name for (name,) in found]

    async def absent_of_tenants(self) -> list[tuple[str, str]]:
        """Return those of all tenants."""
        if self._pooled:
            return []
        found = await self._reader.ask(lambda db: db.execute(say.HOLDERS_OF_TENANTS_WITHOUT_LOCK, PRESENT))
        return [(tenant, name) for tenant, name in found]

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that hold runs, and the locks of those that hold none, of any tenant."""
        return rows_of_locks(await self._reader.ask(lambda db: db.execute(HELD_OR_PRESENT, self.tenant, PRESENT)))

    async def listening(self) -> None:
        if not self._pooled and not self._listener.hears:
            await asyncio.get_running_loop().run_in_executor(None, self._listener.begin)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._listener.close)
        await super().close()


# A lock that is held by a stopped process, or by an operator, is an error and no standstill. What is asked here follows
# indexes whatever the values are: to plan it anew, or to compile it, takes many times as long as to do it.
_SETTINGS = (
    b"SELECT set_config('jit', 'off', %(here)s), set_config('plan_cache_mode', 'force_generic_plan', %(here)s), "
    b"set_config('lock_timeout', CASE current_setting('lock_timeout') WHEN '0' THEN %(lock)s "
    b"ELSE current_setting('lock_timeout') END, %(here)s)"
)
_OPENING_SECONDS = 60


class PostgresConnection:
    """Wraps one connection, in the one thread that uses it."""

    def __init__(
        self, url: str, clock: Callable[[], int] | None, lock_seconds: int = 10, *, pooled: bool = False
    ) -> None:
        self._clock = clock
        self._db = connected(url, prepare_threshold=None if pooled else 2)
        # In each transaction anew, where the next may be another session's.
        self._bound = {"lock": f"{lock_seconds}s", "here": pooled}
        if not pooled:
            self._db.execute(_SETTINGS, self._bound)
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

    def glance(self) -> None:
        """Check whether the store was moved or settled, and forget what was read before runs were claimed unnamed."""
        self._ahead = {}
        if self.origin is not None:
            self.origin.glance(self.execute(say.META, 100), self)

    def begin(self, firm: bool = True, runs: list[tuple[str, str]] | None = None) -> None:
        self._firm = firm
        self._sending = ExitStack()
        self._pipeline = self._sending.enter_context(self._db.pipeline())
        self.tell("BEGIN ISOLATION LEVEL READ COMMITTED")
        if self._bound["here"]:
            self._telling.execute(_SETTINGS, self._bound)
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
            self._db.execute(_SETTINGS, self._bound)
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
        mark = None if self.origin is None else self.origin.mark
        counts = mark is not None and self._firm and self.told != self._told_before
        asked = self._db.execute(_REACHED) if counts else None
        committing = self._db.execute(b"COMMIT", prepare=False)
        self._notify(effects.wakes)
        try:
            self._sent()
        except Exception:
            if committing.statusmessage != "COMMIT":
                raise  # else it is the notice that failed, and whoever waits for it looks by itself
        if mark is not None and asked is not None:
            mark.reached(_number(asked.fetchone()))

    def _notify(self, wakes: Sequence[tuple[str, str]]) -> None:
        """Tell other processes what was committed, in a transaction of its own that is sent along.

        One that notifies holds a lock of the whole server until it is on the disk: this one need not be.
        """
        if wakes:
            told = {payload if len(payload) < _PAYLOAD else "" for payload in map(json.dumps, set(wakes))}
            self._db.execute(_NOTIFY, (CHANNEL, list(told)))

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


def prepare(url: str, *, pooled: bool = False) -> Origin:
    """Migrate the schema to the newest version, each version whole or not at all, whoever comes first."""
    import psycopg

    try:
        db = PostgresConnection(url, None, _OPENING_SECONDS, pooled=pooled)
        try:
            check_encoding(db)
            if not is_current(db):
                db.whole(migrate)
            origin = Origin(db.place() or "")
            if is_unsettled_template(db, origin):
                db.whole(lambda db: settle_once(db, origin))
            origin.look(db)
            read_meta(db).check_whole()
        finally:
            db.close()
        return origin
    except psycopg.Error as error:
        why = why_unopened(url, error)
        raise StorageError(f"the PostgreSQL journal cannot be opened{why}") from (error if str(error) in why else None)


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
