"""What an attack found, held since: a session in the journal's own file destroyed the journal.

Two SQLite libraries in one process drop each other's POSIX locks, so neither may open the other's file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keyturn import SQLAlchemySession, SQLiteSession
from keyturn.core.errors import StorageError, UserError
from keyturn.journal.sqlite import SQLiteJournal

HELLO = [{"role": "user", "content": "hello"}]


pytestmark = pytest.mark.usefixtures("home")


async def test_a_session_refuses_the_file_of_an_open_journal(tmp_path: Path) -> None:
    file, link = tmp_path / "runs.db", tmp_path / "link.db"
    journal = SQLiteJournal(file)
    link.symlink_to(file)
    for n in range(5):
        await journal.append(f"r{n}", 0, [b"x"])
        for session in (SQLiteSession("s", file), SQLiteSession("s", link)):
            with pytest.raises(UserError, match="file of a journal"):
                await session.add_items(HELLO)
            session.close()
    assert await journal.whole(lambda db: db.execute("PRAGMA integrity_check")) == [("ok",)]
    await journal.close()


async def test_a_session_refuses_a_file_that_was_a_journal(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    await SQLiteJournal(file).close()
    with pytest.raises(UserError, match="file of a journal"):
        await SQLiteSession("s", file).get_items()
    await SQLiteJournal(file).close()  # and left nothing behind


async def test_sqlalchemy_refuses_both(tmp_path: Path) -> None:
    pytest.importorskip("aiosqlite")
    file = tmp_path / "runs.db"
    journal = SQLiteJournal(file)
    await journal.append("r", 0, [b"x"])
    session = SQLAlchemySession("s", url=f"sqlite:///{file}", create_tables=True)
    for closes in (True, False):
        with pytest.raises(UserError, match="file of a journal"):
            await session.add_items(HELLO)
        if closes:
            await journal.close()
    await session.close()


async def test_a_journal_refuses_the_file_of_an_open_session(tmp_path: Path) -> None:
    file = tmp_path / "chats.db"
    session = SQLiteSession("s", file)
    await session.add_items(HELLO)
    with pytest.raises(StorageError, match="a session's"):
        SQLiteJournal(file)
    session.close()
    with pytest.raises(StorageError, match="another application's"):
        SQLiteJournal(file)
