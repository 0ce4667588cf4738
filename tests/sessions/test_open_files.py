"""Files that this process has open: marked and unmarked from anywhere, also by the garbage collector."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from keyturn.support import sqlite_files
from keyturn.support.sqlite_files import OpenFile


def test_a_session_that_is_garbage_is_closed_while_another_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector runs where it likes, also where a file is marked; it waited there for the lock that it held."""
    file = tmp_path / "sessions.db"
    file.touch()
    garbage = OpenFile(file, "session")

    class Collecting(dict[Any, Any]):
        def get(self, *given: Any) -> Any:
            found = super().get(*given)
            if not garbage._closed:
                garbage.close()
            return found

    monkeypatch.setattr(sqlite_files, "_open", Collecting(sqlite_files._open))
    opened: list[OpenFile] = []
    thread = threading.Thread(target=lambda: opened.append(OpenFile(file, "session")), daemon=True)
    thread.start()
    thread.join(10)
    assert len(opened) == 1
    opened[0].close()
    OpenFile(file, "journal").close()
