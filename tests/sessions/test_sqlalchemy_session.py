"""The session in a database, on SQLite and on PostgreSQL: the room's promises, order, tables and engines."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from keyturn import Agent, Runner, SessionSettings, SQLAlchemySession, SQLiteSession, UserError
from keyturn.sessions.history import orphan_calls
from keyturn.testing import SessionSuite
from tests.playing import (
    Run,
    World,
    approved,
    call,
    model,
    shape,
    user,
)
from tests.waiting import turns_of_the_loop

_tables = count()


class InADatabase(SessionSuite):
    """What the three have in common: two tables that no other test has."""

    shared = True
    engine: AsyncEngine

    async def close_engine(self, url: str) -> AsyncIterator[None]:
        number = next(_tables)
        self.names = {"sessions_table": f"sessions_{number}", "messages_table": f"messages_{number}"}
        self.engine = hurried(create_async_engine(url))
        yield
        await self.engine.dispose()

    def make_session(self, session_id: str) -> SQLAlchemySession:
        return SQLAlchemySession(session_id, engine=self.engine, create_tables=True, **self.names)


class TestOnSQLiteInMemory(InADatabase):
    @pytest.fixture(autouse=True)
    async def use_engine(self) -> AsyncIterator[None]:
        async for _ in self.close_engine("sqlite+aiosqlite://"):
            yield


class TestOnASQLiteFile(InADatabase):
    @pytest.fixture(autouse=True)
    async def use_engine(self, tmp_path: Path) -> AsyncIterator[None]:
        async for _ in self.close_engine(f"sqlite+aiosqlite:///{tmp_path}/sessions.db"):
            yield


class TestOnPostgreSQL(InADatabase):
    @pytest.fixture(autouse=True)
    async def use_engine(self, postgres_url: str) -> AsyncIterator[None]:
        async for _ in self.close_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:")):
            yield


# What follows runs on each database: `open_session(session_id)` is a session in a database of the test's own.

Open = Callable[..., SQLAlchemySession]


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    addresses = {"sqlite": lambda: f"sqlite:///{tmp_path}/sessions.db", "memory": lambda: "sqlite://"}
    made = addresses.get(request.param) or (lambda: request.getfixturevalue("postgres_url"))
    return made()


@pytest.fixture
def names() -> dict[str, str]:
    number = next(_tables)
    return {"sessions_table": f"sessions_{number}", "messages_table": f"messages_{number}"}


@pytest.fixture
async def engine(url: str) -> AsyncIterator[AsyncEngine]:
    made = hurried(SQLAlchemySession("any", url=url).engine)
    yield made
    await made.dispose()


@pytest.fixture
def open_session(engine: AsyncEngine, names: dict[str, str]) -> Open:
    def opened(session_id: str = "ada", **options: Any) -> SQLAlchemySession:
        return SQLAlchemySession(session_id, **{"engine": engine, "create_tables": True, **names, **options})

    return opened


def hurried(engine: AsyncEngine) -> AsyncEngine:
    """An engine that does not wait for the disk, which is most of what a test on a file would do."""
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", lambda line, _: line.execute("PRAGMA synchronous = OFF"))
    return engine


async def execute(engine: AsyncEngine, statement: str, **values: Any) -> Any:
    async with engine.begin() as connection:
        done = await connection.execute(text(statement), values)
        return done.all() if done.returns_rows else None


# Order and wholeness


async def test_many_writers_lose_nothing_and_keep_their_own_order(open_session: Open) -> None:
    async def write(writer: int) -> None:
        session = open_session()
        for batch in range(4):
            await session.add_items([{"by": writer, "batch": batch, "part": part} for part in range(3)])

    await asyncio.gather(*(write(writer) for writer in range(4)))
    items = await open_session().get_items()
    batches = [items[start : start + 3] for start in range(0, len(items), 3)]
    assert all(batch == [{**batch[0], "part": part} for part in range(3)] for batch in batches)
    for writer in range(4):
        assert [batch[0]["batch"] for batch in batches if batch[0]["by"] == writer] == list(range(4))


async def test_what_was_read_is_the_beginning_of_what_is_read_later(open_session: Open) -> None:
    """A batch that began earlier and ends later must not slip in front of one that somebody has seen."""
    session, writing = open_session(), True

    async def write() -> None:
        for number in range(5):
            await open_session().add_items([user(str(number)), user("again")])

    async def read() -> list[list[dict[str, Any]]]:
        seen: list[list[dict[str, Any]]] = []
        while writing:
            seen.append(await session.get_items())
        return seen

    reading = asyncio.create_task(read())
    await asyncio.gather(*(write() for _ in range(4)))
    writing = False
    whole = await session.get_items()
    assert len(whole) == 40
    assert all(seen == whole[: len(seen)] for seen in await reading)


async def test_each_item_is_popped_once(open_session: Open) -> None:
    await open_session().add_items([user(str(number)) for number in range(8)])
    popped = await asyncio.gather(*(open_session().pop_item() for _ in range(10)))
    texts = [item["content"] for item in popped if item is not None]
    assert sorted(texts, key=int) == [str(number) for number in range(8)]


async def test_clearing_and_writing_at_once(open_session: Open) -> None:
    await open_session().add_items([user("old")])
    writes = [open_session().add_items([user("1"), user("2")]) for _ in range(4)]
    clears = [open_session().clear_session() for _ in range(4)]
    await asyncio.gather(*(done for pair in zip(writes, clears, strict=True) for done in pair))
    items = await open_session().get_items()
    assert items == [user("1"), user("2")] * (len(items) // 2)


async def test_a_batch_that_fails_half_way_is_rolled_back(
    open_session: Open, engine: AsyncEngine, names: dict[str, str]
) -> None:
    session, table = open_session(), names["messages_table"]
    await session.add_items([user("1")])
    await execute(engine, f"CREATE UNIQUE INDEX once_{table} ON {table} (message_data)")
    with pytest.raises(IntegrityError):
        await session.add_items([user("2"), user("1"), user("3")])
    assert await session.get_items() == [user("1")]
    await session.add_items([user("2")])
    assert await session.get_items() == [user("1"), user("2")]


async def test_a_cancelled_append_is_whole_or_absent(open_session: Open) -> None:
    session = open_session()
    await session.add_items([user("0")])
    for turns in range(0, 30, 4):
        before = len(await session.get_items())
        adding = asyncio.create_task(session.add_items([user("1"), user("2")]))
        await turns_of_the_loop(turns)
        adding.cancel()
        done = await asyncio.gather(adding, return_exceptions=True)
        after = len(await open_session().get_items())
        assert after - before in ((2,) if done == [None] else (0, 2))


async def test_an_append_keeps_what_the_dict_said_when_it_was_called(open_session: Open) -> None:
    session, item = open_session(), user("before")
    adding = asyncio.create_task(session.add_items([item]))
    await turns_of_the_loop()
    item["content"] = "after"
    await adding
    assert await session.get_items() == [user("before")]


async def test_a_lone_surrogate_and_a_nul_do_not_lose_the_batch(open_session: Open) -> None:
    session = open_session()
    await session.add_items([user("caf\udce9.txt \x00")])
    assert await session.get_items() == [user("caf\udce9.txt \x00")]


# Tables


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)  # in memory each engine has its own
async def test_many_make_the_tables_at_once(url: str, names: dict[str, str]) -> None:
    sessions = [SQLAlchemySession("ada", url=url, create_tables=True, **names) for _ in range(6)]
    await asyncio.gather(*(session.add_items([user(str(number))]) for number, session in enumerate(sessions)))
    assert len(await sessions[0].get_items()) == 6
    for session in sessions:
        await session.close()


async def test_tables_are_not_made_unasked_and_the_error_says_so(open_session: Open) -> None:
    session = open_session(create_tables=False)
    for use in (session.get_items(), session.add_items([user("1")]), session.pop_item(), session.clear_session()):
        with pytest.raises(UserError, match="create_tables=True"):
            await use
    await open_session().add_items([user("1")])
    assert await session.get_items() == [user("1")]


async def test_other_errors_of_the_database_stay_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_text("Dear diary, " * 100)
    for create in (False, True):
        session = SQLAlchemySession("ada", url=f"sqlite:///{path}", create_tables=create)
        with pytest.raises(DBAPIError, match="not a database"):
            await session.get_items()
        await session.close()


# What the Agents SDK's own session makes, in the words of each database.
OF_THE_SDK = """
CREATE TABLE {sessions_table} (session_id VARCHAR NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
 updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL, PRIMARY KEY (session_id));
CREATE TABLE {messages_table} (id {serial}, session_id VARCHAR NOT NULL, message_data TEXT NOT NULL,
 created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL,
 FOREIGN KEY(session_id) REFERENCES {sessions_table} (session_id) ON DELETE CASCADE);
CREATE INDEX idx_{messages_table}_session_time ON {messages_table} (session_id, created_at);
INSERT INTO {sessions_table} (session_id) VALUES ('ada')
"""
SERIAL = {"sqlite": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "postgresql": "SERIAL NOT NULL PRIMARY KEY"}


async def test_a_database_of_the_agents_sdk_is_read_and_continued(
    open_session: Open, engine: AsyncEngine, names: dict[str, str]
) -> None:
    for statement in OF_THE_SDK.format(serial=SERIAL[engine.dialect.name], **names).split(";"):
        await execute(engine, statement)
    add = f"INSERT INTO {names['messages_table']} (session_id, message_data) VALUES ('ada', :data)"
    await execute(engine, add, data=json.dumps(user("grüß Gott"), ensure_ascii=False))
    for create in (False, True):
        await open_session(create_tables=create).add_items([user("again")])
    await execute(engine, add, data=json.dumps(user("theirs")))
    expected = [user("grüß Gott"), user("again"), user("again"), user("theirs")]
    assert await open_session().get_items() == expected
    # They read by time and then by number, and find the same order.
    rows = await execute(engine, f"SELECT message_data FROM {names['messages_table']} ORDER BY created_at, id")
    assert [json.loads(row[0]) for row in rows] == expected
    found = await execute(engine, f"SELECT updated_at >= created_at FROM {names['sessions_table']}")
    assert [bool(row[0]) for row in found] == [True]


async def test_a_file_moves_between_this_session_and_the_one_without_sqlalchemy(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    plain = SQLiteSession("ada", path)
    await plain.add_items([user("1")])
    session = SQLAlchemySession("ada", url=f"sqlite:///{path}")
    await session.add_items([user("2")])
    await plain.add_items([user("3")])
    assert await session.get_items() == await plain.get_items() == [user("1"), user("2"), user("3")]
    assert await plain.pop_item() == user("3")
    await session.clear_session()
    assert await plain.get_items() == []
    plain.close()
    await session.close()
    other = SQLAlchemySession("bob", url=f"sqlite:///{tmp_path}/other.db", create_tables=True)
    await other.add_items([user("1")])
    await other.close()
    plain = SQLiteSession("bob", tmp_path / "other.db")
    assert await plain.get_items() == [user("1")]
    plain.close()


async def test_a_row_that_is_not_json_is_reported_and_can_be_popped(
    open_session: Open, engine: AsyncEngine, names: dict[str, str]
) -> None:
    session = open_session()
    await session.add_items([user("1")])
    for data in ("{half", "[]"):
        add = f"INSERT INTO {names['messages_table']} (session_id, message_data) VALUES ('ada', :data)"
        await execute(engine, add, data=data)
        for use in (session.get_items(), session.pop_item()):
            with pytest.raises(UserError, match=f"row . of {names['messages_table']} is"):
                await use
        assert await session.get_items() == [user("1")]


async def test_nothing_is_left_of_a_cleared_session(
    open_session: Open, engine: AsyncEngine, names: dict[str, str]
) -> None:
    await open_session("ada").add_items([user("1")])
    await open_session("bob").add_items([user("2")])
    await open_session("ada").clear_session()
    for table in names.values():
        assert [row[0] for row in await execute(engine, f"SELECT session_id FROM {table}")] == ["bob"]


# Engines


def test_an_engine_serves_one_loop_after_another(url: str, names: dict[str, str]) -> None:
    """`Runner.run_sync` has a loop of its own each time."""
    session = SQLAlchemySession.from_url("ada", url=url, create_tables=True, **names)
    agent = Agent("a", model=model("one", "two"))
    Runner.run_sync(agent, "hi", session=session)
    Runner.run_sync(agent, "ho", session=session)
    assert shape(asyncio.run(session.get_items())) == ["user", "assistant", "user", "assistant"]
    asyncio.run(session.close())


async def test_closing_ends_the_engine_that_was_made_here_and_no_other(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/sessions.db"
    own = SQLAlchemySession.from_url("ada", url=url, create_tables=True, engine_kwargs={"pool_size": 1})
    await own.add_items([user("1")])
    pool = own.engine.pool
    await own.close()
    assert own.engine.pool is not pool
    engine = create_async_engine(url)
    other = SQLAlchemySession("ada", engine=engine)
    assert await other.get_items() == [user("1")]
    pool = engine.pool
    await other.close()
    assert engine.pool is pool
    await engine.dispose()


async def test_a_busy_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    session = SQLAlchemySession("ada", url=f"sqlite:///{path}", create_tables=True)
    await session.add_items([user("1")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        adding = asyncio.create_task(session.add_items([user("2")]))
        await turns_of_the_loop(100)
        assert not adding.done()
        other.execute("COMMIT")
    await adding
    assert await session.get_items() == [user("1"), user("2")]
    await session.close()


def test_what_is_given_is_checked(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not both"):
        SQLAlchemySession("ada")
    with pytest.raises(UserError, match="not both"):
        SQLAlchemySession("ada", engine=create_async_engine("sqlite+aiosqlite://"), url="sqlite://")
    with pytest.raises(UserError, match="AsyncEngine"):
        SQLAlchemySession("ada", engine=create_async_engine("sqlite+aiosqlite://").sync_engine)
    with pytest.raises(UserError, match="two names"):
        SQLAlchemySession("ada", url="sqlite://", sessions_table="t", messages_table="t")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(UserError, match=r"pip install 'keyturn\[sqlalchemy\]'"):
        SQLAlchemySession("ada", url="sqlite://")


async def test_table_names_may_be_words_of_sql(engine: AsyncEngine) -> None:
    odd = SQLAlchemySession(
        "ada", engine=engine, create_tables=True, sessions_table='sel"ect', messages_table="Order; --"
    )
    await odd.add_items([user("odd")])
    assert await odd.get_items() == [user("odd")]
    await odd.clear_session()


async def test_settings_say_how_much_is_read_unless_the_reader_does(open_session: Open) -> None:
    session = open_session(session_settings=SessionSettings(limit=1))
    await session.add_items([user("1"), user("2")])
    assert await session.get_items() == [user("2")]
    assert await session.get_items(limit=2) == [user("1"), user("2")]
    with pytest.raises(UserError, match="0 or more"):
        await session.get_items(limit=-1)


# Runs
async def test_a_run_pauses_and_goes_on_in_another_process(world: World, run: Run, open_session: Open) -> None:
    agent = Agent(
        "a", model=model("hello", [call("ask", "c1", x=7)], "done"), tools=[world.tool("ask", needs_approval=True)]
    )
    await run(agent, "hi", session=open_session())
    result = await run(agent, "go", session=open_session())
    assert shape(await open_session().get_items()) == ["user", "assistant", "user", "call c1"]
    result = await run(agent, await approved(result, agent, saved=True), session=open_session())
    assert (result.final_output, world.done) == ("done", ["ask(7)"])
    items = await open_session().get_items()
    assert shape(items) == ["user", "assistant", "user", "call c1", "output c1", "assistant"]
    assert orphan_calls(items) == []
