"""Read tables that may be damaged: one unreadable row does not hide the others.

A text that is no text raises from the driver, whatever else stands in the answer. Where that happens the rows are asked
for one by one, and those that cannot be read are given by their key alone.
"""

from __future__ import annotations

from typing import Any

from .store_thread import StoreConnection

_LIMIT = "LIMIT ?"


def rows_of(db: StoreConnection, statement: str, *values: Any) -> list[Any]:
    """Run a statement whose last value is its limit; rows that cannot be read are left out."""
    try:
        return db.execute(statement, *values)
    except UnicodeDecodeError:
        return _one_by_one(db, statement, None, values)[0]


def keyed_rows(db: StoreConnection, statement: str, keys: str, *values: Any) -> tuple[list[Any], list[Any]]:
    """Run a statement whose last value is its limit; its rows, and the keys of those that cannot be read.

    `keys` selects keys alone, which can always be read.
    """
    try:
        return db.execute(statement, *values), []
    except UnicodeDecodeError:
        return _one_by_one(db, statement, keys, values)


def _one_by_one(
    db: StoreConnection, statement: str, keys: str | None, values: tuple[Any, ...]
) -> tuple[list[Any], list[Any]]:
    *given, limit = values
    rows, broken = list[Any](), list[Any]()
    place = 0
    while place < limit:
        row = _one(db, statement, given, place)
        if row == []:
            break
        if row is not None:
            rows += row
        elif keys is not None:
            broken += _one(db, keys, given, place) or []
        place += 1
    return rows, broken


def _one(db: StoreConnection, statement: str, given: list[Any], place: int) -> list[Any] | None:
    """Return the row at a place, an empty list where there are no more; None where it cannot be read."""
    assert statement.endswith(_LIMIT)
    try:
        return db.execute(statement.removesuffix(_LIMIT) + "LIMIT 1 OFFSET ?", *given, place)
    except UnicodeDecodeError:
        return None
