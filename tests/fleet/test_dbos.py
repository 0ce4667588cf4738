"""The suite of engines over DBOS, what it keeps in its tables, and how it is refused."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import psycopg
import pytest

from keyturn import Agent, App, Tenants, UserError, function_tool
from keyturn.cli.main import main
from keyturn.core.errors import StorageError
from keyturn.fleet import DBOSEngine, Engine, Wake, WakeOutcome
from keyturn.fleet.dbos import SCHEMA
from keyturn.journal.base import Store
from keyturn.journal.postgres import PostgresJournal
from keyturn.support.lazy import is_installed
from keyturn.testing import EngineSuite, ScriptedModel, function_call
from keyturn.tools.functions.schema import Secret
from tests.table import each
from tests.waiting import until, until_status

installed = pytest.mark.skipif(not is_installed("dbos"), reason="dbos is not installed: pip install 'keyturn[dbos]'")


class Idle:
    """Moves no run."""

    slots = tenant_slots = 1

    async def move(self, wake: Wake) -> WakeOutcome:
        return WakeOutcome("elsewhere")


@installed
@pytest.mark.trial
class TestDBOSEngine(EngineSuite):
    orders = True

    @pytest.fixture(autouse=True)
    def _database(self, new_database: Callable[[], str]) -> None:
        self.new_database = new_database

    async def make_store(self) -> Store:
        self.url = self.new_database()
        return PostgresJournal(self.url)

    def make_engine(self, store: Store) -> Engine | None:
        return DBOSEngine(self.url)

    async def lose_state(self, store: Store) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())


def _bytes_of(url: str) -> str:
    """Return every value of every table of DBOS, as text."""
    with psycopg.connect(url) as db:
        found = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [SCHEMA]).fetchall()
        names = [str(name) for (name,) in found]
        assert len(names) > 5
        tables = [db.execute(f'SELECT t::text FROM {SCHEMA}."{name}" AS t'.encode()) for name in names]
        return "\n".join(str(row) for table in tables for row in table.fetchall())


@installed
@pytest.mark.parametrize("tenant", ["default", pytest.param("acme", marks=pytest.mark.trial)])
async def test_a_run_is_moved_by_wakes_that_hold_ids_alone(tenant: str, database: str) -> None:
    """No argument, secret, message, answer or name of a person is in a table of the engine; what is done is deleted."""

    @function_tool(needs_approval=True)
    def pay(to: str, password: Annotated[str, Secret]) -> str:
        return f"receipt-for-{to}"

    asked = function_call("pay", {"to": "argument-grace", "password": "secret-hopper"})
    agent = Agent("desk", model=ScriptedModel([[asked], "answer-of-the-model"]), tools=[pay])
    journal = PostgresJournal(database)
    tenants = Tenants(journal, lambda name: App([agent], journal.of(name)), engine="dbos")
    single = App([agent], journal, engine="dbos")
    async with single if tenant == "default" else tenants.app(tenant) as app, asyncio.TaskGroup() as group:
        if tenant != "default":
            group.create_task(tenants.work())
        run = await app.start("desk", "message-of-a-user", requester="person-ann")
        await until_status(app, run.id, "waiting")
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="person-bob", note="word-of-bob")
        await until_status(app, run.id, "finished")
        engine: Any = app.engine
        await until(lambda: _is_done(engine, tenant, run.id))
        kept = _bytes_of(database)
        assert run.id in kept
        for word in (
            "argument",
            "grace",
            "secret",
            "hopper",
            "message",
            "person",
            "ann",
            "bob",
            "receipt",
            "answer",
            "pay",
        ):
            assert word not in kept, word
        await until(lambda: _is_empty(engine))
        await engine.wake([Wake(tenant, run.id, "1"), Wake(tenant, run.id, "1")])
        await until(lambda: engine.tidy(int(time.time() * 1_000) + 60_000))
        await until(lambda: _is_gone(engine, tenant, run.id))
        await tenants.stop()
    await journal.close()


async def _is_empty(engine: DBOSEngine) -> bool:
    return (await engine.health()).backlog == 0


async def _is_done(engine: DBOSEngine, tenant: str, run: str) -> bool:
    place = await engine.place(tenant, run)
    return place is not None and place.state == "SUCCESS"


async def _is_gone(engine: DBOSEngine, tenant: str, run: str) -> bool:
    await engine.forget(tenant, run)
    return await engine.place(tenant, run) is None


@installed
async def test_an_engine_whose_database_does_not_answer_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are drawn in the threads of the event loop: a database that hangs had them all in half a minute."""
    answers, asked = threading.Event(), list[object]()

    class Hanging:
        def enqueue(self, *given: object) -> None:
            asked.append(given)
            answers.wait()

        def destroy(self) -> None: ...

    def connect(_engine: object) -> Hanging:
        return Hanging()

    engine = DBOSEngine("postgresql://db.example/keyturn")
    monkeypatch.setattr(DBOSEngine, "_connect", connect)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with engine.open("default"):
        waiting = asyncio.ensure_future(engine.wake([Wake("default", "run", "1")]))
        try:
            await until(lambda: bool(asked))
            assert await asyncio.wait_for(asyncio.to_thread(lambda: "drawn"), 20) == "drawn"
        finally:
            answers.set()
            await waiting


@installed
async def test_no_part_of_a_password_is_in_what_the_engine_logs(caplog: pytest.LogCaptureFixture) -> None:
    """What it cannot read of a URL its driver quotes, and DBOS logs what stands in the query."""
    monitored = logging.getLogger("dbos")
    monitored.addHandler(caplog.handler)
    for url in ("postgresql://u:pa@SECRET@127.0.0.1:1/db", "postgresql://u@127.0.0.1:1/db?password=SECRET&x=1"):
        with pytest.raises(StorageError) as refused:
            async with DBOSEngine(url).open("default"):
                raise AssertionError("nothing listens there")
        assert "SECRET" not in str(refused.value) + caplog.text, url
    monitored.removeHandler(caplog.handler)


@installed
async def test_a_worker_whose_launch_failed_is_launched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One blip of the database, and each later try was refused since "DBOS is one object of a process"."""
    engine, launched = DBOSEngine("postgresql://db.example/keyturn"), list[str]()

    def away() -> None:
        launched.append("")
        raise ConnectionError("the database is away")

    monkeypatch.setattr("dbos.DBOS.launch", staticmethod(away))
    for _ in range(2):
        with pytest.raises(ConnectionError, match="is away"):
            await engine.work(Idle())
    assert len(launched) == 2


@each(
    "journal, engine, why",
    [
        ("sqlite:///runs.db", "dbos", "use a journal such as postgresql://"),
        ("memory://", "dbos", "use a journal such as postgresql://"),
    ],
)
def test_an_engine_of_a_fleet_is_refused_on_a_journal_of_one_machine(
    journal: str, engine: str, why: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=why):
        App([], journal, engine=engine)
    monkeypatch.setenv("KEYTURN_ENGINE", engine)
    with pytest.raises(UserError, match=why):
        App([], journal)


@each("options", [["--engine", "dbos"], ["--engine", "celery"], ["--engine-url", "postgresql://db/engine"]])
def test_a_command_says_which_engine_it_cannot_use(
    options: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "of_one_machine.py").write_text("from keyturn import App\napp = App([], 'sqlite:///runs.db')\n")
    for command in ("worker", "serve"):
        assert main([command, "of_one_machine:app", *options]) == 2
        said = capsys.readouterr().err
        assert any(words in said for words in ("postgresql://", "no engine is named", "requires --engine"))


def test_an_engine_of_its_own_url_is_in_postgresql() -> None:
    with pytest.raises(UserError, match="postgresql://"):
        DBOSEngine("sqlite:///queue.db")
