"""List what waits as people read it: whose time runs out first comes first, narrowed to what they look for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ..journal.rows import RequestRow
from .asking import mark_of
from .desk import Inbox
from .naming import By

#: How many rows a list has.
SHOWN = 50
#: How many open requests are looked at to put those first whose time runs out first.
SORTED = 500
_NEVER = 1 << 62


class Filters(msgspec.Struct, frozen=True):
    """Holds what a list is narrowed to.

    >>> Filters(tool="pay").any
    True
    """

    tool: str = ""
    agent: str = ""
    risk: str = ""
    text: str = ""
    mine: bool = False

    @property
    def any(self) -> bool:
        """Return whether anything is left out."""
        return self != Filters()


class Listed(NamedTuple):
    """Holds the rows of a list, how many were found, and whether those are all that there are."""

    rows: Sequence[RequestRow]
    found: int
    whole: bool


async def listed(inbox: Inbox, chosen: Filters, person: By) -> Listed:
    """Return the rows of a list as a person sees it.

    Those whose time runs out first come first, as far as they were looked at; then the oldest.
    """
    wanted: dict[str, Any] = {"limit": SORTED}
    if chosen.tool:
        wanted["tool"] = chosen.tool
    if chosen.agent:
        wanted["agent"] = chosen.agent
    rows = list(await inbox.list(for_=person if chosen.mine else None, **wanted))
    whole = len(rows) < SORTED
    if chosen.risk:
        rows = [row for row in rows if mark_of(row) == chosen.risk]
    if chosen.text:
        asked = chosen.text.casefold()
        rows = [row for row in rows if asked in f"{row.tool} {row.agent} {row.reason} {row.body}".casefold()]
    rows.sort(key=lambda row: (row.expires_at or _NEVER, row.asked_at))
    return Listed(rows[:SHOWN], len(rows), whole)
