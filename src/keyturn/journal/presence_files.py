"""Show that a process lives by a locked file beside the journal's: the system gives the lock back when it dies.

Whether a lock is held can be seen on this machine alone, which is where a SQLite journal is. A file that is not there
says nothing, and then the lease is waited for.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from .optional import WATCHED

try:
    import fcntl
except ImportError:  # a system without these locks
    fcntl = None

_LOCKED_BY_THEN = 1.0  # how old a file is, in seconds, that its worker has surely locked


class PresenceFiles:
    """Holds the locked files of this process's workers, in a directory beside the journal's file."""

    def __init__(self, path: Path) -> None:
        self._folder = path.with_name(path.name + "-workers")
        self._held: dict[str, int] = {}

    def show(self, worker: str) -> bool:
        """Hold the file of a worker; return whether that can be done here."""
        if fcntl is None:
            return False
        try:
            place = self._made(worker)
        except OSError:
            return False
        self._held[worker] = place
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.hide(worker)
            return False
        return True

    def _made(self, worker: str) -> int:
        how = os.O_RDWR | os.O_CREAT | os.O_EXCL
        self._folder.mkdir(mode=0o700, exist_ok=True)
        try:
            return os.open(self._folder / worker, how, 0o600)
        except FileNotFoundError:  # the last worker of before removed the directory meanwhile
            self._folder.mkdir(mode=0o700, exist_ok=True)
            return os.open(self._folder / worker, how, 0o600)

    def hide(self, worker: str) -> None:
        """Give a worker's file back."""
        place = self._held.pop(worker, None)
        if place is not None:
            self.forget(worker)
            os.close(place)

    def is_gone(self, worker: str) -> bool:
        """Return whether the file of a worker is there and nobody holds it."""
        if fcntl is None or worker in self._held or os.sep in worker:
            return False
        try:
            place = os.open(self._folder / worker, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(place)
        return True

    def present(self) -> dict[str, int]:
        """Return the workers whose files are held, each with since when, in milliseconds since 1970."""
        if fcntl is None or not self._folder.is_dir():
            return {}
        made = {each.name: each.stat().st_mtime for each in self._folder.iterdir() if each.name.endswith(WATCHED)}
        # To look at a file is to lock it: one that was just made is about to be locked by its worker.
        new = time.time() - _LOCKED_BY_THEN
        return {name: int(at * 1_000) for name, at in made.items() if at > new or not self.is_gone(name)}

    def forget(self, worker: str) -> None:
        """Remove the file of a worker, and the directory after the last."""
        with suppress(OSError):
            (self._folder / worker).unlink()
            self._folder.rmdir()
