"""Tell open pages that something changed: how much waits, which requests are new, and which wait no longer.

A page never moves under a finger: it is told, and says so itself. The state is in each message, so that a page that
was away for a while is told what is so now.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any
from zlib import crc32

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest

from ...core.errors import KeyturnError
from ...inbox.listing import Filters
from ...journal.rows import Query
from ...presenting.list_row import stand_of
from ..limits import TooMany
from ..streams import EventStream, event
from ..visitor import turn_of
from .form import Barred, ReaderPage, reader
from .inbox import Chosen, seen_list
from .pages import Elsewhere, PageContext, here

router = APIRouter(include_in_schema=False)
EVERY = 20.0


@router.get("/live")
async def live(request: HttpRequest, at: ReaderPage, chosen: Chosen) -> EventStream:
    """Stream what changes in the inbox, and in one run if it is named."""
    run = request.query_params.get("run", "")[:64]
    seen = request.headers.get("last-event-id", "")
    places = request.app.state.places
    places.check(at.visitor.id)
    events = _events(request, at, chosen, run, seen)
    return EventStream(events, ended=at.live.ended, places=places, person=at.visitor.id)


async def _events(request: HttpRequest, at: PageContext, chosen: Filters, run: str, seen: str) -> AsyncGenerator[bytes]:
    async for changed in at.live.changes(EVERY):
        now = await _anew(request)
        if now is None:
            return
        if not (changed or chosen.mine):  # what was put off is so until a time
            continue
        async with request.app.state.turns.look(turn_of(now.visitor)):
            told = dict(await _snapshot(now, chosen, changed=changed))
        if run:
            told["head"] = await _head(now, run)
            told["open"] = await _open(now, run)
        state = f"{crc32(json.dumps(told).encode()):08x}"
        if state != seen:
            if await _anew(request) is None:  # while that was read
                return
            seen = state
            yield event(json.dumps(told).encode(), id=state, name="inbox")


async def _anew(request: HttpRequest) -> PageContext | None:
    """Return the same with who looks as they are now; None for whoever logged out, or may read no more."""
    try:
        return await reader(await here(request))
    except (Barred, Elsewhere, TooMany):
        return None


async def _snapshot(at: PageContext, chosen: Filters, *, changed: bool) -> dict[str, Any]:
    """Return what a list shows, looked up once for all who see the same list at the same time."""
    whose = at.visitor.id if chosen.mine or not at.visibility.whole else ""

    async def looked_up() -> dict[str, Any]:
        rows, count, *_ = await seen_list(at, chosen)
        return {"count": count, "rows": [f"{row.id}.{stand_of(row, at.now)}" for row in rows]}

    return await (at.live.once((chosen, whose), looked_up) if changed else looked_up())


async def _head(at: PageContext, run: str) -> int:
    """Return how many lines a run has that they see; 0 of any other."""
    try:
        await at.visibility.run(run)
    except KeyturnError:
        return 0
    return await at.app.journal.head(run)


async def _open(at: PageContext, run: str) -> list[str]:
    """Return the open requests of a run that they see, whatever their list shows, each with its revision."""
    rows = await at.app.journal.requests(Query(run=run, state="open"))
    return [f"{row.id}.{row.request.revision}" for row in rows if at.visibility.sees(row)]
