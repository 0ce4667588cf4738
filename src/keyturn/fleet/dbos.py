"""The engine DBOS: wakes are rows of a queue in PostgreSQL, which its workers poll; the tables are its own.

A row holds the tenant, the id of a run and the cause of the wake, as JSON, and what came of it as one word. DBOS is one
object of a process, so that one worker of a process uses it, in a program that does not use DBOS for something else.
Nothing is asked of its promises: a row that died with its process is cancelled by `tidy`, since a reconciler has long
had the run moved by then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Self

from ..core.errors import StorageError, UserError
from ..support.daemon_threads import DaemonThreads
from ..support.pooled_urls import pooled_url, why_unopened
from .base import EngineHealth, EnginePlace, Moves, Wake

SCHEMA = "keyturn_dbos"
_WORKFLOW = "keyturn-advance"
# What a worker understands is the journal's affair: rows of older and newer programs are taken by any.
_VERSION = "keyturn-engine-1"
_POLL = 0.1  # how often a worker asks for rows, in seconds
_CONNECTIONS = 4
_THREADS = 8  # in which its database is asked: where that does not answer, nothing but the engine stands still
_MOST = 1_000  # so many rows are looked at, or deleted, at once
_DRAIN = 3_600  # nobody is waited for so long: the mover ends what it moves
_OPEN = ["ENQUEUED", "PENDING", "DELAYED"]
_DONE = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


class DBOSEngine:
    """Carries wakes by a queue of DBOS in the PostgreSQL of a URL, which may be the journal's.

    Apps on one journal that have different agents get a `queue` each, since a worker takes any row of its queue.

    >>> DBOSEngine("postgresql://db.example/keyturn", queue="billing").queue
    'billing'
    """

    __slots__ = ("_client", "_leaving", "_pooled", "_schema", "_tenant", "_threads", "_url", "queue")

    def __init__(self, url: str, *, queue: str = "keyturn", schema: str = SCHEMA) -> None:
        if not url.startswith(("postgresql://", "postgres://")):
            raise UserError("the engine dbos keeps its queue in PostgreSQL: pass postgresql://host/database")
        self.queue = queue
        self._url, self._pooled = pooled_url(url)
        self._schema = schema
        self._client: Any = None
        self._tenant: str | None = None
        self._leaving = asyncio.Event()
        self._threads = DaemonThreads(_THREADS)

    @classmethod
    def named(cls, journal: str, url: str) -> Self:
        """Return the engine of a journal: in the journal's own database, unless it has a URL of its own."""
        return cls(url or journal)

    @asynccontextmanager
    async def open(self, tenant: str | None) -> AsyncGenerator[None]:
        """Make the tables, if they are not there, and connect."""
        self._tenant = tenant
        self._client = await self._threads.run(self._connect)
        try:
            yield
        finally:
            client, self._client = self._client, None
            await self._threads.run(client.destroy)

    def _connect(self) -> Any:
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
        from sqlalchemy import create_engine

        logging.getLogger("dbos").setLevel(logging.WARNING)  # it logs its URL, with a password of the query
        try:
            DBOS.migrate(self._url, schema=self._schema)
        except Exception as error:  # of its driver: the first line is the server's, the rest what was asked of it
            why = why_unopened(self._url, error).partition("\n")[0]
            raise StorageError(f"the engine dbos cannot use its database, schema {self._schema}{why}") from None
        return DBOSClient(
            system_database_engine=create_engine(**self._engine()),
            dbos_system_schema=self._schema,
            serializer=DBOSPortableJSONSerializer(),
            retry_connection_errors=False,
            application_name="keyturn",
        )

    def _engine(self) -> dict[str, Any]:
        """Return how SQLAlchemy connects: behind a pooler, each transaction has another session."""
        given: dict[str, Any] = {"prepare_threshold": None} if self._pooled else {}
        url = "postgresql+psycopg://" + self._url.partition("://")[2]
        return {"url": url, "pool_size": _CONNECTIONS, "pool_pre_ping": True, "connect_args": given}

    async def work(self, moves: Moves) -> None:
        """Take rows, as many at once as the mover has slots, until stopped."""
        self._leaving.clear()
        worker = _Worker(moves, asyncio.get_running_loop())
        launching = asyncio.ensure_future(self._threads.run(lambda: self._launch(worker)))
        try:
            await asyncio.shield(launching)
            await self._leaving.wait()
        finally:
            await asyncio.shield(self._ended(launching, worker))

    async def _ended(self, launching: asyncio.Future[None], worker: _Worker) -> None:
        """Stop a worker, also one that was not launched whole: another one can be launched then."""
        await asyncio.wait({launching})
        await self._threads.run(worker.destroy)

    def _launch(self, worker: _Worker) -> None:
        from dbos import DBOS, DBOSConfig, DBOSPortableJSONSerializer

        config = DBOSConfig(
            name="keyturn",
            system_database_url=self._url,
            dbos_system_schema=self._schema,
            db_engine_kwargs={key: value for key, value in self._engine().items() if key != "url"},
            executor_id=f"keyturn-{token_hex(8)}",
            application_version=_VERSION,
            serializer=DBOSPortableJSONSerializer(),
            run_migrations=False,
            use_listen_notify=False,
            log_level="WARNING",
        )
        worker.launch(DBOS, config, self._name(), parted=self._tenant is None)

    def stop(self) -> None:
        """Take no more rows."""
        self._leaving.set()

    async def wake(self, wakes: Sequence[Wake]) -> None:
        """Add a row for each; one that is there is not added again."""
        await self._threads.run(lambda: self._enqueue(wakes))

    def _enqueue(self, wakes: Sequence[Wake]) -> None:
        from dbos import EnqueueOptions

        for each in wakes:
            options = EnqueueOptions(
                workflow_name=_WORKFLOW,
                queue_name=self._name(),
                workflow_id=each.key,
                priority=each.priority + 1,
                app_version=_VERSION,
                application_name="keyturn",
            )
            if self._tenant is None:
                options["queue_partition_key"] = each.tenant
            self._client.enqueue(options, each.tenant, each.run, each.cause)

    def _name(self) -> str:
        """Return the name of the queue: of one tenant, or that of several, where each has a part."""
        return self.queue if self._tenant is None else f"{self.queue}:{self._tenant}"

    async def forget(self, tenant: str, run: str) -> None:
        """Delete the rows of a run."""
        rows = await self._rows(workflow_id_prefix=f"{tenant}:{run}:")
        await self._delete(rows)

    async def tidy(self, before: int) -> int:
        """Delete rows that are done, and cancel those that a process has held since then."""
        until = datetime.fromtimestamp(before / 1_000, UTC).isoformat()
        mine = {"name": _WORKFLOW, "end_time": until, "limit": _MOST}
        if held := await self._rows(status="PENDING", **mine):
            await self._threads.run(lambda: self._client.cancel_workflows([row.workflow_id for row in held]))
        done = await self._rows(status=_DONE, **mine)
        await self._delete(done)
        return len(done)

    async def _delete(self, rows: Sequence[Any]) -> None:
        if rows:
            await self._threads.run(lambda: self._client.delete_workflows([row.workflow_id for row in rows]))

    async def health(self) -> EngineHealth:
        """Return how many rows wait, up to a thousand, and since when."""
        try:
            rows = await self._rows(status="ENQUEUED", name=_WORKFLOW, limit=_MOST)
        except Exception as error:  # whatever its driver says
            return EngineHealth(error=type(error).__name__)
        oldest = time.time() - rows[0].created_at / 1_000 if rows else 0.0
        return EngineHealth(len(rows), max(oldest, 0.0))

    async def place(self, tenant: str, run: str) -> EnginePlace | None:
        """Return the newest row of a run."""
        rows = await self._rows(workflow_id_prefix=f"{tenant}:{run}:", sort_desc=True, limit=1)
        return EnginePlace(rows[0].workflow_id, rows[0].status) if rows else None

    async def _rows(self, **wanted: Any) -> list[Any]:
        if self._client is None:
            raise ConnectionError("the engine dbos is not open")
        wanted |= {"load_input": False, "load_output": False}
        return await self._threads.run(lambda: self._client.list_workflows(**wanted))


class _Worker:
    """Runs DBOS in this process, and hands its rows to a mover in the mover's own event loop."""

    def __init__(self, moves: Moves, loop: asyncio.AbstractEventLoop) -> None:
        self.moves, self._loop = moves, loop
        self._dbos: Any = None

    def launch(self, dbos: Any, config: Any, name: str, *, parted: bool) -> None:
        """Start DBOS, which polls one queue from then on; one of several tenants in parts, in any order."""
        if _AT_WORK:
            raise UserError("DBOS is one object of a process: only one app of a process can work by it")
        _register(dbos)
        self._dbos = dbos
        _AT_WORK.append(self)
        dbos(config=config)
        dbos.listen_queues([name])
        dbos.launch()
        limits = {"worker_concurrency": self.moves.slots}
        if parted:
            limits["partition_worker_concurrency"] = self.moves.tenant_slots
        dbos.register_queue(name, **limits, polling_interval_sec=_POLL, on_conflict="always_update")

    async def moved(self, wake: Wake) -> str:
        """Have a run moved; called in DBOS' event loop."""
        moving = asyncio.run_coroutine_threadsafe(self.moves.move(wake), self._loop)
        return (await asyncio.wrap_future(moving)).outcome

    def destroy(self) -> None:
        """Stop DBOS once nothing of it is at work."""
        if self._dbos is not None:
            self._dbos.destroy(workflow_completion_timeout_sec=_DRAIN)
            _AT_WORK.remove(self)


#: The worker of this process, if it has one.
_AT_WORK: list[_Worker] = []
_REGISTERED: list[Any] = []


def _register(dbos: Any) -> None:
    """Register the one workflow, once in a process."""
    if not _REGISTERED:
        _REGISTERED.append(dbos.workflow(name=_WORKFLOW)(_advance))


async def _advance(tenant: str, run: str, cause: str) -> str:
    return await _AT_WORK[0].moved(Wake(tenant, run, cause)) if _AT_WORK else "leaving"
