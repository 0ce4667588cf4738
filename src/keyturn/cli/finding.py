"""Find a request, a run or a grant by its id, or by the first characters of it where they name only one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from ..core.errors import NotPending, RunMissing, UserError
from ..inbox.personal import PersonalInbox
from ..journal.rows import GrantRow, Query, RequestRow, RunRow

SHORTEST = 6
SHORT = 8  # characters of an id that lists show
WHOLE = 32
_PAGE = 500
_NAMED = 5  # of the ids that fit, an error names so many

_Page = Callable[[Query], Awaitable[Sequence[Any]]]


async def find_request(inbox: PersonalInbox, given: str) -> RequestRow:
    """Return the request of an id, an open one rather than one that was settled."""
    if len(given) >= WHOLE:
        return await inbox.get(given)
    for query in (Query(state="open"), Query()):
        found = await _fitting(given, partial(inbox.page, shown=False), query, lambda row: row.place)
        if found:
            return await inbox.get(_only(given, found, "requests").id)
    raise NotPending(f"no request begins with {given!r}; keyturn requests --all lists them")


class RunList(Protocol):
    """Lists runs: a store, or the runs of a seat."""

    async def runs(self, query: Query) -> Sequence[RunRow]:
        """Return the rows of a query."""
        ...


async def find_run(store: RunList, given: str) -> RunRow:
    """Return the run of an id."""
    if len(given) >= WHOLE or len(given) < SHORTEST:
        found: Sequence[RunRow] = await store.runs(Query(run=given))
    else:
        found = await _fitting(given, store.runs, Query(newest=True), lambda row: (row.started_at, row.run), "run")
    if not found:
        raise RunMissing(given)
    return _only(given, found, "runs", "run")


async def find_grant(inbox: PersonalInbox, given: str) -> GrantRow:
    """Return the grant of an id, the one that holds rather than a copy that a fork left revoked."""
    found = await _fitting(given, inbox.grant_rows, Query(), lambda row: (0, f"{row.run}/{row.id}"))
    if not found:
        raise UserError(f"no grant begins with {given!r}; keyturn grants lists them")
    return _only(given, [row for row in found if not row.revoked] or found, "grants")


async def _fitting(
    given: str, page: _Page, query: Query, place: Callable[[Any], tuple[int, str]], name: str = "id"
) -> list[Any]:
    if len(given) < SHORTEST:
        raise UserError(f"give at least {SHORTEST} characters of the id, not {given!r}")
    return [row async for row in every_row(page, query, place) if getattr(row, name).startswith(given)]


async def every_row(page: _Page, query: Query, place: Callable[[Any], tuple[int, str]]) -> AsyncIterator[Any]:
    """Yield all rows of a query, page by page."""
    after: tuple[int, str] | None = None
    while True:
        rows = await page(msgspec.structs.replace(query, limit=_PAGE, after=after))
        for row in rows:
            yield row
        if len(rows) < _PAGE:
            return
        after = place(rows[-1])


def _only(given: str, found: Sequence[Any], what: str, name: str = "id") -> Any:
    ids = [getattr(row, name) for row in found]
    if len(ids) > 1 and given not in ids:
        some = ", ".join(ids[:_NAMED])
        raise UserError(f"{len(ids)} {what} begin with {given!r}, say more of the one you mean: {some}")
    return found[ids.index(given)] if given in ids else found[0]
