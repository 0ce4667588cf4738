"""Tasks: a client that declares them is not kept waiting; it looks at its call, answers it, or cancels it.

The extension `io.modelcontextprotocol/tasks` of 2026-07-28. A task is known in this process alone: after a restart the
client repeats its call, which joins its request.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Coroutine
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from ..core.encodable import timestamp

TASKS = "io.modelcontextprotocol/tasks"
_AT_ONCE = 1.5  # seconds in which a call has a result and is no task
_POLL = 5.0  # seconds after which a client is to look again
_UNSEEN = 600.0  # seconds after which a task is given up at which its client did not look
_UNKNOWN = "there is no such task: call the tool again, and it joins its request"
CallResult = types.CallToolResult | types.InputRequiredResult


class _TaskParams(types.RequestParams):
    """Names a task; an update brings the answers to its questions."""

    task_id: str
    input_responses: types.InputResponses | None = None


class _Task:
    """Holds one call, what it was called with, and who may look at it."""

    def __init__(self, owner: object, params: types.CallToolRequestParams, work: asyncio.Task[CallResult]) -> None:
        self.owner, self.params = owner, params
        self.work = work
        self.id = secrets.token_urlsafe(24)
        self.began = _now()
        self.seen = time.monotonic()

    @property
    def state(self) -> dict[str, Any]:
        """Return how the task stands, with its result once there is one."""
        said = {"taskId": self.id, "createdAt": self.began, "lastUpdatedAt": _now(), "ttlMs": None}
        return {**said, "pollIntervalMs": int(_POLL * 1000), **self._status()}

    @property
    def made(self) -> CallResult | None:
        """Return what its work came to; None while it is at work, and where it was cancelled or failed."""
        unmade = not self.work.done() or self.work.cancelled() or self.work.exception() is not None
        return None if unmade else self.work.result()

    def _status(self) -> dict[str, Any]:
        if not self.work.done():
            return {"status": "working", "statusMessage": "waiting for approval, or for the server"}
        if self.work.cancelled():
            return {"status": "cancelled"}
        made = self.made
        if made is None:
            return {"status": "failed", "error": {"code": types.INTERNAL_ERROR, "message": "the server failed"}}
        if isinstance(made, types.InputRequiredResult):
            asked = made.model_dump(mode="json", by_alias=True, exclude_none=True)
            return {"status": "input_required", "inputRequests": asked.get("inputRequests", {})}
        return {"status": "completed", "result": made.model_dump(mode="json", by_alias=True, exclude_none=True)}


class Tasks:
    """Knows the tasks of a gate; `resumed` answers the questions of a call whose work came to some."""

    def __init__(self, resumed: Callable[[Any, types.CallToolRequestParams], Coroutine[Any, Any, CallResult]]) -> None:
        self._resumed = resumed
        self._known = dict[str, _Task]()

    def offer(self, server: Server[Any], owner: Callable[[Any], object]) -> None:
        """Let a server answer about tasks; `owner` says of a request whose tasks it may see."""

        async def get(context: Any, params: _TaskParams) -> dict[str, Any]:
            return {"resultType": "complete", **self._of(owner(context), params).state}

        async def update(context: Any, params: _TaskParams) -> dict[str, Any]:
            task = self._of(owner(context), params)
            made = task.made
            if isinstance(made, types.InputRequiredResult):
                again = {"input_responses": params.input_responses, "request_state": made.request_state}
                task.work = asyncio.ensure_future(self._resumed(context, task.params.model_copy(update=again)))
            return {"resultType": "complete"}

        async def cancel(context: Any, params: _TaskParams) -> dict[str, Any]:
            self._of(owner(context), params).work.cancel()
            return {"resultType": "complete"}

        for method, handler in (("get", get), ("update", update), ("cancel", cancel)):
            server.add_request_handler(f"tasks/{method}", _TaskParams, handler)
        server.extensions[TASKS] = {}

    def _of(self, owner: object, params: _TaskParams) -> _Task:
        task = self._known.get(params.task_id)
        if task is None or task.owner is not owner:
            raise MCPError(code=types.INVALID_PARAMS, message=_UNKNOWN)
        task.seen = time.monotonic()
        return task

    async def begun(
        self, owner: object, params: types.CallToolRequestParams, work: Coroutine[Any, Any, CallResult]
    ) -> CallResult | dict[str, Any]:
        """Return what comes of a call, or the task that it became."""
        task = _Task(owner, params, asyncio.ensure_future(work))
        try:
            await asyncio.wait((task.work,), timeout=_AT_ONCE)
        except asyncio.CancelledError:
            task.work.cancel()
            raise
        if task.work.done():
            return task.work.result()
        self._known[task.id] = task
        asyncio.get_running_loop().call_later(_UNSEEN, self._look, task)
        return {"resultType": "task", **task.state}

    def _look(self, task: _Task) -> None:
        """Give up a task at which its client has not looked for long."""
        left = task.seen + _UNSEEN - time.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._look, task)
            return
        del self._known[task.id]
        task.work.cancel()

    async def end(self) -> None:
        """Give up the calls of all tasks, as their client is gone."""
        work = [task.work for task in self._known.values()]
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)


def declares_tasks(context: Any) -> bool:
    """Return whether a client declares in its request that it takes a task for a result."""
    capabilities: types.ClientCapabilities | None = context.session.client_capabilities
    return capabilities is not None and TASKS in (capabilities.extensions or {})


def _now() -> str:
    return timestamp(time.time_ns() // 1_000_000)
