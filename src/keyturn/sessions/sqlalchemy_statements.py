"""The tables of `SQLAlchemySession`, and all of its SQL statements.

Nothing is executed here. What only one database has a word for is in `_words`; another database begins there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ..core.errors import UserError


@dataclass(frozen=True)
class Statements:
    """Holds the statements for one database and one pair of tables.

    A write begins with all of `enter`, which makes the session's row, or of `take`: then it is the only one there.
    """

    metadata: Any
    enter: tuple[Any, ...]
    take: tuple[Any, ...]
    append: Any
    all: Any
    newest: Any
    pop: Any
    clear: Any
    leave: Any


@cache
def statements(dialect: str, sessions_table: str, messages_table: str) -> Statements:
    """Return the statements for one database and one pair of tables; made once.

    >>> print(statements("sqlite", "agent_sessions", "agent_messages").clear)
    DELETE FROM agent_messages WHERE agent_messages.session_id = :session
    """
    from sqlalchemy import bindparam, delete, func, insert, select

    upsert, now, alone = _words(dialect, messages_table)
    metadata, sessions, messages = _tables(sessions_table, messages_table)
    mine = messages.c.session_id == bindparam("session")
    my_row = sessions.c.session_id == bindparam("session")
    rows = select(messages.c.id, messages.c.message_data).where(mine)
    newest = rows.order_by(messages.c.id.desc())
    enter = upsert(sessions).values(session_id=bindparam("session"))
    last = select(func.max(messages.c.id)).where(mine).scalar_subquery()
    return Statements(
        metadata=metadata,
        enter=(*alone, enter.on_conflict_do_update(index_elements=["session_id"], set_={"updated_at": now})),
        take=(*alone, select(sessions.c.session_id).where(my_row).with_for_update()),
        append=insert(messages).values(created_at=now),
        all=rows.order_by(messages.c.id),
        newest=newest,
        pop=delete(messages).where(messages.c.id == last).returning(messages.c.id, messages.c.message_data),
        clear=delete(messages).where(mine),
        leave=delete(sessions).where(my_row),
    )


def _words(dialect: str, table: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return the dialect's own SQL: an insert that may find its row there, the time, and how to lock."""
    from sqlalchemy import String, bindparam, func, literal, select
    from sqlalchemy.dialects import postgresql, sqlite

    if dialect == "sqlite":  # where a write is alone in any case
        return sqlite.insert, func.current_timestamp(), ()
    if dialect == "postgresql":
        # The session's row is no lock for those who make it and delete it: each waits for another version of it, and
        # they end in a deadlock. It is taken as well, for the sake of the Agents SDK's own sessions.
        name = func.hashtextextended(literal(f"{table} ") + bindparam("session", type_=String), 0)
        # CURRENT_TIMESTAMP is when the transaction began, before it waited: the Agents SDK reads by time, and would
        # see what was added last in front of what it waited for.
        return postgresql.insert, func.clock_timestamp(), (select(func.pg_advisory_xact_lock(name)),)
    raise UserError(f"SQLAlchemySession keeps its promises on SQLite and PostgreSQL, not on {dialect}")


def _tables(sessions_table: str, messages_table: str) -> tuple[Any, Any, Any]:
    import sqlalchemy as sa

    def moment(name: str) -> sa.Column[Any]:
        return sa.Column(name, sa.TIMESTAMP, server_default=sa.text("CURRENT_TIMESTAMP"), nullable=False)

    metadata = sa.MetaData()
    sessions = sa.Table(
        sessions_table,
        metadata,
        sa.Column("session_id", sa.String, primary_key=True),
        moment("created_at"),
        moment("updated_at"),
    )
    messages = sa.Table(
        messages_table,
        metadata,
        # SQLite numbers rows by itself only where the type is INTEGER, and never twice only with AUTOINCREMENT.
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey(sessions.c.session_id, ondelete="CASCADE"), nullable=False),
        sa.Column("message_data", sa.Text, nullable=False),
        moment("created_at"),
        sa.Index(f"ix_{messages_table}_session_id", "session_id", "id"),
        sqlite_autoincrement=True,
    )
    return metadata, sessions, messages
