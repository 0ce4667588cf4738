"""List and revoke standing decisions; they are given with an approval."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from ...core import events as ev
from ...core.errors import NotPending
from ...journal.rows import Query
from ...wire import bodies
from ...wire.responses import Done, GrantPage, GrantSeen
from ..visible_pages import visible_page
from .once import said_already
from .paging import After, IdPath, Limit, Name, after_of, key_of, plain
from .routes import ApiContext, Routes, answer, taken

routes = Routes("grants")


@routes.add("GET", "/grants", scope="read", gives=GrantPage)
async def list_grants(
    here: ApiContext,
    run: Name = None,
    state: Literal["open", "revoked"] | None = None,
    limit: Limit = 50,
    after: After = None,
) -> Any:
    """List standing decisions, by run and id."""
    plain(run)
    query = Query(run=run, state=state, limit=limit, after=after_of(after))
    read = here.app.inbox.grants
    rows, more = await visible_page(query, read, here.visibility.grants, lambda row: (0, f"{row.run}/{row.id}"))
    if rows:  # their predicates hold arguments
        await here.visibility.reads_of("list", "grants")
    return answer(GrantPage([GrantSeen.of(row) for row in rows], key_of(*more) if more else None))


@routes.add(
    "POST", "/runs/{run}/grants/{grant}/revoke", scope="decide", takes=bodies.Said, gives=Done, errors=(404, 409)
)
async def revoke_grant(
    here: ApiContext, run: IdPath, grant: IdPath, body: Annotated[bodies.Said, taken(bodies.Said)]
) -> Any:
    """Revoke a standing decision; what it let run before stays."""
    await here.visibility.run(run)
    if not await here.app.inbox.grants(Query(run=run, id=grant)):
        raise NotPending("there is no such grant; the list of grants says which there are")
    try:
        await here.inbox.revoke(run, grant)
    except NotPending:
        if not await said_already(here.app.journal, run, partial(_revokes, grant, here.visitor.id)):
            raise
    return answer(Done())


def _revokes(grant: str, person: str, event: ev.AnyEvent) -> bool:
    """Return whether a person revoked a grant by an event."""
    by = event.decider if isinstance(event, ev.GrantRevoked) and event.grant == grant else None
    return by is not None and by.id == person
