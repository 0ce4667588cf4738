"""Group A: disks that are full, fail or may not be written, processes that die in the middle of a statement."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from keyturn import Agent, Runner, RunState, ToolContext, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import StorageError, StorageFull, UnsafeStore
from keyturn.journal import open_journal, sqlite
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.support.keys import state_directory
from keyturn.testing import ScriptedModel, assistant_message, function_call
from keyturn.testing.suites.journal_case import Clock
from tests import forked
from tests.effort import AT_LENGTH
from tests.journal.disk import Disk, failing_disk
from tests.journal.restoring import loaded_elsewhere
from tests.playing import play

KILLED = Path(__file__).with_name("killed.py")


@pytest.fixture
def disk() -> Generator[Disk]:
    with failing_disk() as disk:
        yield disk


class Desk:
    """An agent that pays, and what the world saw of it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def agent(self, *steps: Any) -> Agent[Any]:
        @function_tool(needs_approval=True)
        async def pay(context: ToolContext[Any], amount: int) -> str:
            self.done.append(context.idempotency_key)
            return f"paid {amount}"

        script = steps or ([function_call("pay", {"amount": 5}, call_id="c1")],)
        return Agent("desk", model=ScriptedModel([*script, assistant_message("done")]), tools=[pay])

    async def paused(self, journal: Any) -> str:
        return (await Runner.run(self.agent(), "go", journal=journal)).run_id

    async def resumed(self, journal: Any, run: str, *, streamed: bool = False) -> Any:
        """Take the run up, settling all that waits as the world has it."""
        agent = Agent("desk", model=ScriptedModel([assistant_message("done")]), tools=self.agent().tools)
        state = await loaded_elsewhere(journal, run, agent)
        for item in state.get_interruptions():
            if item.kind == "in_doubt":
                state.resolve(item, "ran" if item.request_id in self.done else "retry", output="paid 5")
            else:
                state.approve(item, by="ada")
        return await play(agent, state, streamed)


async def waiting(folder: Path) -> tuple[Path, str]:
    """A file with a run that waits for an approval."""
    path = folder / "waiting.db"
    journal = SQLiteJournal(path)
    run = await Desk().paused(journal)
    await journal.close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path, run


async def test_a_disk_that_is_full_at_any_write_loses_and_doubles_nothing(
    tmp_path: Path, disk: Disk, streamed: bool, another_process: Callable[[], None]
) -> None:
    """Before the effect no tool is called; after it the call is in doubt, and nobody is told of success."""
    path, run = await waiting(tmp_path)
    met = Counter[str]()
    for at in range(1, 400, 2) if AT_LENGTH else range(4 if streamed else 1, 400, 12):
        file, clock, desk = tmp_path / f"{at}.db", Clock(), Desk()
        shutil.copy(path, file)
        shutil.rmtree(state_directory() / "stores", ignore_errors=True)  # as on another machine
        journal = SQLiteJournal(file, clock=clock)
        disk.armed(lambda what, count, at=at: apsw.FullError if what == "write" and count >= at else None)
        ended: Any = None
        try:
            ended = await desk.resumed(journal, run, streamed=streamed)
        except StorageFull:
            met["before" if not desk.done else "after"] += 1
        disk.mended()
        await journal.close()
        clock.advance(120_000)
        again = SQLiteJournal(file, clock=clock)
        if ended is None:
            paid = len(desk.done)
            ended = await desk.resumed(again, run)
            while ended.interruptions:
                ended = await desk.resumed(again, run)
            assert len(desk.done) == max(paid, 1), "what had an effect has it once"
        assert (ended.final_output, len(desk.done)) == ("done", 1)
        report = await check(again, effects=Counter(desk.done))
        assert report.ok, str(report)
        await again.close()
        if not met or disk.counts["write"] < at:
            break
    assert met["before"], "it was full before the effect"
    assert met["after"], "it was full after the effect"


async def test_what_ran_and_could_not_be_recorded_is_in_doubt(tmp_path: Path) -> None:
    clock, desk = Clock(), Desk()
    journal = SQLiteJournal(tmp_path / "runs.db", clock=clock)
    run = await desk.paused(journal)
    when = "WHEN instr(NEW.line, 'CallFinished')"
    full = f"CREATE TRIGGER full BEFORE INSERT ON events {when} BEGIN SELECT RAISE(ABORT, 'full'); END"
    await journal._writer.ask(lambda db: db.execute(full))
    with pytest.raises(StorageError):
        await desk.resumed(journal, run)
    assert len(desk.done) == 1
    await journal._writer.ask(lambda db: db.execute("DROP TRIGGER full"))
    clock.advance(120_000)
    agent = Agent("desk", model=ScriptedModel([assistant_message("done")]), tools=desk.agent().tools)
    result = await Runner.run(agent, await RunState.load(journal, run, agent))
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert (await check(journal, effects=Counter(desk.done))).ok
    await journal.close()


async def test_a_full_database_of_postgresql_is_said_and_nothing_is_half_written(database: str) -> None:
    """A disk that is full answers 53100; here a trigger does."""
    desk, journal = Desk(), open_journal(database)
    run = await desk.paused(journal)
    before = (await journal.read(run), await journal.requests())
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(
            b"CREATE FUNCTION full_() RETURNS trigger LANGUAGE plpgsql AS "
            b"$$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$"
        )
        db.execute(b"CREATE TRIGGER full_ BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION full_()")
        with pytest.raises(StorageFull):
            await desk.resumed(journal, run)
        assert ((await journal.read(run), await journal.requests()), desk.done) == (before, [])
        db.execute(b"DROP TRIGGER full_ ON events")
        db.execute(b"UPDATE runs SET held_until = 1 WHERE held_until IS NOT NULL")
    assert (await desk.resumed(journal, run)).final_output == "done"
    assert (await check(journal, effects=Counter(desk.done))).ok
    await journal.close()


async def test_after_a_sync_that_failed_the_file_is_opened_anew_before_anything_is_written(
    tmp_path: Path, disk: Disk
) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    await journal.append("run", 0, [b"1"])
    assert await journal.head("run") == 1
    disk.armed(lambda what, count: apsw.IOError if what == "sync" and count == 1 else None)
    with pytest.raises(StorageError):
        await journal.append("run", 1, [b"2"])
    assert disk.counts["sync"] == 1, "a sync that failed is not tried again"
    opened = disk.counts["open"]
    await journal.append("run", 1, [b"two"])
    assert disk.counts["open"] > opened, "what a failed sync left behind is not trusted"
    assert await journal.read("run") == [b"1", b"two"]
    await journal.close()


NOBODY = """
import os, sys
from keyturn.journal import open_journal
from keyturn.core.errors import StorageError
import keyturn.journal.sqlite, apsw
os.setegid(65534); os.seteuid(65534)
try:
    open_journal(sys.argv[1])
except StorageError as error:
    sys.exit(str(error))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root cannot become nobody")
@pytest.mark.parametrize("what", ["folder", "file", "owner"])
def test_what_may_not_be_written_is_said_with_its_path_and_whose_it_is(tmp_path: Path, what: str) -> None:
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(0o755)
    path = tmp_path / "runs.db"
    if what != "folder":
        asyncio.run(SQLiteJournal(path).close())
        path.chmod(0o444 if what == "file" else 0o600)
    before = path.read_bytes() if path.exists() else None
    command = ["-c", NOBODY, f"sqlite:///{path}"]
    done = forked.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 1, done.stderr
    assert str(path) in done.stderr
    assert "nobody" in done.stderr
    assert (path.read_bytes() if path.exists() else None) == before, "no half schema"


def kills(what: str, url: str) -> list[Any]:
    """What the store held after a kill at each statement; in `make test` at some: there are many that migrate."""
    some = {"migrate": 2, "append": 1}[what] * (1 if url.startswith("sqlite") else 4)
    command = [str(KILLED), what, url, "1" if AT_LENGTH else str(some)]
    done = forked.run(command, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    return request.getfixturevalue("database")


ALL = ["deliveries", "events", "grants", "outbox", "requests", "runs"]


@pytest.mark.sweep
def test_a_migration_that_is_killed_at_any_statement_is_done_or_not_begun(url: str) -> None:
    told = kills("migrate", url)
    assert len(told) > (12 if AT_LENGTH else 5)
    for at, dead, found, after in told:
        assert found in ([], ALL), f"killed at statement {at}: {found}"
        assert after == ALL, "whoever comes next makes it"
        assert dead or found == ALL


def test_an_old_keyturn_refuses_a_newer_schema(database: str) -> None:
    open_journal(database)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(b"INSERT INTO keyturn_schema (version) VALUES (99)")
    with pytest.raises(StorageError, match="newer Keyturn"):
        open_journal(database)


@pytest.mark.sweep
def test_a_line_and_its_rows_are_there_together_or_not_at_all(url: str) -> None:
    told = kills("append", url)
    assert len(told) > 2
    for at, dead, found, _tables in told:
        assert found in ([0, 0, 0, 0], [1, 1, 1, 1]), f"killed at statement {at}: {found}"
        assert dead or found == [1, 1, 1, 1]


def test_an_old_sqlite_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.warns(UnsafeStore, match=r"3\.51\.2 can corrupt a WAL .*WAL-reset"):
        SQLiteJournal(tmp_path / "runs.db")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnsafeStore)
        with pytest.raises(UnsafeStore, match=r"3\.51\.2"):
            SQLiteJournal(tmp_path / "strict.db")
    assert not (tmp_path / "strict.db").exists()
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: ".".join(map(str, sqlite.SOUND)))
    SQLiteJournal(tmp_path / "runs.db")


async def test_no_file_is_mapped_into_memory(tmp_path: Path) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    for thread in (journal._writer, journal._reader):
        for pragma, value in (("mmap_size", 0), ("synchronous", 2), ("journal_mode", "wal"), ("cell_size_check", 1)):
            assert await thread.ask(lambda db, pragma=pragma: db.execute(f"PRAGMA {pragma}")) in ([(value,)], [])
    await journal.close()
