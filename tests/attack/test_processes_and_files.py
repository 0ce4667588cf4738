"""What an attack found, held since: processes, clocks, locks, and files and URLs that are not what they seem."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, Runner, RunState
from keyturn.cli.main import main
from keyturn.core.errors import Conflict, KeyturnError, StateRejected, StorageError
from keyturn.journal import open_journal, sqlite
from keyturn.journal.sqlite import SQLiteJournal
from tests import forked
from tests.journal.restoring import Payer, approved_and_copied

pytestmark = pytest.mark.usefixtures("home")


async def closed(app: App) -> None:
    journal: Any = app.journal
    await journal.close()


def script(text: str, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return forked.run(["-c", textwrap.dedent(text), *arguments], capture_output=True, text=True, timeout=60, **more)


def test_a_user_without_a_home_gets_an_untyped_error_even_with_a_secret(tmp_path: Path) -> None:
    """`docker run --user 12345`, OpenShift: no HOME, no passwd entry."""
    where = tmp_path / "data"
    where.mkdir(mode=0o777)
    for above in where.parents:
        if str(above).startswith("/tmp/"):
            above.chmod(0o755)
    where.chmod(0o777)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "KEYTURN_HOME", "XDG_STATE_HOME")
    }
    done = script(
        """
        import os, sys
        from keyturn.journal import open_journal, sqlite
        from keyturn.core.errors import KeyturnError
        import apsw, keyturn.journal.sqlite
        os.setgid(12345); os.setuid(12345)
        try:
            open_journal("sqlite:///" + sys.argv[1])
        except KeyturnError as error:
            print("typed", error)
        """,
        str(where / "runs.db"),
        env=environment | {"KEYTURN_SECRET": "x" * 32},
    )
    assert done.returncode == 0, done.stderr[-400:]


def test_a_journal_hangs_for_ever_in_a_forked_process(tmp_path: Path) -> None:
    """gunicorn --preload, multiprocessing: the threads stay behind, and nobody says so."""
    done = script(
        """
        import asyncio, os, sys, time
        from keyturn.journal import open_journal, sqlite
        journal = open_journal("sqlite:///" + sys.argv[1])
        asyncio.run(journal.head("x"))
        child = os.fork()
        if not child:
            try:
                asyncio.run(asyncio.wait_for(journal.head("x"), 5))
            except TimeoutError:
                os._exit(9)
            except BaseException:
                os._exit(0)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        str(tmp_path / "runs.db"),
    )
    assert done.stdout.strip() == "0", (done.stdout, done.stderr)


async def test_a_clock_set_back_freezes_the_runs_of_a_dead_process(tmp_path: Path) -> None:
    """Its hold of a minute lasts for as long as the clock was ahead."""
    clock = [time.time_ns() // 1_000_000]
    journal = SQLiteJournal(tmp_path / "runs.db", clock=lambda: clock[0])
    clock[0] += 30 * 86_400_000  # the machine's clock was a month ahead until NTP spoke
    await journal.append("r", 0, [b"x"])
    await journal.claim("r", "dead", 60_000)
    clock[0] -= 30 * 86_400_000
    clock[0] += 7 * 86_400_000  # a week later
    assert await journal.due() == ["r"]
    with pytest.raises(Conflict, match="clock was ahead"):  # who holds it and lives has a minute to say so
        await journal.claim("r", "next", 60_000)
    assert await journal.due() == []
    clock[0] += 60_001
    assert await journal.due() == ["r"]
    await journal.claim("r", "next", 60_000)
    await journal.close()


def test_a_password_that_is_not_escaped_stands_in_the_error_text() -> None:
    """libpq quotes what it cannot read: `%` or a space in a password."""
    for password in ("hun%ter2", "hunter2 x"):
        with pytest.raises(StorageError) as raised:
            open_journal(f"postgresql://ann:{password}@localhost:1/x")
        assert password not in str(raised.value), str(raised.value)


async def test_a_file_that_stays_locked_is_told_after_as_long_as_it_says(tmp_path: Path) -> None:
    """`stayed locked for 60 s` is said after 41 times that: three quarters of an hour, and close() waits for six."""
    file = tmp_path / "runs.db"
    journal = SQLiteJournal(file, busy_timeout=0.2)
    await journal.append("r", 0, [b"x"])
    other = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "db.execute('BEGIN IMMEDIATE'); print(1, flush=True); sys.stdin.read()",
            str(file),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdout.readline()
    begun = time.monotonic()
    with pytest.raises(StorageError, match="is locked"):
        await journal.append("r", 1, [b"x"])
    took = time.monotonic() - begun
    other.communicate()
    await journal.close()
    assert took < 2, f"{took:.1f} s where it says 0.2 s"


async def test_a_dangling_link_makes_a_new_file_that_all_can_read(tmp_path: Path) -> None:
    """`New files are readable by their user alone, whatever the umask says`."""
    before = os.umask(0o022)
    try:
        (tmp_path / "runs.db").symlink_to(tmp_path / "disk2.db")
        journal = SQLiteJournal(tmp_path / "runs.db")
        await journal.append("r", 0, [b"x"])
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("disk2.db*")}
        await journal.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {"0o600"}, modes


async def test_a_closed_journal_is_handed_out_again(tmp_path: Path) -> None:
    """A URL's journal is shared for as long as anybody has it, closed or not; what it raises is no error of ours."""
    url = f"sqlite:///{tmp_path}/runs.db"
    payer = Payer()
    app = App([payer.agent], url, worker=False)
    await app.start("payer", "go")
    await closed(app)
    with contextlib.suppress(KeyturnError):
        await Runner.run(payer.agent, "go", journal=url)


async def test_a_relative_url_after_chdir_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    payer = Payer()
    monkeypatch.chdir(tmp_path / "a")
    app = App([payer.agent], "sqlite:///runs.db", worker=False)
    monkeypatch.chdir(tmp_path / "b")
    other = App([payer.agent], "sqlite:///runs.db", worker=False)
    same = app.journal is other.journal
    await closed(app)
    assert not same


async def test_a_backup_stops_everything_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`copies a SQLite journal while it is in use`: on the one reader's thread."""
    begun, done = threading.Event(), threading.Event()

    def copied(*given: Any) -> None:
        begun.set()
        assert done.wait(30), "a read waited for the end of the backup"
        copy_of(*given)

    copy_of = vars(sqlite)["copy_into"]
    monkeypatch.setattr(sqlite, "copy_into", copied)
    journal = SQLiteJournal(tmp_path / "runs.db")
    await journal.append("r1", 0, [b"x"])
    copying = asyncio.ensure_future(journal.backup(tmp_path / "copy.db"))
    await asyncio.to_thread(begun.wait, 30)
    assert await journal.head("r1") == 1
    await journal.append("r1", 1, [b"y"])
    assert not copying.done()
    done.set()
    await copying
    await journal.close()


async def test_a_backup_that_failed_is_in_the_way_of_the_next(tmp_path: Path) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    await journal.append("r", 0, [b"x" * 1_000_000])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(StorageError):
            await journal.backup(tmp_path / "copy.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    try:
        await journal.backup(tmp_path / "copy.db")
    finally:
        await journal.close()


async def test_a_state_whose_version_is_a_long_number_is_an_untyped_error() -> None:
    """Before the MAC is looked at: int() of more than 4,300 digits."""
    with pytest.raises(StateRejected):
        await RunState.from_string(Payer().agent, json.dumps({"schema_version": "9" * 5000}))


async def test_heads_that_cannot_be_written_are_an_untyped_error(tmp_path: Path) -> None:
    await approved_and_copied(tmp_path / "runs.db", Payer())
    code = await asyncio.to_thread(main, ["check", f"sqlite:///{tmp_path}/runs.db", "--keep", "/nonexistent/heads"])
    assert code == 2
