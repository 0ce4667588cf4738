"""List what waits as people read it: whose time runs out first comes first, narrowed to what they look for."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from ..journal.rows import Query, RequestRow
from ..presenting.asking import mark_of
from ..presenting.source import RequestSource, source_of
from .desk import Inbox
from .shows import is_from

#: How many rows a list has.
SHOWN = 50
#: How many open requests are looked at to put those first whose time runs out first.
SORTED = 500
#: How many times that many are read for one list, whatever waits; the next list begins after them.
PAGES = 4
_NEVER = 1 << 62
_MOST = 1 << 63  # no store compares a larger number


class ListPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Says where a page begins: `past` this request, as the page is sorted, of the block from `begin` to `end`.

    A block is what is sorted together. It keeps its ends, whatever is decided meanwhile, so that pages neither skip nor
    repeat; `whole` says that no request was open after it.

    >>> place = ListPlace(past=(7, 1, "r1"), end=(5, "r9"))
    >>> ListPlace.of_token(place.token) == place, ListPlace.of_token("no such place")
    (True, None)
    """

    begin: tuple[int, str] | None = None
    end: tuple[int, str] | None = None
    past: tuple[int, int, str] | None = None
    whole: bool = False

    @property
    def token(self) -> str:
        """Return the place as text, for an address."""
        return urlsafe_b64encode(msgspec.json.encode(self)).decode()

    @classmethod
    def of_token(cls, token: str) -> ListPlace | None:
        """Return the place that a text names; None for any other text."""
        try:
            place = msgspec.json.decode(urlsafe_b64decode(token.encode()), type=cls)
        except (msgspec.MsgspecError, ValueError):
            return None
        numbers = [place.begin or (0, ""), place.end or (0, ""), place.past or (0, 0, "")]
        return place if all(0 <= number < _MOST for given in numbers for number in given[:-1]) else None


class Filters(msgspec.Struct, frozen=True):
    """Holds what a list is narrowed to, and where it begins.

    >>> Filters(tool="pay").any
    True
    """

    tool: str = ""
    agent: str = ""
    risk: str = ""
    text: str = ""
    mine: bool = False
    after: ListPlace | None = None
    source: RequestSource = RequestSource()
    group: str = ""

    @property
    def any(self) -> bool:
        """Return whether anything is left out."""
        return self != Filters(group=self.group)

    def address(self, **changed: str) -> str:
        """Return the filters as an address names them, with these ones in place of what is chosen.

        >>> Filters(tool="pay", mine=True).address(host="build 7")
        'tool=pay&mine=1&host=build+7'
        """
        own = {name: getattr(self, name) for name in ("tool", "agent", "risk", "text", "group")}
        named = own | {"mine": "1" if self.mine else ""} | self.source._asdict() | changed
        return urlencode({name: value for name, value in named.items() if value})


class Listed(NamedTuple):
    """Holds the rows of a list, how many were found, whether those are all, and where the next page begins."""

    rows: Sequence[RequestRow]
    found: int
    whole: bool
    next: ListPlace | None = None


Shows = Callable[[RequestRow], bool]
Reads = Callable[[Query], Awaitable[Sequence[RequestRow]]]


async def listed(inbox: Inbox, chosen: Filters, shows: Shows) -> Listed:
    """Return the rows of a list as a person sees it.

    Those whose time runs out first come first, as far as they were looked at; then the oldest. `shows` says of each
    whether this list of theirs has it; then nobody is said to have read anything. No text is indexed: a page is made of
    the next 2,000 open requests at most, and says where the next page begins.
    """
    at = chosen.after or ListPlace()
    query = Query(state="open", after=at.begin, **wanted_of(chosen))
    rows, end = await _looked_through(inbox.list, query, chosen, shows, at.end)
    whole = at.whole if at.end is not None else end is None
    rows.sort(key=_order)
    left = [row for row in rows if at.past is None or _order(row) > at.past]
    return Listed(left[:SHOWN], len(left), whole, _next(at, rows, left, end, whole=whole))


async def first_page(read: Reads, chosen: Filters) -> Listed:
    """Return the first page of what is read, 2,000 open requests of it at most."""
    query = Query(state="open", **wanted_of(chosen))
    rows, end = await _looked_through(read, query, chosen, lambda _row: True, None)
    rows.sort(key=_order)
    return Listed(rows[:SHOWN], len(rows), end is None)


def _next(
    at: ListPlace, rows: list[RequestRow], left: list[RequestRow], end: tuple[int, str] | None, *, whole: bool
) -> ListPlace | None:
    """Return where the page after this one begins: in the same block, or behind it."""
    if len(left) > SHOWN:
        last = end or at.end or max(row.place for row in rows)
        return ListPlace(at.begin, last, _order(left[SHOWN - 1]), whole)
    return None if whole or end is None else ListPlace(end)


def grouped(rows: Sequence[RequestRow], part: str) -> list[tuple[str, list[RequestRow]]]:
    """Return the rows of a list by a part of where they come from, in the order of the first of each.

    Those are together that a filter shows together: each group is named as its first row states it.
    """
    found: dict[str, tuple[str, list[RequestRow]]] = {}
    for row in rows:
        source = RequestSource() if row.state == "damaged" else source_of(row.request)
        stated: str = getattr(source, part)
        found.setdefault(stated.casefold(), (stated, []))[1].append(row)
    return list(found.values())


def wanted_of(chosen: Filters) -> dict[str, Any]:
    """Return what a store is asked for, of which the filters make the list."""
    named = {"tool": chosen.tool, "agent": chosen.agent}
    return {"limit": SORTED} | {name: value for name, value in named.items() if value}


def _order(row: RequestRow) -> tuple[int, int, str]:
    return row.expires_at or _NEVER, row.asked_at, row.id


async def _looked_through(
    given: Reads, query: Query, chosen: Filters, shows: Shows, last: tuple[int, str] | None
) -> tuple[list[RequestRow], tuple[int, str] | None]:
    """Return those that a list shows, up to the `last` if one is given, and after which request to go on.

    That is None where no more are open.
    """
    found: list[RequestRow] = []
    for _ in range(PAGES):
        read = await given(query)
        page = read if last is None else [row for row in read if row.place <= last]
        found += [row for row in page if _fits(row, chosen) and shows(row)]
        if len(found) > SORTED:
            return found[:SORTED], found[SORTED - 1].place
        if len(page) < query.limit:
            return found, last
        query = msgspec.structs.replace(query, after=page[-1].place)
        await asyncio.sleep(0)  # others are served meanwhile
    return found, query.after


def _fits(row: RequestRow, chosen: Filters) -> bool:
    if (chosen.risk and mark_of(row) != chosen.risk) or not is_from(row, chosen.source):
        return False
    asked = chosen.text.casefold()
    return not asked or asked in f"{row.tool} {row.agent} {row.reason} {row.body}".casefold()
