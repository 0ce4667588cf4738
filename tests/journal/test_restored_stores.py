"""Restored stores that went unnoticed, or were settled without being settled: what an attack found, held since."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sqlite3
from pathlib import Path

import apsw
import pytest

from keyturn import App, Inbox
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.core.errors import KeyturnError, StoreRestored
from keyturn.engine import play
from keyturn.inbox.restored import settle
from keyturn.journal.sqlite import SQLiteJournal

from .restoring import NoLedger, Payer, approved_and_copied, brought_back, go_on, paid_and_brought_back, sql


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KEYTURN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(play, "LEDGER", NoLedger())


async def test_r1_restored_with_another_key_settles_the_store_and_what_ran_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`keyturn restored` by somebody without the key (sudo, a shell without KEYTURN_SECRET) marks all as settled."""
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-service")
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    monkeypatch.setenv("KEYTURN_SECRET", "what-root-has-in-its-shell")
    code = await asyncio.to_thread(main, ["restored", f"sqlite:///{file}"])
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-service")
    async with App([payer.agent], f"sqlite:///{file}") as app:  # a worker, as any evening
        await asyncio.sleep(1)
        assert payer.paid == ["ada"], (code, "the approved call ran a second time, silently")
        assert (await app.get(run)).status != "finished"


async def test_r2_a_run_that_could_not_be_read_when_settled_runs_again_once_mended(tmp_path: Path) -> None:
    """The manual's remedy, bring its lines back from a copy, lets the call run without a doubt."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    [(good,)] = sqlite3.connect(file).execute("SELECT line FROM events WHERE seq = 1").fetchall()
    sql(file, "UPDATE events SET line = x'00' WHERE seq = 1")
    journal = SQLiteJournal(file)
    done = await settle(journal)
    assert done is not None
    assert done.unread == 1
    await journal.close()
    sql(file, "UPDATE events SET line = ? WHERE seq = 1", good)
    journal = SQLiteJournal(file)
    with contextlib.suppress(KeyturnError):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_r3_copying_a_restored_store_forgets_that_it_was(tmp_path: Path) -> None:
    """`keyturn copy` of a store that is known to be restored makes one that nobody suspects."""
    payer, file, new = Payer(), tmp_path / "runs.db", tmp_path / "new.db"
    run = await paid_and_brought_back(file, payer)
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert await asyncio.to_thread(main, ["copy", f"sqlite:///{file}", f"sqlite:///{new}"]) == 1
    assert payer.paid == ["ada"]


async def test_r4_a_backup_brought_back_under_a_running_process_is_not_noticed(tmp_path: Path) -> None:
    """SQLite's own `.restore` works on an open store; the process's mark knows better, and is not asked."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = await approved_and_copied(file, payer, journal)
    await go_on(journal, run, payer)
    source, target = apsw.Connection(str(file.with_name("backup.db"))), apsw.Connection(str(file))
    with target.backup("main", source, "main") as backup:
        backup.step()
    source.close(), target.close()
    with contextlib.suppress(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_r5_a_rolled_back_file_with_another_id_is_not_noticed(tmp_path: Path) -> None:
    """meta is not sealed: one UPDATE, and the marks of the path are those of somebody else."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    sql(file, "UPDATE meta SET value = ? WHERE name = 'id'", secrets.token_hex(16))
    journal = SQLiteJournal(file)
    report = await check(journal)
    with contextlib.suppress(KeyturnError):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"], f"ran again; check was clean: {report.ok}"


async def test_r6_one_row_makes_every_later_restore_go_unnoticed(tmp_path: Path) -> None:
    """The mark counts max(rowid) of all tenants' lines: a line of nobody's run with the largest rowid blinds it."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    await journal.close()
    sql(file, "INSERT INTO events (rowid, tenant, run, seq, line) VALUES (9223372036854775807, 'x', 'x', 0, x'00')")
    run = await paid_and_brought_back(file, payer)  # an honest backup, honestly brought back
    journal = SQLiteJournal(file)
    report = await check(journal)
    with contextlib.suppress(KeyturnError):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"], f"ran again; check was clean: {report.ok}"


async def test_r7_one_row_planted_and_taken_away_stops_the_fleet(tmp_path: Path) -> None:
    """The same the other way: an honest store is taken for restored, although no line is missing."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await approved_and_copied(file, payer)
    sql(file, "INSERT INTO events (rowid, tenant, run, seq, line) VALUES (4000000000, 'x', 'x', 0, x'00')")
    await SQLiteJournal(file).close()
    sql(file, "DELETE FROM events WHERE tenant = 'x'")
    journal = SQLiteJournal(file)
    try:
        await go_on(journal, run, payer)
    finally:
        await journal.close()


async def test_r8_the_words_of_an_unsealed_row_are_sealed_into_every_log_and_shown_to_people(tmp_path: Path) -> None:
    """Whoever can write meta makes Keyturn say anything, in its own name, as the reason of every request."""
    payer, file = Payer(), tmp_path / "runs.db"
    from keyturn import Runner

    journal = SQLiteJournal(file)
    await Runner.run(payer.agent, "go", journal=journal)
    await journal.close()
    sql(
        file,
        "INSERT INTO meta VALUES ('restored', 'is fine. SECURITY TEAM: pre-approved, please press approve \x1b[2J')",
    )
    journal = SQLiteJournal(file)
    await settle(journal)
    [row] = await journal.requests()
    report = await check(journal)
    await journal.close()
    assert "SECURITY TEAM" not in row.reason, (row.reason, report.ok)


async def test_r9_a_run_whose_row_cannot_be_listed_is_not_settled_and_runs(tmp_path: Path) -> None:
    """The settling goes by rows that are left out where their time is no number; what is due does not."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    sql(file, "UPDATE runs SET started_at = 'x'")
    journal = SQLiteJournal(file)
    await settle(journal)
    sql(file, "UPDATE runs SET started_at = 1")
    with contextlib.suppress(KeyturnError):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_r10_one_row_that_is_no_text_keeps_a_restored_store_from_ever_being_settled(tmp_path: Path) -> None:
    payer, file = Payer(), tmp_path / "runs.db"
    await paid_and_brought_back(file, payer)
    sql(file, "INSERT INTO runs (tenant, run) VALUES (CAST(x'ff' AS TEXT), 'x')")
    journal = SQLiteJournal(file)
    try:
        assert (await settle(journal)) is not None
    finally:
        await journal.close()


async def test_r11_deleting_the_mark_in_the_file_lets_a_process_that_noticed_go_on(tmp_path: Path) -> None:
    """A process that refused yesterday believes the store today, as a row is gone or another copy was put there."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    sql(file, "DELETE FROM meta WHERE name = 'restored'")
    with contextlib.suppress(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_r12_check_writes_into_the_copy_it_checks(tmp_path: Path) -> None:
    """`Nothing is written`: a backup that was only looked at is marked as restored."""
    payer, file = Payer(), tmp_path / "runs.db"
    await approved_and_copied(file, payer)
    backup = file.with_name("backup.db")
    assert await asyncio.to_thread(main, ["check", f"sqlite:///{backup}"]) == 0
    found = dict(sqlite3.connect(backup).execute("SELECT name, value FROM meta").fetchall())
    assert "restored" not in found, json.dumps(found)


async def test_r13_going_back_to_the_newer_backup_after_the_older_one_was_settled_is_not_noticed(
    tmp_path: Path,
) -> None:
    """No attacker: monday's backup is brought back and settled, then tuesday's. The path's marks are of another id."""
    from keyturn import Runner

    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    await journal.backup(tmp_path / "monday.db")
    [row] = await journal.requests()
    await Inbox(journal).approve(row, by="ann")
    await journal.backup(tmp_path / "tuesday.db")
    await journal.close()
    brought_back(tmp_path / "monday.db", file)
    journal = SQLiteJournal(file)
    assert await settle(journal) is not None
    [row] = await Inbox(journal).list()
    await Inbox(journal).approve(row, by="ann")
    await go_on(journal, run, payer)
    assert payer.paid == ["ada"]
    await journal.close()
    brought_back(tmp_path / "tuesday.db", file)
    journal = SQLiteJournal(file)
    with contextlib.suppress(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]
