"""What an attack found, held since: a store's mark was mapped memory, and a full disk ended the process (SIGBUS)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from keyturn.journal.sqlite import SQLiteJournal

pytestmark = pytest.mark.usefixtures("home")


async def test_a_truncated_mark_is_written_anew_at_the_next_commit(tmp_path: Path) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")
    await journal.append("a", 0, [b"x"])
    [mark] = (tmp_path / "home" / "keyturn" / "stores").iterdir()
    before = mark.read_bytes()
    os.truncate(mark, 0)
    await journal.append("a", 1, [b"x"])
    await journal.close()
    after = mark.read_bytes()
    assert (after[0], after[8:]) == (before[0] + 1, before[8:])


async def test_a_full_disk_under_the_mark_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SQLiteJournal(tmp_path / "runs.db")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    for place in range(3):
        await journal.append("a", place, [b"x"])
    await SQLiteJournal(tmp_path / "other.db").close()
    await journal.close()
    assert len([each for each in caplog.messages if "No space" in each and "cannot be written," in each]) == 1
