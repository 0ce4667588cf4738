"""Track which SQLite files this process has open, and by which of two libraries: never one file by both.

The journal brings a SQLite of its own (apsw), sessions use the interpreter's. POSIX locks belong to a process and are
dropped when it closes any descriptor of the file, so each library would silently drop the other's locks, and two
writers would destroy the file. A file is asked for by `stat` alone: to open it would drop locks already.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ..core.errors import StorageError, UserError

# "Ktrn": written into the header of each journal's file, for programs that do not share this process.
APPLICATION = 0x4B74726E

# Reentrant: a session that nobody has any more is closed wherever the garbage collector runs, also in here.
_lock = threading.RLock()
_open: dict[tuple[int, int], list[tuple[str, int]]] = {}


class OpenFile:
    """Marks a file as open by a journal or a session until `close` is called.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     held = OpenFile(file.name, "journal")
    ...     try:
    ...         OpenFile(file.name, "session")
    ...     except UserError as error:
    ...         print(str(error).partition(" is ")[2])
    ...     held.close()
    the file of a journal: a session in the same file would destroy it; give sessions a file of their own
    """

    def __init__(self, path: str | bytes | Path, use: str) -> None:
        found = os.stat(path)
        self._key = (found.st_dev, found.st_ino)
        self._use = (use, os.getpid())
        with _lock:
            known = list(_open.get(self._key, []))
            others = [other for other, _ in known if other != use]
            if others and use == "session":
                raise refused_session(path)
            if use == "journal" and any(process != os.getpid() for _, process in known):
                raise StorageError(
                    f"{os.fspath(path)!r} was open as a journal when this process was forked, and SQLite's locks do "
                    "not survive that; open journals after the fork, or close them before"
                )
            if others:
                raise StorageError(
                    f"{os.fspath(path)!r} is open in this process as a session's: two SQLite libraries on one file "
                    "destroy it; give the journal a file of its own"
                )
            _open.setdefault(self._key, []).append(self._use)
        self._closed = False

    def close(self) -> None:
        """Mark the file as closed; a second time does nothing."""
        with _lock:
            if self._closed:
                return
            self._closed = True
            uses = _open.get(self._key, [])
            uses.remove(self._use)
            if not uses:
                _open.pop(self._key, None)


def refused_session(path: str | bytes | Path) -> UserError:
    """Return why a session may not open a journal's file."""
    return UserError(
        f"{os.fspath(path)!r} is the file of a journal: a session in the same file would destroy it; give "
        "sessions a file of their own"
    )
