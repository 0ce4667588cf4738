"""The session in a SQLite file: the room's promises, and those about files, processes, threads and names."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from keyturn.core.errors import UserError
from keyturn.sessions import sqlite
from keyturn.sessions.base import SessionSettings
from keyturn.sessions.sqlite import SQLiteSession
from keyturn.testing.suites.sessions import SessionSuite
from tests import forked
from tests.playing import user
from tests.table import each
from tests.waiting import turns_of_the_loop


class TestSQLiteSessionInMemory(SessionSuite):
    def make_session(self, session_id: str) -> SQLiteSession:
        return SQLiteSession(session_id)


class TestSQLiteSessionInAFile(SessionSuite):
    shared = True

    @pytest.fixture(autouse=True)
    def use_file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "sessions.db"

    def make_session(self, session_id: str) -> SQLiteSession:
        return SQLiteSession(session_id, self.path)


class TestSQLiteSessionWithWal(TestSQLiteSessionInAFile):
    @pytest.fixture(autouse=True)
    def trust_wal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "WAL_IS_SAFE_FROM", (3, 7, 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def run(script: str, *arguments: object) -> forked.Program:
    """Another process with our import path."""
    prelude = f"import sys; sys.path[:] = {sys.path!r}\n"
    command = ["-c", prelude + script, *map(str, arguments)]
    return forked.Program(command, stdout=forked.PIPE, stderr=forked.STDOUT, text=True)


# Files and processes


async def test_a_file_outlives_the_session(path: Path) -> None:
    first = SQLiteSession("ada", path)
    await first.add_items([user("1")])
    first.close()
    second = SQLiteSession("ada", str(path))
    assert await second.get_items() == [user("1")]
    second.close()


WRITER = """
import asyncio
from keyturn.sessions.sqlite import SQLiteSession

async def write(path, name):
    session = SQLiteSession("shared", path)
    for n in range(25):
        await session.add_items([{"by": name, "batch": n, "part": part} for part in range(4)])

asyncio.run(write(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.parametrize("names", [("x", "y", "z")])
async def test_processes_that_write_one_file_keep_their_batches_whole(path: Path, names: tuple[str, ...]) -> None:
    writers = [run(WRITER, path, name) for name in names]
    for writer in writers:
        said_last, _ = await asyncio.to_thread(writer.communicate)
        assert writer.returncode == 0, said_last
    session = SQLiteSession("shared", path)
    items = await session.get_items()
    session.close()
    batches = [items[start : start + 4] for start in range(0, len(items), 4)]
    assert all(batch == [{**batch[0], "part": part} for part in range(4)] for batch in batches)
    for name in names:
        assert [batch[0]["batch"] for batch in batches if batch[0]["by"] == name] == list(range(25))


async def test_a_busy_file_is_waited_for_and_the_loop_goes_on(path: Path) -> None:
    session = SQLiteSession("ada", path)
    await session.add_items([user("1")])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        adding = asyncio.create_task(session.add_items([user("2")]))
        await turns_of_the_loop(100)  # while the other writer holds the lock
        assert not adding.done()
        other.execute("COMMIT")
    await adding
    assert await session.get_items() == [user("1"), user("2")]
    session.close()


@pytest.mark.parametrize(("safe_from", "mode"), [((3, 7, 0), "wal"), ((99, 0, 0), "delete")])
async def test_wal_only_where_this_sqlite_does_not_corrupt_it(
    path: Path, safe_from: tuple[int, int, int], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_IS_SAFE_FROM", safe_from)
    session = SQLiteSession("ada", path)
    await session.add_items([user("1")])
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == (mode,)
    session.close()


async def test_a_batch_that_fails_half_way_is_rolled_back(path: Path) -> None:
    session = SQLiteSession("ada", path)
    await session.add_items([user("1")])
    with closing(sqlite3.connect(path)) as other:
        # FAIL keeps the rows before it: only our rollback can take them away again.
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON agent_messages WHEN NEW.message_data LIKE '%boom%' "
            "BEGIN SELECT RAISE(FAIL, 'disk full'); END"
        )
    with pytest.raises(sqlite3.IntegrityError, match="disk full"):
        await session.add_items([user("2"), user("boom"), user("3")])
    assert await session.get_items() == [user("1")]
    await session.add_items([user("4")])
    assert await session.get_items() == [user("1"), user("4")]
    session.close()


async def test_a_file_of_the_agents_sdk_is_read_and_continued(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.executescript(
            "CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
            " updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);"
            "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
            " message_data TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,"
            " FOREIGN KEY (session_id) REFERENCES agent_sessions (session_id) ON DELETE CASCADE);"
            "INSERT INTO agent_sessions (session_id) VALUES ('ada');"
        )
        row = json.dumps(user("hello"), ensure_ascii=False)
        other.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('ada', ?)", (row,))
        other.commit()
    session = SQLiteSession("ada", path)
    await session.add_items([user("again")])
    assert await session.get_items() == [user("hello"), user("again")]
    session.close()


async def test_a_path_that_cannot_be_opened_says_what_to_do(tmp_path: Path) -> None:
    session = SQLiteSession("ada", tmp_path / "nowhere" / "sessions.db")
    with pytest.raises(UserError, match="directory must exist"):
        await session.get_items()


async def test_a_row_that_is_not_json_is_reported_and_can_be_popped(path: Path) -> None:
    session = SQLiteSession("ada", path)
    await session.add_items([user("1")])
    with closing(sqlite3.connect(path)) as other:
        other.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('ada', '{half')")
        other.commit()
    with pytest.raises(UserError, match="row 2 of agent_messages"):
        await session.get_items()
    with pytest.raises(UserError, match="row 2 of agent_messages"):
        await session.pop_item()
    assert await session.get_items() == [user("1")]
    session.close()


# Loops and threads


def test_one_session_serves_several_loops_and_threads(path: Path) -> None:
    def add(session: SQLiteSession, number: int) -> None:
        asyncio.run(session.add_items([user(str(number))] * 3))

    for session in (SQLiteSession("ada", path), SQLiteSession("ada")):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(partial(add, session), range(20)))
        texts = [item["content"] for item in asyncio.run(session.get_items())]
        assert sorted(texts[::3], key=int) == [str(n) for n in range(20)]
        assert texts[::3] == texts[1::3] == texts[2::3]
        session.close()


async def test_a_cancelled_append_is_whole_or_absent(path: Path) -> None:
    session = SQLiteSession("ada", path)
    await session.add_items([user("0")])
    adding = asyncio.create_task(session.add_items([user("1"), user("2")]))
    await turns_of_the_loop()
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding
    await session.add_items([user("3")])
    assert len(await session.get_items()) in (2, 4)
    session.close()


async def test_closing_is_final_and_harmless_twice(path: Path) -> None:
    session = SQLiteSession("ada", path)
    await session.add_items([user("1")])
    session.close()
    session.close()
    with pytest.raises(UserError, match="was closed"):
        await session.get_items()


async def test_an_append_keeps_what_the_dict_said_when_it_was_called(path: Path) -> None:
    session, item = SQLiteSession("ada", path), user("before")
    adding = asyncio.create_task(session.add_items([item]))
    await turns_of_the_loop()
    item["content"] = "after"
    await adding
    assert await session.get_items() == [user("before")]
    session.close()


def test_sqlite_is_imported_at_first_use() -> None:
    script = (
        "had = 'sqlite3' in sys.modules\n"
        "from keyturn.sessions.sqlite import SQLiteSession\n"
        "SQLiteSession('ada')\n"
        "assert had or 'sqlite3' not in sys.modules\n"
    )
    process = run(script)
    output, _ = process.communicate()
    assert process.returncode == 0, output


# Names, settings and values


@each(
    "name",
    ["", "1st", "a b", "a-b", 'a"; DROP TABLE x; --', "a;b", "sqlite_master", "SQLite_x", "é", "a\n", "x" * 101, "a.b"],
)
def test_a_table_name_is_an_identifier(name: str) -> None:
    with pytest.raises(UserError, match="not a table name"):
        SQLiteSession("ada", sessions_table=name)
    with pytest.raises(UserError, match="not a table name"):
        SQLiteSession("ada", messages_table=name)


def test_the_two_tables_are_two() -> None:
    with pytest.raises(UserError, match="two names"):
        SQLiteSession("ada", sessions_table="Things", messages_table="things")


async def test_table_names_may_be_words_of_sql_and_keep_sessions_apart(path: Path) -> None:
    odd = SQLiteSession("ada", path, sessions_table="select", messages_table="order")
    usual = SQLiteSession("ada", path)
    await odd.add_items([user("odd")])
    await usual.add_items([user("usual")])
    assert await odd.get_items() == [user("odd")]
    assert await usual.pop_item() == user("usual")
    odd.close()
    usual.close()


async def test_settings_say_how_much_is_read_unless_the_reader_does() -> None:
    session = SQLiteSession("ada", session_settings=SessionSettings(limit=1))
    await session.add_items([user("1"), user("2")])
    assert await session.get_items() == [user("2")]
    assert await session.get_items(limit=2) == [user("1"), user("2")]
    with pytest.raises(UserError, match="0 or more"):
        await session.get_items(limit=-1)
    session.close()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"bytes"])
async def test_a_value_without_json_is_refused_by_position(value: object) -> None:
    session = SQLiteSession("ada")
    with pytest.raises(UserError, match="item 1 of the batch"):
        await session.add_items([user("good"), {"role": "user", "content": value}])
    assert await session.get_items() == []
    session.close()


async def test_a_lone_surrogate_in_a_tools_output_does_not_lose_the_batch() -> None:
    session = SQLiteSession("ada")
    await session.add_items([user("caf\udce9.txt")])
    assert await session.get_items() == [user("caf\udce9.txt")]
    session.close()
