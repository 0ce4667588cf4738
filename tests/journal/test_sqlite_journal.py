"""The journal in a SQLite file keeps the room's promises, and what only a file can promise."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any, cast

import apsw
import pytest

from keyturn.core.errors import StorageError, StorageFull, UserError
from keyturn.journal import open_journal, opened
from keyturn.journal.base import Journal, Lease
from keyturn.journal.sqlite import SQLiteConnection, SQLiteJournal
from keyturn.journal.store_thread import StoreThread
from keyturn.testing.suites.journals import JournalSuite
from keyturn.testing.suites.outboxes import OutboxSuite
from keyturn.testing.suites.records import RecordsSuite
from tests import forked
from tests.waiting import turns_of_the_loop


class TestSQLiteJournal(JournalSuite, RecordsSuite, OutboxSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "runs.db"

    async def make_journal(self) -> Journal:
        return SQLiteJournal(self.path, clock=self.clock)

    async def another(self, journal: Journal) -> Journal:
        return SQLiteJournal(cast("SQLiteJournal", journal).path, clock=self.clock)


async def test_a_second_process_is_heard(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    journal = SQLiteJournal(path)
    waits = asyncio.ensure_future(journal.wait_until_due(30))
    await turns_of_the_loop(2)
    await journal.head("run")  # asked of the thread that was asked what is due before: now it waits to hear of more
    code = (
        "import asyncio, sys\n"
        "from keyturn.journal.sqlite import SQLiteJournal\n"
        "journal = SQLiteJournal(sys.argv[1])\n"
        "asyncio.run(journal.append('run', 0, [b'1']))\n"
    )
    forked.run(["-c", code, str(path)], check=True, timeout=30)
    async with asyncio.timeout(5):  # sooner than anybody would look by themselves
        await waits
    assert await journal.due() == ["run"]
    await journal.close()


async def test_what_is_short_is_read_at_once_unless_the_thread_is_at_work_or_the_file_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, ask = tmp_path / "runs.db", list[str](), StoreThread.ask

    async def seen(thread: StoreThread, *given: Any, **options: Any) -> Any:
        if thread is journal._reader:  # other journals of this process may be at work
            asked.append("thread")
        return await ask(thread, *given, **options)

    journal = SQLiteJournal(path)
    await journal.append("run", 0, [b"%d" % place for place in range(100)])
    monkeypatch.setattr(StoreThread, "ask", seen)
    assert await journal.head("run") == 100
    assert asked == ["thread"], "it opens the file"
    assert await journal.head("run") == 100
    assert await journal.read("run", 60) == [b"%d" % place for place in range(60, 100)]
    assert await journal.read("run", limit=3) == [b"0", b"1", b"2"]
    assert (await journal.due(), await journal.grants()) == (["run"], [])
    assert asked == ["thread"]
    assert len(await journal.read("run")) == 100
    assert asked == ["thread"] * 2, "a long log holds up nobody"

    go_on = threading.Event()
    works = asyncio.ensure_future(journal.whole(lambda _db: go_on.wait(30)))
    await turns_of_the_loop(1)
    reads = asyncio.ensure_future(journal.head("run"))
    await turns_of_the_loop(3)
    assert not reads.done()
    go_on.set()
    assert (await works, await reads) == (True, 100)

    path.rename(tmp_path / "moved.db")
    with pytest.raises(StorageError, match="moved"):
        await journal.head("run")
    await journal.close()


async def test_a_lease_along_with_lines_whose_answer_got_lost_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines are found as it is tried again, and with them what went along: no other claim is made."""
    journal, commit, lost = SQLiteJournal(tmp_path / "runs.db"), SQLiteConnection.commit, [True]

    def unanswered(connection: SQLiteConnection, results: list[object]) -> None:
        commit(connection, results)
        if lost.pop(0):
            raise apsw.BusyError("nobody knows whether that was done")

    monkeypatch.setattr(SQLiteConnection, "commit", unanswered)
    taken = await journal.append("run", 0, [b"1"], lease=Lease("worker", 60_000))
    assert taken is not None
    assert (taken.worker, taken.epoch, lost) == ("worker", 1, [])
    lost.append(True)
    await journal.append("run", 1, [b"2"], taken, lease=Lease(ends=True))
    assert await journal.read("run") == [b"1", b"2"]
    lost.append(False)
    assert (await journal.claim("run", "another", 60_000)).epoch == 2
    await journal.close()


@pytest.mark.parametrize("runs", [["run"], ["run", "other"]])
async def test_what_was_committed_before_the_disk_was_full_is_no_lost_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[str]
) -> None:
    """A commit whose answer is an error may have been made: each append of it is looked for, and not made again."""
    journal, commit, full = SQLiteJournal(tmp_path / "runs.db"), SQLiteConnection.commit, [True]

    def told_late(connection: SQLiteConnection, results: list[object]) -> None:
        commit(connection, results)
        if full:
            full.clear()
            raise apsw.FullError("a checkpoint had no room")

    monkeypatch.setattr(SQLiteConnection, "commit", told_late)
    await asyncio.gather(*(journal.append(run, 0, [b"1"]) for run in runs))
    assert (full, [await journal.read(run) for run in runs]) == ([], [[b"1"]] * len(runs))
    await journal.close()


async def test_what_an_append_said_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    code = (
        "import asyncio, os, signal, sys\n"
        "from keyturn.journal.sqlite import SQLiteJournal\n"
        "journal = SQLiteJournal(sys.argv[1])\n"
        "asyncio.run(journal.append('run', 0, [b'1', b'2']))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    forked.run(["-c", code, str(path)], check=False, timeout=30)
    journal = SQLiteJournal(path)
    assert await journal.read("run") == [b"1", b"2"]
    await journal.close()


async def test_a_backup_is_a_journal_of_its_own(tmp_path: Path) -> None:
    journal, copy = SQLiteJournal(tmp_path / "runs.db"), tmp_path / "copy.db"
    await journal.append("run", 0, [b"1"])
    await journal.backup(copy)
    await journal.append("run", 1, [b"2"])
    with pytest.raises(UserError, match="there already"):
        await journal.backup(copy)
    restored = SQLiteJournal(copy)
    assert (await restored.read("run"), await journal.head("run")) == ([b"1"], 2)
    await restored.append("run", 1, [b"3"])
    await asyncio.gather(journal.close(), restored.close())


async def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    """The database may grow no further; once it may, it goes on."""
    journal = SQLiteJournal(tmp_path / "runs.db")
    await journal.append("run", 0, [b"1"])
    [(pages,)] = await journal.write(lambda db: db.execute("PRAGMA page_count"))
    await journal.write(lambda db: db.execute(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(StorageFull):
        await journal.append("run", 1, [b"2" * 100_000])
    assert await journal.read("run") == [b"1"]
    await journal.write(lambda db: db.execute("PRAGMA max_page_count = 1000000"))
    await journal.append("run", 1, [b"2" * 100_000])
    assert await journal.head("run") == 2
    await journal.close()


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE theirs (n)")
    with pytest.raises(StorageError, match="another application"):
        SQLiteJournal(other)
    (tmp_path / "text.db").write_text("these are no pages of a database " * 100)
    with pytest.raises(StorageError, match=r"text\.db"):
        SQLiteJournal(tmp_path / "text.db")
    with pytest.raises(StorageError, match=r"runs\.db"):
        SQLiteJournal(tmp_path / "no such folder" / "runs.db")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(SQLiteJournal(path).close())
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StorageError, match="newer Keyturn"):
        SQLiteJournal(path)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://runs.db"])
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="needs a file"):
        open_journal(url)


@pytest.mark.usefixtures("garbage_of_its_own")
def test_a_url_is_opened_once_and_its_threads_end_when_it_is_forgotten(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    before = set(threading.enumerate())  # those of journals that other tests have open
    journal = opened(url)
    assert opened(url) is journal
    asyncio.run(journal.append("run", 0, [b"1"]))
    ours = [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("keyturn-sqlite")]
    assert ours
    del journal
    gc.collect()
    for thread in ours:
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert os.path.getsize(tmp_path / "runs.db") > 0
