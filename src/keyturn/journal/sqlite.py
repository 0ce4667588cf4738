"""The journal in a SQLite file: one writer at a time, durable when an append returns, many processes on one file.

Through `apsw`, which brings a current SQLite with it. WAL and `synchronous=FULL`; what waits for a commit shares one.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import random
import re
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import unquote

from ..core.errors import StorageError, UnsafeStore, UserError
from ..support.sqlite_files import OpenFile
from . import statements as say
from .commit_effects import merged, waking
from .file_system import network_kind
from .generation import COUNT, ID, Origin, count_in, counted
from .optional import WATCHED, WorkerRow
from .pages import rows_of
from .presence_files import PresenceFiles
from .process_signal import ProcessSignal
from .session_sql import give_places
from .sql_journal import SQLJournal
from .sqlite_copies import checkpoint, copy_into
from .sqlite_faults import OpenFiles, judge
from .sqlite_schema import is_current, migrate, origin_of
from .store_thread import StoreThread
from .tally_sql import add
from .waiters import Waiters
from .worker_rows import HELD_BY, rows_of_files

BUSY_SECONDS = 60.0
# A commit writes whole pages of which it changes little: small pages are a third of the bytes.
_PRAGMAS = (
    *("page_size=1024", "wal_autocheckpoint=4000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF"),
    *("cell_size_check=ON", "mmap_size=0", "secure_delete=ON"),
)
# From 3.7.0 on, and mended in this version: two processes that reset a WAL at once can corrupt it.
SOUND = (3, 51, 3)


class SQLiteJournal(SQLJournal):
    """Stores runs in a SQLite file, made when it is not there.

    `clock` gives the time in milliseconds. `busy_timeout` is for how many seconds a write waits for another process's
    write transaction; opening and reading wait for none.

    >>> import asyncio, tempfile
    >>> async def keep(path):
    ...     journal = SQLiteJournal(path)
    ...     await journal.append("run", 0, [b"one", b"two"])
    ...     lines = await journal.read("run", after=1)
    ...     await journal.close()
    ...     return lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(keep(f"{folder}/runs.db"))
    [b'two']
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Callable[[], int] | None = None,
        tenant: str = "default",
        busy_timeout: float = BUSY_SECONDS,
    ) -> None:
        seconds: object = busy_timeout
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
            raise UserError(f"busy_timeout is a number of seconds above 0, not {busy_timeout!r}")
        self.path = Path(path)
        file = Path(os.path.abspath(path))  # connections come and go, and the working directory may change
        self._clock = clock or _now
        origin = prepare(file, busy_timeout)
        bell = Waiters()
        self._doorbell = process_signal = ProcessSignal(file, bell.ring_all)

        def connect() -> SQLiteConnection:  # it must not hold the journal, which ends its threads by being forgotten
            return SQLiteConnection(file, clock, origin, busy_timeout)

        after = waking(bell, process_signal.ring)
        writer = StoreThread("keyturn-sqlite-writer", connect, judge, after, patience=busy_timeout)
        reader = StoreThread("keyturn-sqlite-reader", connect, judge, writes=False, patience=busy_timeout, here=True)
        super().__init__(say.SQLITE, (writer, reader), bell, tenant, origin)
        weakref.finalize(self, process_signal.close)
        process_signal.listen()
        self._presence = PresenceFiles(file)

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the journal of a URL: `sqlite:///runs.db` is relative, `sqlite:////var/lib/runs.db` is absolute.

        `?busy_timeout=5` at its end is for how many seconds a write waits for that of another process.
        """
        url, seconds = _busy_timeout(url)
        path = unquote(url.removeprefix("sqlite://"))
        if not path.startswith("/") or path in ("/", "/:memory:"):
            raise UserError(
                "a SQLite journal needs a file: sqlite:///keyturn.db, or sqlite:////absolute/path/keyturn.db; for a "
                "journal that is lost with the process, use memory://"
            )
        return cls(path[1:], busy_timeout=seconds)

    async def now(self) -> int:
        return self._clock()  # the file has no clock of its own, so nobody has to be asked

    def _alone(self) -> SQLiteConnection:
        """Open a connection for one thing, so that no reader waits for it."""
        return SQLiteConnection(Path(self._origin.at), None)

    async def be_present(self, worker: str) -> bool:
        """Show by a locked file that a worker of this process lives."""
        return network_kind(self.path) is None and self._presence.show(worker)

    async def be_absent(self, worker: str) -> None:
        """Remove that file."""
        self._presence.hide(worker)

    async def absent(self) -> list[str]:
        """Return the workers that hold runs and whose file nobody holds."""
        found = await self._reader.short(lambda db: db.execute(say.HOLDERS, self.tenant))
        watched = [name for (name,) in found if isinstance(name, str) and name.endswith(WATCHED)]
        return [name for name in watched if self._presence.is_gone(name)]

    async def absent_of_tenants(self) -> list[tuple[str, str]]:
        """Return those of all tenants."""
        found = await self._reader.short(lambda db: db.execute(say.HOLDERS_OF_TENANTS))
        held = [(tenant, name) for tenant, name in found if isinstance(tenant, str) and isinstance(name, str)]
        return [(tenant, name) for tenant, name in held if name.endswith(WATCHED) and self._presence.is_gone(name)]

    async def workers(self) -> list[WorkerRow]:
        """Return the workers that hold runs, or whose file is held."""
        held = await self._reader.short(lambda db: db.execute(HELD_BY, self.tenant))
        return rows_of_files(held, self._presence.present(), self._presence.is_gone)

    async def end_claims(self, worker: str) -> None:
        """Let the leases of a worker that died be over: its runs are due at once."""
        await super().end_claims(worker)
        self._presence.forget(worker)

    async def close(self) -> None:
        self._doorbell.close()
        await super().close()

    async def erase(self, run: str) -> None:
        await super().erase(run)
        await asyncio.to_thread(checkpoint, self._alone)  # the WAL holds what the pages said before

    async def backup(self, path: str | Path) -> None:
        """Copy the whole store, as it is now, to a file that is not there yet."""
        target = Path(os.path.abspath(path))
        if not _made_private(target):
            raise UserError(f"{str(path)!r} is there already; a backup never overwrites")
        await asyncio.to_thread(copy_into, self._alone, target)


class SQLiteConnection:
    """Wraps one connection, in the one thread that uses it."""

    def __init__(
        self,
        path: Path,
        clock: Callable[[], int] | None,
        origin: Origin | None = None,
        busy_timeout: float = BUSY_SECONDS,
    ) -> None:
        import apsw

        self._clock = clock or _now
        self._origin = origin or Origin()
        self._held = OpenFile(path, "journal")
        try:
            self._db: Any = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        except BaseException:
            self._held.close()
            raise
        self.waits = True
        self._patience = _patience(busy_timeout)
        self._db.set_busy_handler(self._wait)
        self._db.create_scalar_function("keyturn_text", _is_text, 1, deterministic=True)
        # Else SQLite plans a statement with `LIMIT ?` anew whenever a value is bound, as it may depend on it.
        self._db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in _PRAGMAS:
            self._db.execute(f"PRAGMA {pragma}")
        self._files = OpenFiles(path)  # it has its WAL open by now, which others do not take away any more
        self._cursor = self._db.cursor()
        self._failing: type[Exception] = apsw.IOError
        self._failed = False
        self._firm = True
        self.told = 0
        self._told_before = 0
        self._count: tuple[str, str, int] | None = None  # the store, what it keeps of its count, and that count

    def _wait(self, tried: int) -> bool:
        return self.waits and self._patience(tried)

    def execute(self, sql: str, *values: Any) -> list[Any]:
        try:
            return self._cursor.execute(sql, values).fetchall()
        except self._failing:
            self._failed = True
            raise

    def tell(self, sql: str, *values: Any) -> None:
        self.told += 1
        self._cursor.execute(sql, values)

    def known(self, tenant: str, run: str) -> list[Any]:
        return self.execute(say.SQLITE.head, tenant, run)

    def begin(self, firm: bool = True, runs: list[tuple[str, str]] | None = None) -> None:
        if firm is not self._firm:
            self._cursor.execute(f"PRAGMA synchronous={'FULL' if firm else 'NORMAL'}")
            self._firm = firm
        self._cursor.execute("BEGIN IMMEDIATE")
        self._told_before = self.told

    def begin_reading(self) -> None:
        """Begin a transaction that only reads, of the file as it is now; it waits for no writer."""
        self._cursor.execute("BEGIN")

    def commit(self, results: list[Any]) -> None:
        effects = merged(results)
        give_places(self, say.SQLITE, effects.placed)
        add(self, effects.tallies)
        row = self._count_on() if self._firm and self.told != self._told_before else None
        self.execute("COMMIT")
        self.check_place()  # a file that was moved meanwhile keeps nothing: what is in it is not acknowledged
        if self._origin.mark is not None and row is not None:
            self._origin.mark.reached(row)

    def _count_on(self) -> int | None:
        """Count a transaction; an altered count stays as it is: nothing runs until the store is settled."""
        for _ in range(2):
            if self._count is None and self.reached() is None:
                return None
            store, before, row = cast("tuple[str, str, int]", self._count)
            said = counted(store, row + 1)
            self._cursor.execute(say.COUNT_ON, (said, before, store))
            if self._db.changes():
                self._count = (store, said, row + 1)
                return row + 1
            self._count = None  # others counted meanwhile
        return None

    def reached(self) -> int | None:
        """Return how many transactions the file took, as it says itself; None where that was altered."""
        found = dict(rows_of(self, say.COUNT, 2))
        store, said = found.get(ID), found.get(COUNT)
        if self._count is None or self._count[:2] != (store, said):
            row = count_in(store, said)
            self._count = None if row is None else (str(store), str(said), row)
        return None if self._count is None else self._count[2]

    def place(self) -> str | None:
        return None

    def check_place(self) -> None:
        if not self._files.are_there():
            self._persist()
            raise StorageError(
                f"{str(self._files.path)!r} was moved, replaced or deleted while it was open, or its -wal or -shm file "
                "was: nothing is written any more; stop every process that has the journal open, put the right file in "
                "its place, without the -wal and -shm files of another one, and start them again"
            )

    def _persist(self) -> None:
        """Have SQLite leave the -wal file alone as it closes: the one that has this name may be another file's."""
        import apsw

        on = ctypes.c_int(1)
        self._db.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(on))

    def damage(self) -> list[str]:
        """Check every page: an index that lacks a row hides that row from whoever asks by it."""
        found = self.execute("PRAGMA integrity_check(10)")
        return [f"the file is damaged: {said}" for (said,) in found if said != "ok"]

    def rollback(self) -> None:
        if self._failed:
            raise StorageError("the file failed: this connection is not used any more")
        if self._db.in_transaction:
            self._cursor.execute("ROLLBACK")

    def now(self, said: int | None = None) -> int:
        return self._clock()

    def close(self) -> None:
        self._db.close()
        self._held.close()


def _busy_timeout(url: str) -> tuple[str, float]:
    """Take the option off a URL; anything else after a question mark is part of the file's name, as before."""
    found = re.fullmatch(r"(.*)\?busy_timeout=([0-9]+(?:\.[0-9]+)?)", url)
    return (url, BUSY_SECONDS) if found is None else (found[1], float(found[2]))


def prepare(path: Path, busy_timeout: float = BUSY_SECONDS) -> Origin:
    """Create or check the file and migrate its schema, each version whole or not at all.

    Whether it is a copy that was brought back is looked at then, and its mark is opened. A file that is as it should be
    is only read: a writer that was stopped within its transaction keeps nobody from opening it.
    """
    import apsw

    for doubt in _doubts(path):
        warnings.warn(doubt, UnsafeStore, stacklevel=3)
    try:
        _made_private(path)
        db = SQLiteConnection(path, None, busy_timeout=busy_timeout)
        try:
            if not is_current(db):
                migrate(db, path)
            return origin_of(db, Path(os.path.realpath(path)))
        finally:
            db.close()
    except (apsw.BusyError, apsw.LockedError) as error:
        raise judge(error).error from error
    except (apsw.Error, OSError) as error:
        raise StorageError(f"{str(path)!r} cannot be used as a journal by {_user()}: {error}") from error


def _made_private(path: Path) -> bool:
    """Make an empty file that only this user can read, whatever the umask; return False where one exists.

    Where a link leads nowhere yet the file is made there.
    What SQLite keeps beside a file, its WAL and the memory that processes share, has the mode of the file.
    """
    try:
        place = os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    os.close(place)
    return True


def _doubts(path: Path) -> list[str]:
    """Return why a journal in this file may not be safe, before anything is written."""
    import apsw

    said = apsw.sqlite_lib_version()
    found: list[str] = []
    if tuple(int(part) for part in said.split(".")) < SOUND:
        found.append(
            f"SQLite {said} can corrupt a WAL that several processes write (its WAL-reset bug); use 3.51.3 or newer"
        )
    kind = network_kind(path)
    if kind is not None:
        found.append(
            f"{str(path)!r} lies on a network file system ({kind}), where SQLite's locks and its WAL's shared memory "
            "may not hold; keep it on a disk of this machine, or use postgresql://"
        )
    return found


def _patience(seconds: float) -> Callable[[int], bool]:
    """Wait for another process's commit with random jitter, so that of many none waits for ever."""
    begun = [0.0]

    def wait(count: int) -> bool:
        if count == 0:
            begun[0] = time.monotonic()
        if time.monotonic() - begun[0] > seconds:
            return False
        time.sleep(random.uniform(0.0002, min(0.001 * (count + 1), 0.02)))
        return True

    return wait


def _is_text(value: Any) -> bool:
    """Return whether bytes are text that can be read."""
    try:
        value.decode()
    except (UnicodeDecodeError, AttributeError):
        return False
    return True


def _user() -> str:
    """Return the user that this process acts as, by whom files are opened."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"user {os.geteuid()}"


def _now() -> int:
    return time.time_ns() // 1_000_000
