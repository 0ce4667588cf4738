"""Several processes on one store: with other keys, before and after a restore, and on a file that is taken away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keyturn import App
from keyturn.cli.main import main
from keyturn.core.errors import StorageError, StoreRestored
from keyturn.inbox.restored import settle
from keyturn.journal import open_journal
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import Notice
from keyturn.journal.sqlite import SQLiteJournal

from .restoring import Payer, Place, go_on, waits

ONE, OTHER = "the-secret-of-the-service", "what-root-has-in-its-shell"


@pytest.mark.each
async def test_a_claim_of_before_a_restore_lets_nothing_be_written(place: Place) -> None:
    """What its holder is about to start, another process may have run in what was lost."""
    journal = place.opened()
    await journal.append("run", 0, [b"one"])
    claim = await journal.claim("run", "stands still", 0)
    await journal.close()
    place.back_up()
    holder, other = place.opened(), place.opened()
    await holder.append("other run", 0, [b"one"])
    taken = await other.claim("run", "took it over", 60_000)
    await other.append("run", 1, [b"the tool ran"], taken)
    await other.close()
    place.bring_back()
    with pytest.raises(StoreRestored):
        await holder.append("run", 1, [b"the tool runs once more"], claim)
    assert await holder.read("run") == [b"one"]
    await holder.close()


async def test_a_process_with_another_key_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell without KEYTURN_SECRET neither settles the store nor keeps the others from working on it."""
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    journal = place.opened()
    await journal.append("run", 0, [b"one"])
    monkeypatch.setenv("KEYTURN_SECRET", OTHER)
    stranger = place.opened()
    tries: list[Callable[[], Any]] = [
        lambda: stranger.append("another", 0, [b"x"]),
        lambda: stranger.claim("run", "stranger", 60_000),
        lambda: stranger.tell([Notice(topic="x", run="run", about={})]),
        lambda: stranger.erase("run"),
        lambda: settle(stranger),
    ]
    for attempt in tries:
        with pytest.raises(StorageError, match=r"sealed with key \S{6}, which this process does not have"):
            await attempt()
    await stranger.close()
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    assert await journal.looked_at() is None
    await journal.append("run", 1, [b"two"], await journal.claim("run", "worker", 60_000))
    assert await journal.head("another") == 0
    await journal.close()


async def test_after_a_rotation_the_old_secret_is_not_needed_for_the_store(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for new, old in ((ONE, ""), (OTHER, ONE), (OTHER, "")):
        monkeypatch.setenv("KEYTURN_SECRET", new)
        monkeypatch.setenv("KEYTURN_SECRETS_OLD", old)
        journal = place.opened()
        assert await journal.restored() is None
        await journal.append(f"run {new} {old}", 0, [b"one"])
        await journal.claim(f"run {new} {old}", "worker", 60_000)
        await journal.close()


def _moved(file: Path) -> None:
    file.rename(file.with_name("elsewhere.db"))


def _replaced(file: Path) -> None:
    SQLiteJournal(file.with_name("other.db"))
    file.with_name("other.db").replace(file)


def _without_wal(file: Path) -> None:
    file.with_name("runs.db-wal").unlink()


def _without_shm(file: Path) -> None:
    """The next process would make another, and neither would see the locks of the other."""
    file.with_name("runs.db-shm").unlink()


GONE: dict[str, Callable[[Path], object]] = {
    "moved": _moved,
    "replaced": _replaced,
    "deleted": Path.unlink,
    "without its -wal file": _without_wal,
    "without its -shm file": _without_shm,
}


@pytest.mark.parametrize("how", GONE)
async def test_nothing_is_acknowledged_in_a_file_that_is_not_there_any_more(
    how: str, home: Path, tmp_path: Path
) -> None:
    """Of what is written into it no other process, and no restart, would know."""
    file = tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    await journal.append("run", 0, [b"one"])
    assert await journal.read("run") == [b"one"]
    GONE[how](file)
    for ask in (lambda: journal.append("run", 1, [b"two"]), lambda: journal.read("run")):
        with pytest.raises(StorageError, match="moved, replaced or deleted while it was open"):
            await ask()
    if how == "moved":
        file.with_name("elsewhere.db").rename(file)
        await journal.append("run", 1, [b"two"])
    await journal.close()


@pytest.fixture
def own_database(database: str) -> str:
    return database


async def test_a_database_that_was_read_only_is_written_once_it_is_not(own_database: str) -> None:
    """As after a failover, or where a provider makes a full disk read-only: a connection would stay as it began."""
    open_journal(own_database)
    name = own_database.rpartition("/")[2]
    with psycopg.connect(own_database, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on".encode())
        journal = PostgresJournal(own_database)
        with pytest.raises(StorageError, match="read-only"):
            await journal.append("run", 0, [b"one"])
        db.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = off".encode())
    await journal.append("run", 0, [b"one"])
    await journal.close()


async def test_a_process_that_holds_the_lock_of_the_schema_keeps_nobody_from_opening(own_database: str) -> None:
    await PostgresJournal(own_database).close()
    with psycopg.connect(own_database) as stopped:
        stopped.execute("SELECT pg_advisory_xact_lock(hashtext('keyturn.schema'))")
        await PostgresJournal(own_database).close()


def _lock_timeout(db: Any) -> Any:
    return db.execute("SHOW lock_timeout")


def _parameters(db: Any) -> Any:
    return db._db.info.get_parameters()


async def test_no_lock_and_no_server_that_vanished_holds_a_journal_for_ever(own_database: str) -> None:
    """What the URL says itself is left as it is."""
    journal: Any = open_journal(own_database)
    assert await journal.whole(_lock_timeout) == [("10s",)]
    given = await journal.whole(_parameters)
    assert (given["keepalives_idle"], given["tcp_user_timeout"]) == ("10", "30000")
    await journal.close()
    journal = open_journal(own_database + "?keepalives_idle=77&options=-clock_timeout%3D3s")
    assert await journal.whole(_lock_timeout) == [("3s",)]
    assert (await journal.whole(_parameters))["keepalives_idle"] == "77"
    await journal.close()


def test_a_database_that_does_not_hold_all_text_is_refused(
    own_database: str, postgres_door: psycopg.Connection[Any]
) -> None:
    name = own_database.rpartition("/")[2]
    postgres_door.execute(f"DROP DATABASE {name}".encode())
    postgres_door.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
    with pytest.raises(StorageError, match="encoding LATIN1"):
        open_journal(own_database)


def journal_of(app: App) -> Any:
    return app.journal


async def test_a_copy_that_is_sealed_anew_needs_no_older_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory, open runs, erased ones and rows: what was ever sealed with the secret that is taken out."""
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KEYTURN_SECRET", ONE)
    payer, old, new = Payer(), f"sqlite:///{tmp_path}/old.db", f"sqlite:///{tmp_path}/new.db"
    app = App([payer.agent], old, worker=False)
    await app.people.start("ada")
    waiting = await waits(app.journal, payer)
    ended = await waits(app.journal, payer, approved=True)
    await go_on(app.journal, ended, payer)
    await app.journal.erase(ended)
    await journal_of(app).close()
    monkeypatch.setenv("KEYTURN_SECRET", OTHER)
    monkeypatch.setenv("KEYTURN_SECRETS_OLD", ONE)
    assert await asyncio.to_thread(main, ["copy", old, new, "--reseal"]) == 0
    monkeypatch.delenv("KEYTURN_SECRETS_OLD")
    assert await asyncio.to_thread(main, ["check", new]) == 0
    app = App([payer.agent], new, worker=False)
    await app.people.add("ben", by="ada")
    [request] = await app.inbox.list()
    await app.inbox.approve(request, by="ann")
    await go_on(app.journal, waiting, payer)
    assert payer.paid == ["ada", "ada"]
    assert [row.status for row in await app.runs()] == ["finished", "erased"]
    await journal_of(app).close()
