"""Answer a long poll: wait for something to be written, for as long as a request asks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import Query

from ..turns import leave_turn
from .routes import Call

_LONGEST = 60
_LOOK = 1.0

Wait = Annotated[float, Query(ge=0, le=_LONGEST, description="How long to wait, in seconds; 25 is a good one.")]


async def changes_within(here: Call, wait: float) -> AsyncGenerator[None]:
    """Yield whenever something may have been written, from now on until the time is up or the server stops."""
    if wait <= 0:
        return
    places = here.request.app.state.places
    places.check(here.visitor.id)
    ends = time.monotonic() + wait
    leave_turn(here.request.scope)
    async with contextlib.AsyncExitStack() as held:
        held.enter_context(places.held(here.visitor.id))
        changes = await held.enter_async_context(contextlib.aclosing(here.live.changes(min(wait, _LOOK))))
        async for changed in changes:
            if changed:
                yield
            if time.monotonic() >= ends or await here.request.is_disconnected():
                return
