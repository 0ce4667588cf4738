"""Say of a call how it is held, what its client calls itself, and whether the client is still there."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

import mcp_types as types

from .holding import Holding, NotForwarded, Progress

#: Where a request over HTTP says how its calls are held, and whether its client went away.
CALLER, GONE = "keyturn.holding", "keyturn.gone"
_T = TypeVar("_T")


def _of_request(context: Any, name: str) -> Any:
    return None if context.request is None else context.request.scope.get(name)


def holding_of(context: Any, only: Holding | None) -> Holding:
    """Return how the calls of a client are held: over HTTP those of its account, over stdio as all of them."""
    found: Holding | None = _of_request(context, CALLER) or only
    if found is None:
        raise NotForwarded("Not run: the call has no account.")
    return found


async def while_there(context: Any, task: asyncio.Future[_T]) -> _T:
    """Return what comes of a task, which is cancelled where its client goes away."""
    gone: asyncio.Event | None = _of_request(context, GONE)
    if gone is None:
        return await task
    watch = asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
        if task.cancelled():
            raise NotForwarded("Not run: the client stopped waiting for the call.")
        return task.result()
    finally:
        task.cancel()  # where this call was cancelled itself; it ends what it began
        watch.cancel()


def client_of(context: Any) -> str:
    """Return what a client calls itself; it is shown and told apart by it, and trusted with nothing."""
    params = getattr(context.session, "client_params", None)
    info = getattr(params, "client_info", None)
    return f"{info.name} {info.version}" if info is not None else "unknown"


async def silent(_number: int) -> None:
    """Tell a client nothing: it looks by itself."""


def progress_of(context: Any, params: types.CallToolRequestParams) -> Progress:
    """Return what tells the client that its call is held, where it wants to know."""
    wanted = getattr(params.meta, "progress_token", None) if params.meta is not None else None
    if isinstance(params.meta, dict):
        wanted = params.meta.get("progress_token") or params.meta.get("progressToken")

    async def progress(number: int) -> None:
        if wanted is not None:
            await context.session.report_progress(number, None, "waiting for approval")

    return progress
