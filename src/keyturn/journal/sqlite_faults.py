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
        try:  # twice in each commit, and so without a function for each file
            file, wal, shm = map(os.stat, self._names)
            found = [file[_INODE], wal[_INODE], shm[_INODE]]
        except FileNotFoundError:
            found = [_inode(name) for name in self._names]
        if found == self._inodes:
            return True
        # A file that was not there at first is known from when it is.
        kept = [now if before is None else before for before, now in zip(self._inodes, found, strict=True)]
        self._inodes = kept
        return found == kept


# What names a file among all of this machine: its inode and its device, as they stand in what `stat` returns.
_INODE = slice(1, 3)


def _inode(path: str) -> tuple[int | float, ...] | None:
    try:
        return os.stat(path)[_INODE]
    except FileNotFoundError:
        return None


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
