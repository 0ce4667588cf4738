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
from starlette.responses import StreamingResponse

from ...inbox.listing import Filters, listed
from .inbox import At, Chosen
from .pages import Here

router = APIRouter(include_in_schema=False)
EVERY = 20.0


@router.get("/live")
async def live(request: HttpRequest, at: At, chosen: Chosen) -> StreamingResponse:
    """Stream what changes in the inbox, and in one run if it is named."""
    run = request.query_params.get("run", "")[:64]
    seen = request.headers.get("last-event-id", "")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_events(request, at, chosen, run, seen), media_type="text/event-stream", headers=headers)


async def _events(request: HttpRequest, at: Here, chosen: Filters, run: str, seen: str) -> AsyncGenerator[str]:
    yield "retry: 1000\n\n"
    async for changed in at.live.changes(EVERY):
        if await request.is_disconnected():
            return
        if not changed:
            yield ": still here\n\n"
            continue
        told = dict(await _snapshot(at, chosen))
        if run:
            told["head"] = await at.app.journal.head(run)
        state = f"{crc32(json.dumps(told).encode()):08x}"
        if state != seen:
            seen = state
            yield f"id: {state}\nevent: inbox\ndata: {json.dumps(told)}\n\n"


async def _snapshot(at: Here, chosen: Filters) -> dict[str, Any]:
    """Return what a list shows, looked up once for all who see the same list at the same time."""
    whose = at.visitor.id if chosen.mine else ""

    async def looked_up() -> dict[str, Any]:
        rows, count, _whole = await listed(at.app.inbox, chosen, at.visitor.login)
        return {"count": count, "rows": [f"{row.id}.{row.request.revision}.{len(row.request.votes)}" for row in rows]}

    return await at.live.once((chosen, whose), looked_up)
