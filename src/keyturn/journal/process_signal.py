"""Wake other processes on this machine that have the same file open, by a datagram to each one's socket.

Each process that waits has a socket in a directory that stands for the file; whoever commits sends to all that are
there. A ring that gets lost is made good by the waiter's own look every few seconds. It knows nothing of journals.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..support.keys import make_directory


class ProcessSignal:
    """Owns the socket of this process for one file.

    `rung` is called, in a thread of its own, when another process rings.
    """

    def __init__(self, path: Path, rung: Callable[[], None]) -> None:
        self._rung = rung
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._folder = _folder(path)
        self._places = (str(self._folder.parent), str(self._folder))
        self._mine: socket.socket | None = None
        self._out: socket.socket | None = None
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Begin to hear other processes; once is enough."""
        with self._lock:
            if self._mine is not None or not hasattr(socket, "AF_UNIX"):
                return
            self._mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                make_directory(self._folder)
                if not all(map(_ours, self._places)):
                    raise PermissionError("other users could write in the directory of the sockets")
                self._mine.bind(str(self._folder / self._name))
                (self._folder / self._name).chmod(0o600)
            except OSError:  # without a place for it, who waits looks by itself
                self._mine.close()
                return
        threading.Thread(target=self._hear, args=(self._mine,), name="keyturn-doorbell", daemon=True).start()

    def ring(self) -> None:
        """Ring every other process that listens; those that died are forgotten."""
        try:
            names = os.listdir(self._places[1]) if all(map(_ours, self._places)) else []
            for name in names:
                if name != self._name:
                    self._ring(self._folder / name)
        except OSError:  # without a place for it, who waits looks by itself
            pass

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            mine, self._mine = self._mine, None
        if mine is not None:
            with suppress(OSError):
                (self._folder / self._name).unlink()
            with suppress(OSError):
                mine.shutdown(socket.SHUT_RDWR)
            mine.close()
        if self._out is not None:
            self._out.close()

    def _ring(self, other: Path) -> None:
        if self._out is None:
            self._out = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._out.setblocking(False)
        try:
            self._out.sendto(b"!", str(other))
        except BlockingIOError:  # it has not heard the last ones yet, and will look after them
            return
        except (ConnectionRefusedError, FileNotFoundError):
            with suppress(OSError):
                other.unlink()

    def _hear(self, mine: socket.socket) -> None:
        while True:
            try:
                if not mine.recv(16):
                    return
            except OSError:
                return
            self._rung()


def _ours(folder: str) -> bool:
    """Return whether only this user can write in a directory: in a shared one anybody may have made it."""
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _folder(path: Path) -> Path:
    """Return a directory of this user's that stands for the file, short enough for a socket's address."""
    found = path.stat()
    which = hashlib.sha256(f"{found.st_dev}:{found.st_ino}".encode()).hexdigest()[:16]
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"keyturn-{os.getuid()}" / which
