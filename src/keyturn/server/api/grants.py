"""List and revoke standing decisions; they are given with an approval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from ...core.errors import NotPending
from ...journal.rows import GrantRow, Query
from ...wire import said
from ...wire.seen import Done, GrantPage, GrantSeen
from .paging import After, IdPath, Limit, Name, after_of, key_of, plain
from .routes import Here, Routes, answer, taken
from .visible_pages import visible_page

routes = Routes("grants")


@routes.add("GET", "/grants", scope="read", gives=GrantPage)
async def list_grants(
    here: Here,
    run: Name = None,
    state: Literal["open", "revoked"] | None = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List standing decisions, by run and id."""
    plain(run)
    query = Query(run=run, state=state, limit=limit, after=after_of(after))

    async def seen(rows: Sequence[GrantRow]) -> list[GrantRow]:
        if here.sight.whole:
            return list(rows)
        runs = {row.run: await here.app.journal.runs(Query(run=row.run)) for row in rows}
        known = {name for name, found in runs.items() if found and await here.sight.sees_run(found[0])}
        return [row for row in rows if row.run in known]

    rows, more = await visible_page(query, here.app.inbox.grants, seen, lambda row: (0, f"{row.run}/{row.id}"))
    return answer(GrantPage([GrantSeen.of(row) for row in rows], key_of(*more) if more else None))


@routes.add("POST", "/runs/{run}/grants/{grant}/revoke", scope="decide", takes=said.Said, gives=Done, errors=(404, 409))
async def revoke_grant(here: Here, run: IdPath, grant: IdPath, body: Annotated[said.Said, taken(said.Said)]) -> Any:
    """Revoke a standing decision; what it let run before stays."""
    await here.sight.run(run)
    if not await here.app.inbox.grants(Query(run=run, id=grant)):
        raise NotPending("there is no such grant; the list of grants says which there are")
    await here.app.inbox.revoke(run, grant, by=here.visitor.login)
    return answer(Done())
