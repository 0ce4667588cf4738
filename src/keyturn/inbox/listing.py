"""List what waits as people read it: whose time runs out first comes first, narrowed to what they look for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ..journal.rows import Query, RequestRow
from ..presenting.asking import mark_of
from .desk import Inbox
from .naming import By

#: How many rows a list has.
SHOWN = 50
#: How many open requests are looked at to put those first whose time runs out first.
SORTED = 500
#: How many times that many are read for one list, whatever waits; the next list begins after them.
PAGES = 4
_NEVER = 1 << 62


class Filters(msgspec.Struct, frozen=True):
    """Holds what a list is narrowed to, and after which request it begins.

    >>> Filters(tool="pay").any
    True
    """

    tool: str = ""
    agent: str = ""
    risk: str = ""
    text: str = ""
    mine: bool = False
    after: tuple[int, str] | None = None

    @property
    def any(self) -> bool:
        """Return whether anything is left out."""
        return self != Filters()


class Listed(NamedTuple):
    """Holds the rows of a list, how many were found, whether those are all, and after which request the next begins."""

    rows: Sequence[RequestRow]
    found: int
    whole: bool
    next: tuple[int, str] | None = None


Shows = Callable[[RequestRow], bool]


async def listed(inbox: Inbox, chosen: Filters, person: By, shows: Shows | None = None) -> Listed:
    """Return the rows of a list as a person sees it.

    Those whose time runs out first come first, as far as they were looked at; then the oldest. `shows` says of each
    whether this list of theirs has it; then nobody is said to have read anything. No text is indexed: a list is made of
    the next 2,000 open requests at most, and says after which one the next list begins.
    """
    wanted = wanted_of(chosen)
    if shows is None:
        given = await inbox.list(for_=person if chosen.mine else None, **wanted)
        return narrowed(given, chosen)
    rows, end = await _looked_through(inbox, Query(state="open", after=chosen.after, **wanted), chosen, shows)
    return _sorted(rows, whole=end is None)._replace(next=end)


def wanted_of(chosen: Filters) -> dict[str, Any]:
    """Return what an inbox is asked for, of which `narrowed` makes the list."""
    named = {"tool": chosen.tool, "agent": chosen.agent}
    return {"limit": SORTED} | {name: value for name, value in named.items() if value}


def narrowed(given: Sequence[RequestRow], chosen: Filters) -> Listed:
    """Return the list that is made of rows, of which no more than `SORTED` were asked for."""
    return _sorted([row for row in given if _fits(row, chosen)], whole=len(given) < SORTED)


def _sorted(rows: list[RequestRow], *, whole: bool) -> Listed:
    rows.sort(key=lambda row: (row.expires_at or _NEVER, row.asked_at))
    return Listed(rows[:SHOWN], len(rows), whole)


async def _looked_through(
    inbox: Inbox, query: Query, chosen: Filters, shows: Shows
) -> tuple[list[RequestRow], tuple[int, str] | None]:
    """Return those that a list shows, and after which request to go on; None where no more wait."""
    found: list[RequestRow] = []
    for _ in range(PAGES):
        page = await inbox.list(query)
        found += [row for row in page if _fits(row, chosen) and shows(row)]
        if len(found) > SORTED:
            return found[:SORTED], found[SORTED - 1].place
        if len(page) < query.limit:
            return found, None
        query = msgspec.structs.replace(query, after=page[-1].place)
        await asyncio.sleep(0)  # others are served meanwhile
    return found, query.after


def _fits(row: RequestRow, chosen: Filters) -> bool:
    if chosen.risk and mark_of(row) != chosen.risk:
        return False
    asked = chosen.text.casefold()
    return not asked or asked in f"{row.tool} {row.agent} {row.reason} {row.body}".casefold()
