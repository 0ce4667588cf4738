"""Migrate the schema of a journal's file, and look where the file comes from; a file that is current is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ..core.errors import StorageError
from ..support.sqlite_files import APPLICATION
from . import statements as say
from .generation import Origin, begin, is_unsettled_template, read_meta, settle_template
from .schema import missing
from .store_thread import StoreConnection


class FileConnection(StoreConnection, Protocol):
    """A connection to a file, which can also read it in a transaction that waits for no writer."""

    def begin_reading(self) -> None:
        """Begin a transaction that only reads."""
        ...


def is_current(db: FileConnection) -> bool:
    """Return whether a file is a journal of this very schema, so that nothing has to be written to open it."""
    [(version,)] = db.execute("PRAGMA user_version")
    [(application,)] = db.execute("PRAGMA application_id")
    return (version, application) == (say.SCHEMA, APPLICATION)


def migrate(db: FileConnection, path: Path) -> None:
    """Bring a file's schema to this version, in one transaction; a file that is no journal is refused."""
    db.begin(True, [])
    try:
        [(version,)] = db.execute("PRAGMA user_version")
        [(application,)] = db.execute("PRAGMA application_id")
        strange = application not in (0, APPLICATION)
        if strange or (version == 0 and db.execute("SELECT 1 FROM sqlite_schema LIMIT 1")):
            raise StorageError(f"{str(path)!r} is another application's database; name a file of its own")
        for statement in missing(say.SQLITE, version, repr(str(path))):
            db.execute(statement)
        if version == 0:
            begin(db)
            db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {say.SCHEMA}")
    except BaseException:
        db.rollback()
        raise
    db.commit([])


def origin_of(db: FileConnection, file: Path) -> Origin:
    """Return where the file comes from.

    A reading transaction sees the file as it was when the transaction began, and a mark as it is now: what others
    commit meanwhile looks as if the file were behind. So a doubt is one only where it is found while nobody can commit.
    """
    origin = Origin(str(file), always=True)
    db.begin_reading()
    try:
        if not is_unsettled_template(db, origin):
            _look(db, origin)
            if origin.why is None:
                return origin
    finally:
        db.rollback()
    return _settled(db, Origin(str(file), always=True))


def _settled(db: FileConnection, origin: Origin) -> Origin:
    db.begin(True, [])
    try:
        settle_template(db, origin)
        _look(db, origin)
    except BaseException:
        db.rollback()
        raise
    db.commit([])
    return origin


def _look(db: FileConnection, origin: Origin) -> None:
    origin.look(db)
    read_meta(db).check_whole()
