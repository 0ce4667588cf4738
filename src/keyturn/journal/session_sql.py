"""Give runs their places on a session in a database, in the transaction of their first lines.

All of a transaction are given last, in one order, and by one writer at a time: two that counted at once would give one
place twice, and two that met in two orders would wait for each other. Places are not sealed: they say who comes first,
and nothing of what may run.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import statements as say
from .statements import SqlDialect
from .store_thread import StoreConnection

#: A tenant, the name of a session, and a run that comes to it.
Placing = tuple[str, str, str]


def give_places(db: StoreConnection, dialect: SqlDialect, placed: Iterable[Placing]) -> None:
    """Give each run the last place on its session, unless it has one."""
    for tenant, session, run in sorted(set(placed)):
        if dialect.alone:
            db.tell(dialect.alone, f"{tenant}/{session}")
        db.tell(say.PLACED, session, tenant, session, tenant, run)
