"""Answer a long poll: wait for something to be written, for as long as a request asks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import Query

from ..turns import leave_turn
from .routes import Call

T = TypeVar("T")

_LONGEST = 60
_LOOK = 1.0

Wait = Annotated[float, Query(ge=0, le=_LONGEST, description="How long to wait, in seconds; 25 is a good one.")]


async def changes_within(here: Call, wait: float, run: str = "") -> AsyncGenerator[None]:
    """Yield whenever something may have been written, from now on until the time is up or the server stops.

    With `run`, something of that run.
    """
    if wait <= 0:
        return
    places = here.request.app.state.places
    places.check(here.visitor.id)
    ends = time.monotonic() + wait
    leave_turn(here.request.scope)
    async with contextlib.AsyncExitStack() as held:
        held.enter_context(places.held(here.visitor.id))
        changes = await held.enter_async_context(contextlib.aclosing(here.live.changes(min(wait, _LOOK), run)))
        async for changed in changes:
            if changed:
                yield
            if time.monotonic() >= ends or await here.request.is_disconnected():
                return


async def settled(
    here: Call,
    wait: float,
    run: str,
    look: Callable[[Call], Awaitable[T]],
    left: Callable[[T], Awaitable[float | None]],
    moved: Callable[[T, T], bool],
) -> T:
    """Look at a run until nothing is left to wait for, or for so long; return what was seen last.

    `left` is after how many seconds time alone changes what was seen, and None once that is settled; `moved` says
    whether something else did. Whoever asks is known anew at each look.
    """

    async def anew() -> T:
        async with here.look():
            return await look(await here.anew())

    seen, ends = await look(here), time.monotonic() + wait
    while (again := await left(seen)) is not None and (rest := ends - time.monotonic()) > 0:
        before = seen
        async for _ in changes_within(here, min(rest, again), run):
            if moved(before, seen := await anew()):
                break
        else:
            seen = await anew()
        if await here.request.is_disconnected():  # which holds a place of its account for nothing
            break
    return seen
