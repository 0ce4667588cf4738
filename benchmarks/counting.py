"""Counts of a piece of work that do not depend on the machine: Python calls, asks of a store, commits, syncs, lines.

The counts are read at the seams that every revision has: an ask is a job of a store's thread, a commit is one batch of
jobs, a sync and its bytes are what SQLite asks of its files, a line is one line of a run's log.
"""

from __future__ import annotations

import collections
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import apsw

COUNTS = ("calls", "asks", "commits", "syncs", "bytes", "lines")

# How often an event loop and the threads of a store wake up depends on the machine.
_NOT_COUNTED = ("counting.py", "threading.py", "selectors.py", "queue.py")


class Counter:
    """Adds up while it is open. Make it before the store is opened, so that the store's thread is counted too."""

    def __init__(self) -> None:
        self.open = False
        self.begin()

    def begin(self) -> None:
        """Count from nothing."""
        self.counts = dict.fromkeys(COUNTS, 0)
        self.called = collections.Counter[str]()

    def add(self, what: str, many: int = 1) -> None:
        """Count this, if it is time."""
        if self.open:
            self.counts[what] += many

    def profile(self, frame: Any, event: str, _about: Any) -> None:
        """Count a call of a Python function, for `sys.setprofile`."""
        if event == "call" and self.open:
            code = frame.f_code
            if not code.co_filename.endswith(_NOT_COUNTED) and "/asyncio/" not in code.co_filename:
                self.counts["calls"] += 1
                self.called[f"{code.co_filename.rpartition('/src/')[2]}:{code.co_qualname}"] += 1


@contextmanager
def counting() -> Generator[Counter]:
    """Count what this process does while the counter is open."""
    from keyturn.journal.memory import MemoryJournal
    from keyturn.journal.postgres import PostgresConnection
    from keyturn.journal.sql_journal import SQLJournal
    from keyturn.journal.sqlite import SQLiteConnection
    from keyturn.journal.store_thread import StoreThread

    counter = Counter()
    seams: list[tuple[type, str, Callable[..., None]]] = [
        (StoreThread, "ask", lambda *_: counter.add("asks")),
        (SQLiteConnection, "commit", lambda *_: counter.add("commits")),
        (PostgresConnection, "commit", lambda *_: counter.add("commits")),
        (SQLJournal, "append", lambda _self, _run, _at, lines, *_: counter.add("lines", len(lines))),
        (MemoryJournal, "append", lambda _self, _run, _at, lines, *_: counter.add("lines", len(lines))),
    ]
    undo = [_replaced(*seam) for seam in seams]
    undo.append(unhurried())
    files = _Files(counter)
    threading.setprofile(counter.profile)
    sys.setprofile(counter.profile)
    try:
        yield counter
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        files.unregister()
        for back in undo:
            back()


def _replaced(owner: type, name: str, seen: Callable[..., None]) -> Callable[[], None]:
    """Have the calls of a method seen; return what puts it back."""
    method = owner.__dict__[name]

    @wraps(method)  # what a journal's append can take along is seen by its parameters
    def counted(*args: Any, **options: Any) -> Any:
        seen(*args)
        return method(*args, **options)

    setattr(owner, name, counted)
    return lambda: setattr(owner, name, method)


def unhurried() -> Callable[[], None]:
    """Have nothing done because time went by, which a busy machine takes and an idle one not; return what undoes it.

    No drive listens for others after a twentieth of a second, and the file of the keys is not looked at again.
    """
    try:
        from keyturn.engine.driving import lease
        from keyturn.support import keys
    except ImportError:  # an older revision, which does it elsewhere
        return lambda: None
    before = lease._BEFORE_LISTENING, keys._BELIEVED
    lease._BEFORE_LISTENING = keys._BELIEVED = 3_600.0

    def hurried() -> None:
        lease._BEFORE_LISTENING, keys._BELIEVED = before

    return hurried


class _Files(apsw.VFS):
    """SQLite's files, with a count of what is written and synced."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        super().__init__("keyturn-counts", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802  # the name is SQLite's
        return _File(self._counter, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, counter: Counter, name: Any, flags: list[int]) -> None:
        self._counter = counter
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802  # the name is SQLite's
        self._counter.add("bytes", len(data))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802  # the name is SQLite's
        self._counter.add("syncs")
        super().xSync(flags)
