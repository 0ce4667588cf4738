"""Copy a whole store into an empty one, of either database: every tenant, erased runs, undelivered notices.

The lines come with their seals, so that the copy's chains are verified against what was there, not made anew; unless
the copy is made to retire a key.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ..core.errors import Conflict, StorageError, StoreRestored
from ..core.seal import Chain, verify
from ..support.keys import ring
from . import statements as say
from .resealing import Resealing
from .rows import Delivery
from .sql_journal import SQLJournal
from .store_thread import StoreConnection

_PAGE = 500
_NUMBERED = ("number",)


def _others(columns: str, *more: str) -> tuple[str, ...]:
    """Return the columns beside a key, which is the first of those that a page has."""
    return (*more, *columns.split(", ")[1:])


# Each table: its key, and its other columns. What is numbered gets new numbers, in the same order.
_TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "runs": (
        ("tenant", "run"),
        _others(say.RUN_COLUMNS, "head", "epoch", "due", "session", "place", "needs", "priority", "seal"),
    ),
    "events": (("tenant", "run", "seq"), ("line",)),
    "requests": (("tenant", "id"), _others(say.REQUEST_COLUMNS, "seal")),
    "grants": (("tenant", "run", "id"), ("tool", "agent", "body", "reach", "uses", "revoked", "seal")),
    "outbox": (("number",), ("tenant", "run", "topic", "about")),
    "deliveries": (("number",), ("tenant", *(name for name in Delivery.__struct_fields__ if name != "number"))),
    "tallies": (("tenant", "day", "name"), (*say.TALLY_NAMES, *say.TALLY_NUMBERS)),
}


# What changes rows and not how many there are: lines and an erasure, a delivery that is tried or sent again.
_CHANGED = (
    "SELECT sum(head), sum(CASE WHEN status = 'erased' THEN 1 ELSE 0 END) FROM runs",
    "SELECT sum(attempts), sum(due_at), sum(CASE WHEN state = 'dead' THEN 1 ELSE 0 END) FROM deliveries",
)


async def copy_store(source: SQLJournal, target: SQLJournal, *, reseal: bool = False) -> dict[str, int]:
    """Copy everything, verify it, and return how many rows of each table there are.

    The source must be at rest, its workers stopped; the target must be empty. With `reseal` everything in it is sealed
    with the newest key.
    """
    source.moved()
    target.moved()
    why = await source.restored()
    if why is not None:
        raise StoreRestored(f"the journal to copy {why}; settle it first (`keyturn restored URL`), nothing was copied")
    if await target.restored() is not None or await target.whole(_any):
        raise StorageError("the journal to copy to is not empty; nothing was copied")
    before = await source.whole(_at_rest)
    await target.note_filling(begins=True)  # killed from here on, what is half a copy says so and runs nothing
    counts: dict[str, int] = {}
    for table in _TABLES:
        counts[table] = await _copied(source, target, table, Resealing() if reseal else None)
    await _verified(target)
    await source.leave(partial(_still_at_rest, before=before))  # first: at no time may both run what they hold
    await target.note_filling(begins=False)
    return counts


async def _copied(source: SQLJournal, target: SQLJournal, table: str, sealing: Resealing | None) -> int:
    key, others = _TABLES[table]
    count = 0
    after: tuple[Any, ...] | None = None
    while True:
        page = await source.whole(partial(_page, table=table, after=after))
        if not page:
            return count
        names = others if key == _NUMBERED else (*key, *others)
        rows = [row[len(key) :] if key == _NUMBERED else row for row in page]
        rows = rows if sealing is None else [sealing.row(table, names, row) for row in rows]
        await target.write(partial(_insert, table=table, names=names, rows=rows))
        count, after = count + len(page), tuple(page[-1][: len(key)])


def _page(db: StoreConnection, table: str, after: tuple[Any, ...] | None) -> list[Any]:
    key, others = _TABLES[table]
    columns, order = ", ".join((*key, *others)), ", ".join(key)
    if table == "runs":  # who held a run is not there any more, and what was to be looked at is looked at once
        columns = columns.replace(" due,", " CASE WHEN holder IS NULL AND due IS NULL THEN NULL ELSE 0 END,")
    where = "" if after is None else f" WHERE ({order}) > ({', '.join('?' for _ in key)})"
    return db.execute(f"SELECT {columns} FROM {table}{where} ORDER BY {order} LIMIT {_PAGE}", *(after or ()))


def _insert(db: StoreConnection, table: str, names: tuple[str, ...], rows: list[Any]) -> None:
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"
    for row in rows:
        db.tell(statement, *row)


def _at_rest(db: StoreConnection) -> list[Any]:
    """Return counts and sums, so that later changes are noticed; raise `Conflict` while runs are held."""
    held = int(db.execute("SELECT count(*) FROM runs WHERE holder IS NOT NULL AND held_until > ?", db.now())[0][0])
    if held:
        raise Conflict(f"runs are in progress ({held}); stop the workers and copy then")
    counts = [db.execute(f"SELECT count(*) FROM {table}") for table in _TABLES]
    return [*counts, *(db.execute(changed) for changed in _CHANGED)]


def _still_at_rest(db: StoreConnection, before: list[Any]) -> None:
    if _at_rest(db) != before:
        raise Conflict("the journal was written to while it was copied; stop its workers, and copy into another one")


def _any(db: StoreConnection) -> bool:
    return any(db.execute(each) for each in say.ANY)


async def _verified(target: SQLJournal) -> None:
    """Verify every chain of the copy, up to the head that its run names."""
    for tenant in await target.tenants():
        view = target.of(tenant)
        for run in await view.every_run():
            links = await view.hashes(run)
            bad = verify(Chain(ring, tenant, run), links)
            if bad is None and len(links) != await view.head(run):
                bad = len(links)
            if bad is not None:
                raise StorageError(
                    f"the copy of run {run!r} is not what was written, at line {bad}; do not use the copy"
                )
