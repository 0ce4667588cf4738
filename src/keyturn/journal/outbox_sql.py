"""The outbox of a SQL journal, statement by statement, for one tenant: notices, and deliveries to people.

Each function takes a connection inside a transaction and is all or nothing there. A row that cannot be read is given
as damaged, so that it holds up no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .pages import keyed_rows
from .rows import Delivery, DeliveryQuery, Dispatch, Notice
from .sealing import DAMAGED, fits_a_store
from .store_thread import StoreConnection

TELL = "INSERT INTO outbox (tenant, run, topic, about) VALUES (?, ?, ?, ?)"
_TOLD = "DELETE FROM outbox WHERE tenant = ? AND number = ?"
_TO_TELL = "FROM outbox WHERE tenant = ? ORDER BY number LIMIT ?"
_NAMES = Delivery.__struct_fields__
_COLUMNS = ", ".join(_NAMES)
_GIVEN = _NAMES[:-1]  # the number is the store's own
_ADD = f"INSERT INTO deliveries (tenant, {', '.join(_GIVEN)}) VALUES ({', '.join('?' * (len(_GIVEN) + 1))})"
_CHANGE = (
    "UPDATE deliveries SET due_at = ?, attempts = ?, state = ?, error = ?, sent_at = ? WHERE tenant = ? AND number = ?"
)
_GONE = "DELETE FROM deliveries WHERE tenant = ? AND number = ?"
_DEAD = "SELECT count(*) FROM deliveries WHERE tenant = ? AND number = ? AND state = 'dead'"
_AGAIN = (
    "UPDATE deliveries SET due_at = ?, attempts = 0, state = 'waiting', error = '' "
    "WHERE tenant = ? AND number = ? AND state = 'dead'"
)
_FIRST = (
    "NOT EXISTS (SELECT 1 FROM deliveries AS former WHERE former.tenant = one.tenant AND former.subject = one.subject "
    "AND former.channel = one.channel AND former.person = one.person "
    "AND former.state <> 'dead' AND former.state <> 'sent' AND former.number < one.number)"
)


def tell(db: StoreConnection, tenant: str, notices: Sequence[Notice]) -> None:
    """Add notices."""
    for notice in notices:
        db.tell(TELL, tenant, notice.run, notice.topic, msgspec.json.encode(notice.about).decode())


def told(db: StoreConnection, tenant: str, numbers: Sequence[int]) -> None:
    """Delete notices by their numbers: one with a lower number may have been committed since these were read."""
    for number in numbers:
        db.tell(_TOLD, tenant, number)


def notices(db: StoreConnection, tenant: str, limit: int) -> list[Notice]:
    """Return undelivered notices."""
    what = (f"SELECT topic, run, about, number {_TO_TELL}", f"SELECT NULL, NULL, NULL, number {_TO_TELL}")
    found, broken = keyed_rows(db, *what, tenant, max(limit, 0))
    return sorted((_notice(*row) for row in found + broken), key=lambda notice: notice.number)


def deliveries(db: StoreConnection, tenant: str, query: DeliveryQuery) -> list[Delivery]:
    """Return a page of deliveries; only names of ours stand in the statement."""
    asked = {"channel": query.channel, "person": query.person, "subject": query.subject, "state": query.state}
    wanted = {column: value for column, value in asked.items() if value is not None}
    if not all(map(fits_a_store, [*wanted.values(), *query.without])):
        return []
    clauses = ["tenant = ?", *(f"{column} = ?" for column in wanted), "number > ?"]
    clauses += [] if query.sent else ["state <> 'sent'"]
    clauses += ["state <> 'dead'", _FIRST] if query.first else []
    clauses += [f"person NOT IN ({', '.join('?' * len(query.without))})"] if query.without else []
    order = "due_at, number" if query.first else "number"
    where = f"FROM deliveries AS one WHERE {' AND '.join(clauses)} ORDER BY {order} LIMIT ?"
    keys = ", ".join(name if name == "number" else "NULL" for name in _NAMES)
    given = (tenant, *wanted.values(), query.after, *query.without, max(query.limit, 0))
    found, broken = keyed_rows(db, f"SELECT {_COLUMNS} {where}", f"SELECT {keys} {where}", *given)
    return [_delivery(row) for row in found + broken]


def dispatch(db: StoreConnection, tenant: str, step: Dispatch) -> None:
    """Apply a dispatcher's step."""
    told(db, tenant, step.told)
    for row in step.added:
        values = [msgspec.json.encode(row.about).decode() if name == "about" else getattr(row, name) for name in _GIVEN]
        db.tell(_ADD, tenant, *values)
    for row in step.changed:
        db.tell(_CHANGE, row.due_at, row.attempts, row.state, row.error, row.sent_at, tenant, row.number)
    for number in step.gone:
        db.tell(_GONE, tenant, number)


def send_again(db: StoreConnection, tenant: str, numbers: Sequence[int]) -> int:
    """Let dead deliveries wait anew; return how many there were."""
    count = 0
    for number in dict.fromkeys(numbers):
        count += int(db.execute(_DEAD, tenant, number)[0][0])
        db.tell(_AGAIN, db.now(), tenant, number)
    return count


def _notice(topic: Any, run: Any, about: Any, number: int) -> Notice:
    """Make a notice; where it cannot be read, one that says so, so that those after it are delivered."""
    try:
        given = {"topic": topic, "run": run, "about": msgspec.json.decode(about), "number": number}
        return msgspec.convert(given, Notice)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return Notice(DAMAGED, run if isinstance(run, str) else "", number=number)


def _delivery(row: Sequence[Any]) -> Delivery:
    """Make a delivery; where it cannot be read, one that says so and is due at once, so that it is given up."""
    given = dict(zip(_NAMES, row, strict=True))
    try:
        return msgspec.convert({**given, "about": msgspec.json.decode(given["about"])}, Delivery)
    except (msgspec.MsgspecError, TypeError, ValueError):
        return Delivery("", "", DAMAGED, "", "", number=given["number"])
