"""Do to a whole SQLite file what takes long, on a connection of its own: write its WAL into it, copy it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .sqlite_faults import judge
from .store_thread import StoreConnection


def checkpoint(opened: Callable[[], StoreConnection]) -> None:
    """Write the WAL into the file and leave nothing in it."""
    _once(opened, "PRAGMA wal_checkpoint(TRUNCATE)")


def copy_into(opened: Callable[[], StoreConnection], target: Path) -> None:
    """Copy a store to a file; half a copy is none, and in the way of the next."""
    try:
        _once(opened, "VACUUM INTO ?", str(target))
    except BaseException:
        for end in ("", "-journal"):
            target.with_name(target.name + end).unlink(missing_ok=True)
        raise


def _once(opened: Callable[[], StoreConnection], statement: str, *values: str) -> None:
    try:
        db = opened()
        try:
            db.execute(statement, *values)
        finally:
            db.close()
    except BaseException as error:
        raise judge(error).error from error
