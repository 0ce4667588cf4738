"""The table of decisions: one row each, one line each, and no cell that a spreadsheet would run."""

from __future__ import annotations

import csv
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from keyturn import MemoryJournal, Runner
from keyturn.audit.decisions.table import COLUMNS, cell
from keyturn.audit.service import Audit
from tests.audit.records import a_call, paid, paying

DANGER = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")


@given(st.text())
def test_no_cell_is_a_formula_or_more_than_a_line(text: str) -> None:
    shown = cell(text)
    assert not shown.lstrip(" ").startswith(DANGER)
    assert "\n" not in shown
    assert "\r" not in shown


async def test_a_hostile_note_is_text_in_the_table(tmp_path: Path) -> None:
    journal = MemoryJournal()
    evil = '=cmd|"/c calc"!A1\n@SUM(1+1)\u202e'
    await paid(journal, a_call(1), by="-ada", note=evil)
    agent = paying(a_call(2, token="hush-hush"), "Done.")
    result = await Runner.run(agent, "go", journal=journal)
    state = result.to_state()
    state.reject(result.interruptions[0], by="+bob", rejection_message="@now")
    await Runner.run(agent, state)
    audit = Audit(journal, key=tmp_path / "key")
    await audit.export(tmp_path / "table.csv", format="csv")
    with (tmp_path / "table.csv").open(newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    assert tuple(head) == COLUMNS
    assert len(rows) == len(await audit.search(limit=1_000))
    assert all(not value.startswith(DANGER) for row in rows for value in row)
    assert "hush" not in (tmp_path / "table.csv").read_text()
    assert any("cmd" in value for row in rows for value in row)
    assert len((tmp_path / "table.csv").read_text().splitlines()) == len(rows) + 1
    await audit.export(tmp_path / "bob.csv", format="csv", person="+bob")
    assert len((tmp_path / "bob.csv").read_text().splitlines()) == 2
