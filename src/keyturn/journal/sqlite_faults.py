"""What goes wrong with a SQLite file: errors of the library, and files that were moved away while they were open."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import StorageError, StorageFull
from .store_thread import BatchFailed


class OpenFiles:
    """Knows by their inodes the files that a connection has open: a database, its WAL, and the memory of its locks.

    A process that finds no such memory makes one, and from then on neither sees the locks of the other.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names = (str(path), f"{path}-wal", f"{path}-shm")
        self._inodes = [_inode(name) for name in self._names]

    def are_there(self) -> bool:
        """Return whether the files still have their names."""
        inodes = self._inodes
        for place, name in enumerate(self._names):  # twice in each commit, and so without a function of its own
            try:
                found = os.stat(name)
            except FileNotFoundError:
                if inodes[place] is not None:
                    return False
                continue
            if inodes[place] is None:
                inodes[place] = (found.st_dev, found.st_ino)
            elif inodes[place] != (found.st_dev, found.st_ino):
                return False
        return True


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def judge(error: BaseException) -> BatchFailed:
    """Convert an error of SQLite to what it means for the job."""
    import apsw

    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return BatchFailed(
            StorageError(
                "the journal's file is locked: another process has a write transaction open, and a process that was "
                f"stopped keeps it open; resume or end that process, or wait longer with busy_timeout= ({error})"
            ),
            again=True,
        )
    if isinstance(error, apsw.FullError):
        return BatchFailed(StorageFull("there is no room left for the journal; make room and resume: nothing was lost"))
    if isinstance(error, apsw.IOError):
        # The file is opened anew before anything else is written: what a failed fsync left behind is not trusted.
        return BatchFailed(StorageError(f"the journal's file could not be written: {error}"), unknown=False)
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.CorruptError | apsw.NotADBError):
        return BatchFailed(StorageError(f"the journal's file cannot be used: {error}"), drop=True)
    if isinstance(error, apsw.Error):
        return BatchFailed(StorageError(f"the journal's database refused: {error}"))
    if isinstance(error, OSError):
        return BatchFailed(StorageError(f"the journal's file cannot be opened: {error.strerror or error}"))
    if isinstance(error, UnicodeError | OverflowError):
        return BatchFailed(
            StorageError(f"the journal's file holds, or was given, a value that is neither text nor a number: {error}")
        )
    return BatchFailed(error)
