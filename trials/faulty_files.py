"""Files that fail as disks do: a kill at the K-th write or sync, half a write, no room, an error, no power.

A VFS that apsw gives to SQLite; it counts what SQLite asks of the disk and does one bad thing at one of them. What was
not synced is remembered, so that a loss of power can take it back. Of journals it knows when they checkpoint.
"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass, field
from typing import Any, NoReturn

import apsw

from keyturn.journal import sqlite

_REAL = "unix"
_NAME = "keyturn-trial"
# So soon that a trial checkpoints several times.
_CHECKPOINT = "wal_autocheckpoint"
_CHECKPOINT_PAGES = 120


@dataclass
class DiskFault:
    """What goes wrong, and when: at operation `at` of those that `counts` names."""

    how: str = "never"  # before, after, torn, power, full, eio
    counts: str = "both"  # write, sync or both
    at: int = 0
    seed: int = 0
    seen: dict[str, int] = field(default_factory=lambda: {"write": 0, "sync": 0, "both": 0})
    struck: bool = False
    gone: bool = False
    unsynced: dict[str, list[tuple[int, bytes, int, bytes]]] = field(
        default_factory=dict[str, list[tuple[int, bytes, int, bytes]]]
    )

    def mend(self) -> None:
        """There is room again, and the disk works."""
        self.gone = True

    def now(self, what: str) -> bool:
        """Count an operation; whether it is the one."""
        self.seen[what] += 1
        self.seen["both"] += 1
        if self.how == "full" and self.struck and not self.gone:
            return what == "write"
        if self.struck or self.counts not in (what, "both") or self.seen[self.counts] != self.at:
            return False
        self.struck = True
        return True


def install(fault: DiskFault) -> Any:
    """Have SQLite use such files in this process from now on; keep what is returned for as long."""
    kept = [pragma for pragma in sqlite._PRAGMAS if not pragma.startswith(_CHECKPOINT)]
    sqlite._PRAGMAS = (*kept, f"{_CHECKPOINT}={_CHECKPOINT_PAGES}")
    return _Files(fault)


class _Files(apsw.VFS):
    def __init__(self, fault: DiskFault) -> None:
        self._fault = fault
        super().__init__(_NAME, _REAL, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802  # the name is SQLite's
        return _File(self._fault, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802  # the name is SQLite's
        bad = self._fault.now("write") and _ill(self._fault, "before")
        super().xDelete(filename, syncdir)
        self._fault.unsynced.pop(filename, None)
        if bad:
            _die(self._fault)


class _File(apsw.VFSFile):
    def __init__(self, fault: DiskFault, name: Any, flags: list[int]) -> None:
        self._fault = fault
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__(_REAL, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # the name is SQLite's
        fault = self._fault
        bad = fault.now("write")
        if bad and fault.how == "torn":
            super().xWrite(data[: len(data) // 2], offset)
            _die(fault)
        bad = bad and _ill(fault, "before")
        if fault.how == "power":
            size = self.xFileSize()
            old = super().xRead(min(len(data), size - offset), offset) if offset < size else b""
            fault.unsynced.setdefault(self._path, []).append((offset, old, size, bytes(data)))
        super().xWrite(data, offset)
        if bad:
            _die(fault)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802  # the name is SQLite's
        bad = self._fault.now("write") and _ill(self._fault, "before")
        super().xTruncate(newsize)
        if bad:
            _die(self._fault)

    def xSync(self, flags: int) -> None:  # noqa: N802  # the name is SQLite's
        fault = self._fault
        bad = fault.now("sync") and _ill(fault, "before")
        super().xSync(flags)
        fault.unsynced.pop(self._path, None)
        if bad:
            _die(fault)


def _ill(fault: DiskFault, when: str) -> bool:
    """Do what goes wrong before an operation; True if it goes wrong after it."""
    if fault.how in (when, "torn"):
        _die(fault)
    if fault.how == "power":
        _lose_power(fault)
    if fault.how == "full":
        raise apsw.FullError("a trial's disk is full")
    if fault.how == "eio":
        error = apsw.IOError("a trial's disk failed")
        error.extendedresult = apsw.SQLITE_IOERR_WRITE
        raise error
    return True


def _die(_fault: DiskFault) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody lives on")


def _lose_power(fault: DiskFault) -> NoReturn:
    """Take back what was not synced, all but some of it, in which one write may be half done; then die."""
    dice = random.Random(fault.seed)
    for path, writes in fault.unsynced.items():
        file = os.open(path, os.O_RDWR)
        for offset, old, size, _new in reversed(writes):
            os.ftruncate(file, size)
            os.pwrite(file, old, offset)
        share = dice.choice((0.0, 0.5, 0.9, 1.0))
        for offset, _old, _size, new in writes:
            if dice.random() < share:
                os.pwrite(file, new if dice.random() < 0.8 else new[: dice.randrange(len(new))], offset)
        os.close(file)
        if os.path.exists(path.removesuffix("-wal") + "-shm"):
            os.unlink(path.removesuffix("-wal") + "-shm")
    _die(fault)
