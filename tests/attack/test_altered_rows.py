"""What an attack found, held since: altered rows hung and locked people out, erasing took or left too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from keyturn import Agent, App, Inbox, Runner, RunState
from keyturn.journal.retention import erase_ended
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel
from tests.journal.restoring import Payer, go_on, sql

pytestmark = pytest.mark.usefixtures("home")


async def test_what_was_erased_is_still_in_the_file(tmp_path: Path) -> None:
    """An erased run's lines and rows are gone, says the manual; their bytes are not."""
    file, secret = tmp_path / "runs.db", "tr0ub4dor-and-3"
    journal = SQLiteJournal(file)
    agent = Agent("a", model=ScriptedModel(["hello"]))
    run = (await Runner.run(agent, f"my password is {secret} " * 200, journal=journal)).run_id
    await journal.erase(run)
    await journal.close()
    found = {path.name: path.read_bytes().count(secret.encode()) for path in tmp_path.glob("runs.db*")}
    assert not any(found.values()), found


async def test_waiting_for_a_run_whose_row_was_altered_never_ends(tmp_path: Path) -> None:
    """The run is over, its log is good, only its row is not: `wait` and `result` hung."""
    file = tmp_path / "runs.db"
    async with App([Agent("a", model=ScriptedModel(["hello"]))], f"sqlite:///{file}") as app:
        run = await app.start("a", "hi")
        await run.wait()
        sql(file, "UPDATE runs SET turns = 7")
        await run.wait(timeout=5)  # without a timeout: for ever


async def test_a_request_whose_row_was_altered_can_never_be_decided(tmp_path: Path) -> None:
    """Its log is untouched and says all there is in the row; nothing makes the row anew, no command, no resume."""
    payer, file = Payer(), tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    [row] = await journal.requests()
    sql(file, "UPDATE requests SET reason = 'x'")
    inbox = Inbox(journal)
    await inbox.send(run, "hello")
    await Runner.run(payer.agent, await RunState.load(journal, run, payer.agent))  # even a drive does not mend it
    try:
        await inbox.approve(row.id, by="ann", digest=row.digest)
    finally:
        await journal.close()


async def test_erase_forgets_a_run_that_waits_where_its_row_was_altered(tmp_path: Path) -> None:
    """`What waits is never old`: a row that does not verify is believed as far as its status and its start."""
    file, payer = tmp_path / "runs.db", Payer()
    journal = SQLiteJournal(file)
    run = (await Runner.run(payer.agent, "go", journal=journal)).run_id
    sql(file, "UPDATE runs SET status = 'finished', started_at = 1")
    count = await erase_ended(journal, await journal.now() - 90 * 86_400_000)
    lines = await journal.read(run)
    await journal.close()
    assert count == 0
    assert lines


async def test_without_the_key_that_sealed_it_erase_goes_by_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key was taken away: a run that ended just now was erased as if it had ended long ago."""
    file = tmp_path / "runs.db"
    clock = [1_000_000_000_000]
    monkeypatch.setenv("KEYTURN_SECRET", "the-old-secret-long-enough")
    payer2 = Payer()
    journal = SQLiteJournal(file, clock=lambda: clock[0])
    run = (await Runner.run(payer2.agent, "go", journal=journal)).run_id
    clock[0] += 100 * 86_400_000
    [row] = await journal.requests()
    await Inbox(journal).approve(row, by="ann")
    await go_on(journal, run, payer2)
    monkeypatch.setenv("KEYTURN_SECRET", "the-new-secret-long-enough")
    count = await erase_ended(journal, clock[0] - 90 * 86_400_000)
    await journal.close()
    assert count == 0, "it ended this very second"
