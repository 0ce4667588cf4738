"""What an attack found, held since: rows whose key is no text made workers spin, and starved all other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import App
from keyturn.audit.checker import check
from keyturn.journal.sqlite import SQLiteJournal
from tests.attack.world import looks_of_an_idle_worker
from tests.journal.restoring import Payer, approved_and_copied, sql, sqls
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("name", ["x'6162'", "CAST(x'ff' AS TEXT)"])
async def test_one_row_whose_run_is_no_text_makes_every_worker_spin(tmp_path: Path, name: str) -> None:
    """`due` leaves it out, `next_due` does not: `wait_until_due` returns at once, for ever."""
    payer, file = Payer(), tmp_path / "runs.db"
    await SQLiteJournal(file).close()
    sql(file, f"INSERT INTO runs (tenant, run, head, due) VALUES ('default', {name}, 1, 0)")
    journal = SQLiteJournal(file)
    report = await check(journal)
    looked = await looks_of_an_idle_worker(journal, payer.agent)
    await journal.close()
    assert looked < 10, f"it looked {looked} times, idle; check clean: {report.ok}"


@pytest.mark.trial
async def test_a_hundred_rows_whose_run_is_no_text_starve_all_others(tmp_path: Path) -> None:
    """They fill the page of what is due, and are left out of it afterwards."""
    payer, file = Payer(), tmp_path / "runs.db"
    run = await approved_and_copied(file, payer)
    planted = "INSERT INTO runs (tenant, run, head, due) VALUES ('default', ?, 1, 0)"
    sqls(file, *((planted, (b"%d" % n,)) for n in range(100)))
    journal = SQLiteJournal(file)
    due, report = await journal.due(), await check(journal)
    async with App([payer.agent], journal):
        await until(lambda: payer.paid)
    await journal.close()
    assert (due, payer.paid) == ([run], ["ada"]), f"never taken up; check clean: {report.ok}"


@pytest.mark.trial
async def test_rows_that_are_no_text_cost_what_they_are_and_no_page_is_read_row_by_row(tmp_path: Path) -> None:
    """They were asked for one by one, each by its place: quadratic."""
    file, asked = tmp_path / "runs.db", list[str]()
    await SQLiteJournal(file).close()
    row = "INSERT INTO runs (tenant, run, head, due) VALUES ('default', CAST(x'ff{:06x}' AS TEXT), 1, 0)"
    sqls(file, *((row.format(n), ()) for n in range(400)))
    journal = SQLiteJournal(file)

    def count(db: Any) -> None:
        db._cursor.exec_trace = lambda cursor, said, values: asked.append(said) or True

    await journal.whole(count)
    assert await journal.due() == []
    await journal.close()
    assert len(asked) == 1
