"""Seal what a store holds anew with the newest key, line by line and row by row, each verified before.

A key that others may know can be retired only when nothing is sealed with it any more, and some logs never end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import StorageError
from ..core.seal import TAB, Chain, parted
from ..support.keys import ring
from . import statements as say
from .rows import GrantRow, RequestRow, RunRow
from .sealing import DAMAGED, seal_row, verified

_ROWS: dict[str, tuple[type[Any], Sequence[str]]] = {
    "runs": (RunRow, say.RUN_COLUMNS.split(", ")),
    "requests": (RequestRow, say.REQUEST_COLUMNS.split(", ")),
    "grants": (GrantRow, say.GRANT_COLUMNS.split(", ")),
}


class Resealing:
    """Seals rows of tables anew, as they come in the order of their keys."""

    def __init__(self) -> None:
        self._log = ("", "")
        self._chains: tuple[Chain, Chain] | None = None

    def row(self, table: str, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row of a table with its new seal; raise `StorageError` for one that does not verify."""
        given = dict(zip(names, values, strict=True))
        if table == "events":
            given["line"] = self._line(given["tenant"], given["run"], bytes(given["line"]))
        elif table in _ROWS and given["seal"]:  # a run that was only claimed has none
            kind, columns = _ROWS[table]
            found: Any = verified(ring(), given["tenant"], kind, [given[name] for name in columns], given["seal"])
            if _is_damaged(found):
                raise StorageError(
                    f"a row of {table} of run {given['run']!r} is not what was written; nothing was copied"
                )
            given["seal"] = seal_row(ring(), given["tenant"], found)
        return tuple(given[name] for name in names)

    def _line(self, tenant: str, run: str, line: bytes) -> bytes:
        if self._chains is None or self._log != (tenant, run):
            self._log, self._chains = (tenant, run), (Chain(ring, tenant, run), Chain(ring, tenant, run))
        old, new = self._chains
        digest, seal = parted(line)
        if not old.passes(digest, seal):
            raise StorageError(f"line {old.count} of run {run!r} is not what was written there; nothing was copied")
        return line.partition(TAB)[0] + TAB + new.seal_digest(digest).encode()


def _is_damaged(row: RunRow | RequestRow | GrantRow) -> bool:
    if isinstance(row, GrantRow):
        return row.damaged
    return (row.status if isinstance(row, RunRow) else row.state) == DAMAGED
