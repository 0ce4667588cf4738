"""What a journal keeps on disk is its user's alone, whatever the umask says: it holds what people said, and secrets."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from keyturn import UserError
from keyturn.journal.process_signal import ProcessSignal
from keyturn.journal.sqlite import SQLiteJournal


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Generator[None]:
    """Each umask that is common, and none."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def short() -> Generator[Path]:
    """A directory whose name leaves room for a socket's address."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


@pytest.mark.usefixtures("umask")
async def test_every_file_of_a_store_is_private(tmp_path: Path) -> None:
    """L3: the database, its WAL, the memory that processes share, and a backup."""
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o755)
    journal = SQLiteJournal(folder / "runs.db")
    await journal.append("run", 0, [b"1"])
    await journal.backup(folder / "backup.db")
    found = modes(folder)
    assert {"runs.db", "runs.db-wal", "runs.db-shm", "backup.db"} <= found.keys()
    assert set(found.values()) == {0o600}
    copy = SQLiteJournal(folder / "backup.db")
    assert await copy.read("run") == [b"1"]
    with pytest.raises(UserError, match="never overwrites"):
        await journal.backup(folder / "backup.db")
    await copy.close()
    await journal.close()


@pytest.mark.usefixtures("umask")
def test_nobody_else_rings_or_takes_a_bell_away(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """L3: in a directory that everybody writes in, ours are private; one that somebody else made is not used."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    file = tmp_path / "runs.db"
    file.touch()
    bell = ProcessSignal(file, lambda: None)
    bell.listen()
    [ours] = short.iterdir()
    [which] = ours.iterdir()
    [socket] = which.iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (ours, which, socket)] == [0o700, 0o700, 0o600]
    bell.close()
    assert list(which.iterdir()) == []
    ours.chmod(0o777)
    other = ProcessSignal(file, lambda: None)
    other.listen()
    other.ring()
    assert list(which.iterdir()) == []
    other.close()
