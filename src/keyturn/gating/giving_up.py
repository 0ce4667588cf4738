"""Ask for a caller that may stop waiting: its request is withdrawn, also where its id is known only later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..asks.ask import AskState

T = TypeVar("T")

#: What ends requests whose callers stopped waiting; a loop alone keeps no task.
_ENDING = set[asyncio.Future[None]]()


async def unless_given_up(
    asked: Awaitable[AskState],
    waited: Callable[[AskState], Awaitable[T]],
    give_up: Callable[[AskState], Awaitable[Any]],
) -> T:
    """Return what came of a request that was asked for; where this is cancelled, `give_up` gets it, once it is known.

    The asking itself goes on, since the server may have recorded it. An error of `give_up` is swallowed: the request
    expires by its terms, and is seen in the inbox until then.
    """
    asking = asyncio.ensure_future(asked)
    try:
        return await waited(await asyncio.shield(asking))
    except asyncio.CancelledError:
        ending = asyncio.ensure_future(_given_up(asking, give_up))
        _ENDING.add(ending)
        ending.add_done_callback(_ENDING.discard)
        await asyncio.shield(ending)
        raise


async def _given_up(asking: asyncio.Future[AskState], give_up: Callable[[AskState], Awaitable[Any]]) -> None:
    with contextlib.suppress(Exception):
        await give_up(await asking)
