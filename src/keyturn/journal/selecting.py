"""Write the SQL that selects a page of rows: what is asked for, in the order of its key, by an index.

Only names that stand in this room are part of a statement; what is asked for is passed beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from .base import RESERVED
from .rows import Query
from .statements import SqlDialect


class SqlTable(NamedTuple):
    """Describes a table: its columns, the columns of its key, and in which order its rows come."""

    name: str
    columns: str
    key: tuple[str, ...]
    time: str
    last: str


@dataclass(frozen=True, slots=True)
class Selected:
    """Holds a statement, one that selects the keys alone of the same rows, and the values of both."""

    rows: str
    keys: str
    values: list[Any]


def select(dialect: SqlDialect, table: SqlTable, tenant: str, asked: dict[str, Any], query: Query) -> Selected:
    """Return the statement of a page."""
    wanted = {column: value for column, value in asked.items() if value is not None}
    clauses, values = _asked(table, wanted), [tenant, *wanted.values()]
    timed = table.time != "0"
    compare, order = ("<", "DESC") if query.newest else (">", "ASC")
    if query.after is not None:
        clauses.append(f"({table.time}, {table.last}) {compare} (?, ?)" if timed else f"{table.last} {compare} ?")
        values += query.after if timed else query.after[1:]
    ordered = f"{table.time} {order}, {table.last} {order}" if timed else f"{table.last} {order}"
    if query.reaches is not None and table.name == "grants":
        clauses += ["reach <> ''", f"reach IN ({', '.join('?' * len(query.reaches)) or 'NULL'})"]
        values += query.reaches
    # A row whose key is not what a key is could not be paged past: only `keyturn check` tells of it.
    clauses += [dialect.text.format(part) for part in table.key if dialect.text]
    clauses += [dialect.whole.format(table.time)] if timed and dialect.whole else []
    by = dialect.by.format(index) if (index := _index(table, wanted)) is not None and dialect.by else ""
    where = f"FROM {table.name}{by} WHERE {' AND '.join(clauses)} ORDER BY {ordered} LIMIT ?"
    keys = ", ".join(part if part in (table.time, *table.key) else "NULL" for part in table.columns.split(", "))
    values.append(max(query.limit, 0))
    return Selected(f"SELECT {table.columns}, seal {where}", f"SELECT {keys} {where}", values)


def _asked(table: SqlTable, wanted: dict[str, Any]) -> list[str]:
    """Return the conditions of a query, and in words those of a partial index: no planner knows them by a value."""
    shape = wanted.get("shape")
    clauses = ["tenant = ?", *(f"{column} = ?" for column in wanted)]
    if table.name == "runs":
        clauses += ["status = 'set_aside'"] if wanted.get("status") == "set_aside" else []
        clauses += ["head > 0", f"substr(run, 1, 1) <> '{RESERVED}'"]
    if table.name == "requests":
        clauses += ["state = 'open'"] if wanted.get("state") == "open" else []
        clauses += [] if shape is None else ["shape = ''" if shape == "" else "shape <> ''"]
    return clauses


def _index(table: SqlTable, wanted: dict[str, Any]) -> str | None:
    """Name the index of a page of open requests; a planner without statistics may take that of all requests."""
    if table.name != "requests" or wanted.get("state") != "open" or wanted.keys() & {"id", "run"}:
        return None
    if wanted.get("shape"):
        return "requests_open_shape"
    if wanted.get("shape") == "" and wanted.keys() >= {"kind", "tool"}:
        return "requests_open_unshaped"
    return "requests_open"
