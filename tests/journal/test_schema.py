"""A store of each earlier schema is one of the newest once it is opened, and works."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from keyturn.journal import open_journal
from keyturn.journal import statements as say
from tests.journal.older import WITHOUT_PRIORITIES, altered


def test_each_list_of_statements_is_one_version() -> None:
    for dialect in (say.SQLITE, say.POSTGRES):
        assert len(say.migrations(dialect)) == say.SCHEMA - say.FIRST + 1


async def test_a_file_of_a_version_before_has_the_columns_and_indexes_of_now(tmp_path: Path) -> None:
    """Found where the number of the schema was left as it was: a file of before was read as if it had the column."""
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    for path in (new, old):
        await open_journal(f"sqlite:///{path}").close()
    altered(f"sqlite:///{old}", *WITHOUT_PRIORITIES, version=10)
    assert made(old) != made(new)
    await open_journal(f"sqlite:///{old}").close()
    assert made(old) == made(new)


def made(path: Path) -> tuple[set[str], dict[str, str]]:
    """The columns of runs, and the statements of all indexes."""
    with sqlite3.connect(path) as db:
        columns = {row[1] for row in db.execute("PRAGMA table_info(runs)")}
        return columns, dict(db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index'"))
