"""Restored stores are noticed, and settled only when they are: what an attack found once (r1 to r13), held since."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sqlite3
from pathlib import Path

import apsw
import pytest

from keyturn import App, Inbox, Runner
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.core.errors import KeyturnError, StoreRestored
from keyturn.inbox.restored import settle
from keyturn.journal import generation
from keyturn.journal.sqlite import SQLiteJournal
from tests.waiting import until_status

from .restoring import Payer, approved_and_copied, brought_back, go_on, paid_and_brought_back, sql, waits

pytestmark = pytest.mark.usefixtures("home")


async def test_somebody_with_another_key_does_not_settle_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store stays unsettled where `keyturn restored` has not its key: sudo, or a shell without KEYTURN_SECRET."""
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-service")
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    monkeypatch.setenv("KEYTURN_SECRET", "what-root-has-in-its-shell")
    code = await asyncio.to_thread(main, ["restored", f"sqlite:///{file}"])
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-service")
    assert code == 1
    async with App([payer.agent], f"sqlite:///{file}") as app:  # a worker, as any evening
        await until_status(app, run, "failed")
    assert payer.paid == ["ada"]


async def test_a_run_that_could_not_be_read_when_settled_does_not_run_once_mended(tmp_path: Path) -> None:
    """The store stays unsettled, so that lines brought back from a copy, as the manual says, let no call run."""
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
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_a_restored_store_is_not_copied_before_it_is_settled(tmp_path: Path) -> None:
    """`keyturn copy` refuses a store that is known to be restored: its copy would be one that nobody suspects."""
    payer, file, new = Payer(), tmp_path / "runs.db", tmp_path / "new.db"
    run = await paid_and_brought_back(file, payer)
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert await asyncio.to_thread(main, ["copy", f"sqlite:///{file}", f"sqlite:///{new}"]) == 1
    assert payer.paid == ["ada"]


async def test_a_backup_brought_back_under_a_running_process_is_noticed(tmp_path: Path) -> None:
    """A process asks its mark before each claim: SQLite's own `.restore` works on a store that is open."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = await approved_and_copied(file, payer, journal)
    await go_on(journal, run, payer)
    source, target = apsw.Connection(str(file.with_name("backup.db"))), apsw.Connection(str(file))
    with target.backup("main", source, "main") as backup:
        backup.step()
    source.close(), target.close()
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_a_rolled_back_file_with_another_id_is_noticed(tmp_path: Path) -> None:
    """What a store notes of itself is sealed: an id that nobody with the key wrote is no store without marks."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    sql(file, "UPDATE meta SET value = ? WHERE name = 'id'", secrets.token_hex(16))
    journal = SQLiteJournal(file)
    report = await check(journal)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert (payer.paid, report.ok) == (["ada"], False)


async def test_a_planted_line_hides_no_later_restore(tmp_path: Path) -> None:
    """The mark counts transactions by a number that is sealed: a line with the largest rowid does not blind it."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    await journal.close()
    sql(file, "INSERT INTO events (rowid, tenant, run, seq, line) VALUES (9223372036854775807, 'x', 'x', 0, x'00')")
    run = await paid_and_brought_back(file, payer)  # an honest backup, honestly brought back
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_a_line_planted_and_taken_away_stops_nobody(tmp_path: Path) -> None:
    """An honest store is not taken for a restored one, as no line of it is missing."""
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
    assert payer.paid == ["ada"]


async def test_the_words_of_a_planted_note_are_shown_to_nobody(tmp_path: Path) -> None:
    """No reason of a request is taken from a note that is not sealed: whoever can write meta says nothing by it."""
    payer, file = Payer(), tmp_path / "runs.db"
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
    assert "altered" in row.reason
    assert "SECURITY TEAM" not in row.reason
    assert report.ok, "the settling wrote the notes anew"


async def test_a_run_whose_row_cannot_be_listed_is_settled_all_the_same(tmp_path: Path) -> None:
    """The settling goes by names, which rows, lines and requests have, so that no run is left out of it."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    sql(file, "UPDATE runs SET started_at = 'x'")
    journal = SQLiteJournal(file)
    done = await settle(journal)
    assert done is not None
    assert done.runs + done.unread == 1
    sql(file, "UPDATE runs SET started_at = 1")
    with contextlib.suppress(KeyturnError):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_a_row_that_is_no_text_keeps_no_store_from_being_settled(tmp_path: Path) -> None:
    """A store is settled though a row of it names nobody: no such tenant can be called by anybody."""
    payer, file = Payer(), tmp_path / "runs.db"
    await paid_and_brought_back(file, payer)
    sql(file, "INSERT INTO runs (tenant, run) VALUES (CAST(x'ff' AS TEXT), 'x')")
    journal = SQLiteJournal(file)
    try:
        assert str(await settle(journal)) == "1 open runs stopped; 1 calls in doubt, 0 ask anew"
        assert await journal.restored() is None
    finally:
        await journal.close()


async def test_a_process_that_noticed_goes_on_refusing_when_the_note_is_deleted(tmp_path: Path) -> None:
    """A process forgets what it noticed only on a sealed settlement, not because a row is gone."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await paid_and_brought_back(file, payer)
    journal = SQLiteJournal(file)
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    sql(file, "DELETE FROM meta WHERE name = 'restored'")
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_check_writes_nothing_into_the_copy_it_checks(tmp_path: Path) -> None:
    """A backup that was only looked at notes no restore."""
    payer, file = Payer(), tmp_path / "runs.db"
    await approved_and_copied(file, payer)
    backup = file.with_name("backup.db")
    assert await asyncio.to_thread(main, ["check", f"sqlite:///{backup}"]) == 0
    found = dict(sqlite3.connect(backup).execute("SELECT name, value FROM meta").fetchall())
    assert "restored" not in found, json.dumps(found)


async def test_a_newer_backup_is_noticed_after_an_older_one_was_settled(tmp_path: Path) -> None:
    """A settlement marks what its place held before: monday's backup is brought back and settled, then tuesday's."""
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
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    await journal.close()
    assert payer.paid == ["ada"]


async def test_a_store_that_others_write_to_while_it_is_opened_is_not_taken_for_a_restored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marks are read after the file: what is committed in between stands in them, and not in what was read."""
    payer, file = Payer(), tmp_path / "runs.db"
    first = SQLiteJournal(file)
    await waits(first, payer)
    loop, seen = asyncio.get_running_loop(), generation.known

    def others_commit_first(store: str, place: str) -> tuple[int, bool]:
        monkeypatch.setattr(generation, "known", seen)  # whoever looks again does so while nobody can commit
        asyncio.run_coroutine_threadsafe(waits(first, payer), loop).result(20)
        return seen(store, place)

    monkeypatch.setattr(generation, "known", others_commit_first)
    second = await asyncio.to_thread(SQLiteJournal, file)
    assert await second.restored() is None
    await go_on(second, await waits(second, payer, approved=True), payer)
    await first.close()
    await second.close()
