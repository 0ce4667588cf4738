"""A disk that SQLite writes to and that can be told to fail: no room, or an error, from some operation on.

It counts what SQLite asks of it, so that a test can fail each operation in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import apsw


class Disk(apsw.VFS):
    """The default disk of SQLite while a test has it. `fails` says of an operation, by name and count, how it fails."""

    def __init__(self) -> None:
        self.fails: Callable[[str, int], type[apsw.Error] | None] = lambda _what, _count: None
        self.counts = {"write": 0, "sync": 0, "open": 0}
        super().__init__("keyturn-test-disk", "unix", makedefault=True)

    def met(self, what: str) -> None:
        """Count an operation, and let it fail where it shall."""
        self.counts[what] += 1
        error = self.fails(what, self.counts[what])
        if error is not None:
            raise error("a test's disk failed")

    def armed(self, fails: Callable[[str, int], type[apsw.Error] | None]) -> None:
        """Count from here, and fail so."""
        self.counts = dict.fromkeys(self.counts, 0)
        self.fails = fails

    def mended(self) -> None:
        """It works again."""
        self.fails = lambda _what, _count: None

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802  # SQLite's name for it
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path.endswith(".db"):
            self.met("open")
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # SQLite's name for it
        self._disk.met("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  # SQLite's name for it
        self._disk.met("sync")
        super().xSync(flags)


@contextmanager
def failing_disk() -> Generator[Disk]:
    """Such a disk, in this process, for as long as the block lasts."""
    disk = Disk()
    try:
        yield disk
    finally:
        disk.mended()
        disk.unregister()
