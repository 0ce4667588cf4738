"""A damaged index hides rows from whoever lists by it; the check goes over the whole file and says so."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from keyturn import Runner
from keyturn.audit.checker import check
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal

from .restoring import Payer

_EMPTIED = "UPDATE sqlite_schema SET sql = sql || ' WHERE 0' WHERE name = 'runs_started'"
_WHOLE = "UPDATE sqlite_schema SET sql = replace(sql, ' WHERE 0', '') WHERE name = 'runs_started'"


async def test_rows_that_an_index_lacks_are_reported(tmp_path: Path) -> None:
    """Found by `make rot`: one byte of an index left a run out of every list, and the check saw nothing."""
    file = tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    run = (await Runner.run(Payer().agent, "go", journal=journal)).run_id
    await journal.close()
    for statement in (_EMPTIED, "REINDEX runs_started", _WHOLE):
        with closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute(statement)
            db.commit()
    journal = SQLiteJournal(file)
    assert await journal.runs() == []
    assert [row.run for row in await journal.runs(Query(run=run))] == [run]
    report = await check(journal)
    assert "the file is damaged: row 1 missing from index runs_started" in [each.what for each in report.violations]
    await journal.close()
