"""A store that was brought back from a copy notices it: what it lets run is in doubt, and nothing runs twice."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keyturn import App, Grant, Inbox, Runner
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.core.errors import Conflict, StorageError, StoreRestored
from keyturn.directory.people import People
from keyturn.engine.facts.reaches import reaches_of
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox.restored import settle
from keyturn.journal import open_journal, postgres_schema
from keyturn.journal.postgres import PostgresConnection
from keyturn.journal.sqlite import SQLiteJournal
from tests.waiting import until_status

from .restoring import Payer, Place, loaded_elsewhere, waits

pytestmark = pytest.mark.usefixtures("home")


def copied(source: Path, target: Path) -> None:
    """Copy a file over another, as one brings a backup back."""
    for end in ("-wal", "-shm"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    shutil.copyfile(source, target)


async def backed_up(file: Path, payer: Payer, *, approved: bool = False) -> str:
    """A run that waits, of which a backup is taken; its id."""
    journal = SQLiteJournal(file)
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    if approved:
        [row] = await journal.requests()
        await Inbox(journal).approve(row, by="ann")
    await journal.backup(file.with_name("backup.db"))
    await journal.close()
    return run


async def paid_and_brought_back(file: Path, payer: Payer, *, approved: bool = False) -> str:
    """The run went on after the backup, and paid; then the backup was brought back."""
    run = await backed_up(file, payer, approved=approved)
    journal = SQLiteJournal(file)
    state = await loaded_elsewhere(journal, run, payer.agent)
    if not approved:
        state.approve(state.get_interruptions()[0], by="ann")
    await Runner.run(payer.agent, state)
    assert payer.paid == ["ada"]
    await journal.close()
    copied(file.with_name("backup.db"), file)
    return run


async def test_what_ran_after_the_backup_is_in_doubt_and_does_not_run_again(tmp_path: Path) -> None:
    """H7: approved before the copy, run after it; the copy still says that it may run."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer, approved=True)
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored, match="keyturn restored"):
        await Runner.run(payer.agent, await loaded_elsewhere(journal, run, payer.agent))
    assert payer.paid == ["ada"]
    done = await settle(journal)
    assert done is not None
    assert (done.runs, done.doubts, done.asked, done.unread) == (1, 1, 0, 0)
    [row] = await journal.runs()
    assert (row.status, row.error) == ("failed", "StoreRestored")
    [request] = await journal.requests()
    assert (request.kind, request.state) == ("in_doubt", "open")
    report = await check(journal)
    assert report.ok, report.violations
    await Inbox(journal).resolve(request, "ran", "it was paid", by="ann")
    result = await Runner.run(payer.agent, await loaded_elsewhere(journal, run, payer.agent))
    assert (result.final_output, payer.paid) == ("done", ["ada"])
    await journal.close()


async def test_what_waits_in_a_restored_store_asks_anew(tmp_path: Path) -> None:
    """H7: an approval that was given before is none any more, and the reason says why it is asked again."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    journal = SQLiteJournal(file)
    [before] = await journal.requests()
    assert str(await settle(journal)) == "1 open runs stopped; 0 calls in doubt, 1 ask anew"
    [after] = await journal.requests()
    assert (after.id, after.state) == (before.id, "open")
    assert "restored from a backup" in after.reason
    with pytest.raises(Conflict):
        await Inbox(journal).approve(before, by="ann", digest=before.digest)
    assert (await check(journal)).ok
    assert (await journal.runs())[0].run == run
    await journal.close()


async def test_it_can_be_interrupted_and_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H7: the store stays marked until every run was told, each once."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    runs = [(await Runner.run(payer.agent, "go", journal=journal)).run_id for _ in range(3)]
    await journal.taken_for_restored("was brought back, the test says")
    told = 0
    true = Inbox.tell

    async def dies(self: Inbox, run: str, *commands: Any) -> Any:
        nonlocal told
        told += 1
        if told == 3:
            raise asyncio.CancelledError
        return await true(self, run, *commands)

    monkeypatch.setattr(Inbox, "tell", dies)
    with pytest.raises(asyncio.CancelledError):
        await settle(journal)
    await journal.close()
    monkeypatch.undo()
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await journal.claim(runs[0], "w", 60_000)
    heads = {run: await journal.head(run) for run in runs}
    assert await settle(journal) is not None
    grown = [run for run in runs if await journal.head(run) > heads[run]]
    assert len(grown) == 1, "those that were told already are not told again"
    assert await settle(journal) is None
    await journal.release(await journal.claim(runs[0], "w", 60_000))
    await journal.close()


async def test_a_worker_settles_by_itself_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """H7."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer, approved=True)
    journal = SQLiteJournal(file)
    with caplog.at_level(logging.WARNING, "keyturn.worker"):
        async with App([payer.agent], journal) as app:
            await until_status(app, run, "failed")
    assert payer.paid == ["ada"]
    assert "1 open runs stopped; 1 calls in doubt" in caplog.text
    await journal.close()


def test_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H7."""
    payer, file = Payer(), tmp_path / "runs.db"
    asyncio.run(paid_and_brought_back(file, payer))
    assert main(["restored", f"sqlite:///{file}"]) == 0
    assert capsys.readouterr().out == "1 open runs stopped; 0 calls in doubt, 1 ask anew\n"
    assert main(["restored", f"sqlite:///{file}"]) == 0
    assert "no restore was detected" in capsys.readouterr().out
    assert main(["restored", f"sqlite:///{file}", "--anyway"]) == 0
    assert capsys.readouterr().out == "1 open runs stopped; 0 calls in doubt, 1 ask anew\n"
    assert main(["restored", "memory://"]) == 1


async def test_a_store_that_goes_on_is_never_taken_for_a_copy(tmp_path: Path) -> None:
    """Opened again and again, by two at once, moved to another place: it is the same store."""
    payer, file = Payer(), tmp_path / "runs.db"
    for _ in range(3):
        one, other = SQLiteJournal(file), SQLiteJournal(file)
        await Runner.run(payer.agent, "go", journal=one)
        await Runner.run(payer.agent, "go", journal=other)
        assert (await one.restored(), await other.restored()) == (None, None)
        await one.close()
        await other.close()
    moved = tmp_path / "elsewhere.db"
    file.rename(moved)
    journal = SQLiteJournal(moved)
    await Runner.run(payer.agent, "go", journal=journal)
    await journal.close()
    across = tmp_path / "across.db"
    shutil.copyfile(moved, across)
    moved.unlink()
    journal = SQLiteJournal(across)
    assert await journal.restored() is None
    await journal.close()


async def test_a_copy_beside_a_store_that_lives_is_no_second_one(tmp_path: Path) -> None:
    """Both hold the same open calls: only one of them may run them."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await backed_up(file, payer, approved=True)
    copy = SQLiteJournal(tmp_path / "backup.db")
    with pytest.raises(StoreRestored, match="still exists"):
        await copy.claim(run, "w", 60_000)
    assert len(await copy.requests()) == 1, "it can be looked at"
    journal = SQLiteJournal(file)
    await Runner.run(payer.agent, await loaded_elsewhere(journal, run, payer.agent))
    assert payer.paid == ["ada"]
    assert await settle(copy) is not None
    await copy.close()
    again = SQLiteJournal(tmp_path / "backup.db")
    assert await again.restored() is None, "it is a store of its own now"
    await again.close()
    assert await journal.restored() is None
    await journal.close()


@pytest.mark.each
async def test_copies_of_an_empty_store_are_stores_of_their_own(place: Place) -> None:
    """A template: nothing in it could run twice. A copy of one that is in use by then is a copy, as of any other."""
    await place.opened().close()
    copies = [place.copied_to(f"{place.url.rpartition('/')[2]}_{number}") for number in range(4)]
    found: set[str] = set()
    for copy in [*copies, place]:
        for _ in range(2):
            journal = copy.opened()
            await Runner.run(Payer().agent, "go", journal=journal)
            assert await journal.restored() is None
            await journal.close()
        found.add(journal.identity)
    assert len(found) == len(copies) + 1
    second = copies[0].copied_to(f"{place.url.rpartition('/')[2]}_x").opened()
    assert await second.restored() is not None
    await second.close()


async def test_a_mark_is_ahead_of_nothing_and_its_loss_harms_nobody(tmp_path: Path, home: Path) -> None:
    """A state directory that is lost, spoilt or cannot be written: nothing is noticed, and nothing fails."""
    payer, file = Payer(), tmp_path / "runs.db"
    await backed_up(file, payer)
    for mark in (home / "keyturn" / "stores").iterdir():
        assert (mark.stat().st_mode & 0o777) == 0o600
        mark.write_bytes(b"\xff" * 20)
    for spoil in (lambda: None, lambda: shutil.rmtree(home / "keyturn" / "stores")):
        spoil()
        journal = SQLiteJournal(file)
        assert await journal.restored() is None
        await journal.close()
    shutil.rmtree(home / "keyturn" / "stores")
    (home / "keyturn" / "stores").write_text("")
    journal = SQLiteJournal(file)
    await Runner.run(payer.agent, "go", journal=journal)
    await journal.close()


ALTERED = {
    "another id": "UPDATE meta SET value = '0123456789abcdef0123456789abcdef' WHERE name = 'id'",
    "an earlier generation": "UPDATE meta SET value = '0' WHERE name = 'generation'",
    "a place more": "INSERT INTO meta VALUES ('filling', 'yes')",
    "another seal": "UPDATE meta SET value = 'x' WHERE name = 'seal'",
    "no seal": "DELETE FROM meta WHERE name = 'seal'",
    "no notes": "DELETE FROM meta",
}


@pytest.mark.parametrize("how", ALTERED)
async def test_a_store_whose_notes_were_altered_starts_nothing_and_check_says_so(
    place: Place, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can tell what it is a copy of: I8 is broken, and it is settled as one that was brought back."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer, approved=True)
    await journal.release(await journal.claim(run, "w", 60_000))
    await journal.write(lambda db: db.execute(ALTERED[how]))
    with pytest.raises(StoreRestored, match="altered"):
        await journal.claim(run, "w", 60_000)
    await journal.close()
    journal = place.opened()
    with pytest.raises(StoreRestored, match="altered"):
        await Runner.run(payer.agent, await loaded_elsewhere(journal, run, payer.agent))
    assert await asyncio.to_thread(main, ["check", place.url]) == 1
    said = capsys.readouterr().out
    assert "I8" in said
    assert "notes of itself was altered" in said
    assert str(await settle(journal)) == "1 open runs stopped; 1 calls in doubt, 0 ask anew"
    await journal.close()
    assert await asyncio.to_thread(main, ["check", place.url]) == 0
    assert payer.paid == []


async def test_a_store_settled_by_one_process_is_taken_up_by_another_that_had_it_open(place: Place) -> None:
    """Who knows of a restore that it nothing starts before the settlement, and goes on after it."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer, approved=True)
    await journal.release(await journal.claim(run, "w", 60_000))
    other = place.opened()
    await other.taken_for_restored("was brought back, somebody said")
    with pytest.raises(StoreRestored, match="somebody said"):
        await journal.claim(run, "w", 60_000)
    assert await settle(other) is not None
    await journal.release(await journal.claim(run, "w", 60_000))
    await journal.close()
    await other.close()


async def test_a_store_that_was_settled_is_declared_no_copy_again_by_who_noticed_the_restore_before(
    place: Place,
) -> None:
    """A server's first decision after a failover failed every run of the fleet once more."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer, approved=False)
    await journal.close()
    place.back_up()
    server = place.opened()
    await waits(server, payer, approved=False)
    place.bring_back()
    with pytest.raises(StoreRestored):
        await server.release(await server.claim(run, "w", 60_000))
    worker = place.opened()
    assert await settle(worker) is not None
    [row] = await server.requests()
    await Inbox(server).approve(row, by="ben")
    await worker.release(await worker.claim(run, "w", 60_000))
    assert await worker.faults() == []
    await worker.close()
    await server.close()


BROKEN = {
    "a statement fails": "SELECT 1 / 0",
    "the connection is lost": "SELECT pg_terminate_backend(pg_backend_pid())",
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_postgresql_store_is_made_whole_or_not_at_all(
    database: str, how: str, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Its tables and what it notes of itself come in one transaction; the next that opens it begins it whole."""
    place = Place(database)
    true = postgres_schema.begin

    def broken(db: Any) -> None:
        true(db)
        db.execute(BROKEN[how])

    monkeypatch.setattr(postgres_schema, "begin", broken)
    with pytest.raises(StorageError):
        place.opened()
    with psycopg.connect(place.url) as db:
        assert db.execute("SELECT to_regclass('meta'), to_regclass('keyturn_schema')").fetchone() == (None, None)
    monkeypatch.setattr(postgres_schema, "begin", true)
    journal = place.opened()
    assert await journal.faults() == []
    assert (await Runner.run(Payer().agent, "go", journal=journal)).interruptions
    await journal.close()


async def test_a_dump_that_was_loaded_into_another_database_is_noticed(
    new_database: Callable[[], str], home: Path
) -> None:
    """H7: `pg_dump` of one and `psql` into another."""
    place, target = Place(new_database()), Place(new_database())
    tools = [
        next(iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))), None) for name in ("pg_dump", "psql")
    ]
    found = [tool or shutil.which(name) for tool, name in zip(tools, ("pg_dump", "psql"), strict=True)]
    if None in found:
        pytest.skip("there is no pg_dump here")
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer, approved=True)
    await journal.close()
    dump = subprocess.run([str(found[0]), "-d", place.url], capture_output=True, check=True).stdout
    load = [str(found[1]), "-q", "-v", "ON_ERROR_STOP=1", "-d", target.url]
    subprocess.run(load, input=dump, capture_output=True, check=True)
    copy = target.opened()
    with pytest.raises(StoreRestored, match="another server, timeline or database"):
        await copy.claim(run, "w", 60_000)
    assert str(await settle(copy)) == "1 open runs stopped; 1 calls in doubt, 0 ask anew"
    await copy.close()
    again = target.opened()
    assert await again.restored() is None
    await again.close()
    journal = place.opened()
    assert await journal.restored() is None
    await journal.close()


async def test_a_database_that_was_restored_elsewhere_is_noticed(
    postgres_server: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H7: a copy under another name has another identity; so has another server, or another timeline of it."""
    if postgres_server is None:
        pytest.skip("there is no PostgreSQL here")
    import psycopg

    base = postgres_server.rpartition("/")[0]
    with psycopg.connect(postgres_server, autocommit=True) as db:
        for name in ("gen_one", "gen_two"):
            db.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        db.execute("CREATE DATABASE gen_one")
    payer = Payer()
    journal: Any = open_journal(f"{base}/gen_one")
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    await journal.close()
    with psycopg.connect(postgres_server, autocommit=True) as db:
        db.execute("CREATE DATABASE gen_two TEMPLATE gen_one")
    copy: Any = open_journal(f"{base}/gen_two")
    with pytest.raises(StoreRestored):
        await copy.claim(run, "w", 60_000)
    assert str(await settle(copy)) == "1 open runs stopped; 0 calls in doubt, 1 ask anew"
    await copy.release(await copy.claim(run, "w", 60_000))
    await copy.close()
    for url, why in ((f"{base}/gen_two", None), (f"{base}/gen_one", None)):
        again: Any = open_journal(url)
        assert await again.restored() is why
        await again.close()
    true = PostgresConnection.place
    monkeypatch.setattr(PostgresConnection, "place", lambda self: f"{true(self)}1")  # as after a promotion
    promoted: Any = open_journal(f"{base}/gen_one")
    assert "promoted" in str(await promoted.restored())
    await promoted.close()


async def test_a_process_that_was_up_goes_on_by_the_id_under_which_a_store_was_settled(place: Place) -> None:
    """What a person revoked after the copy was made is granted in it again, under the id of before alone."""
    up, other = place.opened(), place.opened()
    await up.release(await up.claim("a run", "w", 60_000))
    before = up.identity
    await settled_by(other)
    await up.release(await up.claim("a run", "w", 60_000))
    assert up.identity == other.identity != before
    await up.close()
    await other.close()


async def test_a_grant_for_other_runs_is_not_recorded_under_the_id_of_before(place: Place) -> None:
    """It would be shown as open, and no run would be of those that it names."""
    payer, up = Payer(), place.opened()
    run = await waits(up, payer)
    other = place.opened()
    await settled_by(other)
    [row] = await up.requests()
    with pytest.raises(StoreRestored, match="settled since this process looked at it: try again"):
        await Inbox(up).approve(row, by="ann", grant=Grant(scope="agent"))
    await Inbox(up).approve(row, by="ann", grant=Grant(scope="agent"))
    [grant] = await other.grants()
    assert grant.reach in reaches_of((await log_in(other, run)).run, other).values()
    await up.close()
    await other.close()


async def test_a_directory_is_read_anew_where_its_store_was_brought_back(place: Place) -> None:
    """Its last entries are not in the copy: who was up would refuse each login until it is restarted."""
    up = place.opened()
    people = People(up)
    await people.start("ada")
    await up.close()
    place.back_up()
    up = place.opened()
    people = People(up)
    await people.add("ben", by="ada")
    await people.add("cyd", by="ada")
    place.bring_back()
    other = place.opened()
    assert await settle(other) is not None
    assert [person.id for person in await people.list()] == ["ada"]
    await up.close()
    await other.close()


async def settled_by(journal: Any) -> None:
    """Say that a store was restored, and settle it, as `keyturn restored --anyway` does."""
    await journal.taken_for_restored("was restored, an administrator says")
    await settle(journal)
