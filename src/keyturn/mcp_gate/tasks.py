"""Tasks: a client that declares them is not kept waiting; it looks at its call, answers it, or cancels it.

The extension `io.modelcontextprotocol/tasks` of 2026-07-28. A task goes on after a restart of the gate: a call that was
not forwarded joins its request, by client, tool and arguments, and a result is kept for its client. What became of a
call that was forwarded by a process that ended is not known: it is not forwarded again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from msgspec.structs import replace

from ..core.encodable import timestamp
from .callers import client_of
from .holding import Holding
from .task_records import KeptTask

TASKS = "io.modelcontextprotocol/tasks"
_AT_ONCE = 1.5  # seconds in which a call has a result and is no task
_POLL = 5.0  # seconds after which a client is to look again
_UNSEEN = 600.0  # seconds after which a task is given up at which its client did not look
_UNKNOWN = "there is no such task: call the tool again, and it joins its request"
_LOST = (
    "The gate was restarted while the server carried out this call: whether it ran is not known. If the call required "
    "an approval, its request is in doubt, and a person resolves it in the inbox."
)
CallResult = types.CallToolResult | types.InputRequiredResult


class _TaskParams(types.RequestParams):
    """Names a task; an update brings the answers to its questions."""

    task_id: str
    input_responses: types.InputResponses | None = None


class Task:
    """Holds one call, what it was called with, and who may look at it."""

    def __init__(
        self, owner: Holding, client: str, params: types.CallToolRequestParams, id: str, kept: KeptTask | None = None
    ) -> None:
        self.owner, self.id = owner, id
        self.params = params
        told = params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
        self._kept = kept or KeptTask(client, _now(), told)
        self._is_kept = kept is not None
        self.work: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        self.seen = time.monotonic()

    def begin(self, work: Coroutine[Any, Any, CallResult]) -> None:
        """Go on with some work, and keep what it comes to."""
        self.work = asyncio.ensure_future(work)
        self.work.add_done_callback(lambda _: self.keep() if self._is_kept else None)

    def forwards(self) -> None:
        """Note that the call is forwarded now: no other process may forward it."""
        self._kept = replace(self._kept, forwarded=True)
        if self._is_kept:
            self.keep()

    def keep(self) -> None:
        """Keep the task for another process."""
        self._is_kept = True
        if isinstance(made := self.made, types.CallToolResult):
            self._kept = replace(self._kept, result=_dumped(made))
        self.owner.tasks.keep(self.id, self._kept)

    def drop(self) -> None:
        """Keep it no longer, and give up its call."""
        self._is_kept = False
        self.owner.tasks.drop(self.id)
        self.work.cancel()

    @property
    def state(self) -> dict[str, Any]:
        """Return how the task stands, with its result once there is one."""
        said = {"taskId": self.id, "createdAt": self._kept.began, "lastUpdatedAt": _now(), "ttlMs": None}
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
            return {"status": "input_required", "inputRequests": _dumped(made).get("inputRequests", {})}
        return {"status": "completed", "result": _dumped(made)}


class Tasks:
    """Knows the tasks of a gate; `call` makes a call, and goes on with one whose work came to a question.

    `forget` withdraws the request of a call that an earlier process of the gate held.
    """

    def __init__(
        self,
        call: Callable[[Any, types.CallToolRequestParams, Task | None], Coroutine[Any, Any, CallResult]],
        forget: Callable[[Holding, str, types.CallToolRequestParams], Awaitable[None]],
    ) -> None:
        self._call, self._forget = call, forget
        self._known = dict[str, Task]()

    def offer(self, server: Server[Any], owner: Callable[[Any], Holding]) -> None:
        """Let a server answer about tasks; `owner` says of a request whose tasks it may see."""

        async def get(context: Any, params: _TaskParams) -> dict[str, Any]:
            return {"resultType": "complete", **self._of(context, owner(context), params).state}

        async def update(context: Any, params: _TaskParams) -> dict[str, Any]:
            task = self._of(context, owner(context), params)
            made = task.made
            if isinstance(made, types.InputRequiredResult):
                again = {"input_responses": params.input_responses, "request_state": made.request_state}
                task.begin(self._call(context, task.params.model_copy(update=again), None))
            return {"resultType": "complete"}

        async def cancel(context: Any, params: _TaskParams) -> dict[str, Any]:
            if params.task_id in self._known:
                task = self._of(context, owner(context), params)
                if not task.work.done():
                    task.drop()
            else:
                await self._cancelled(owner(context), client_of(context), params.task_id)
            return {"resultType": "complete"}

        for method, handler in (("get", get), ("update", update), ("cancel", cancel)):
            server.add_request_handler(f"tasks/{method}", _TaskParams, handler)
        server.extensions[TASKS] = {}

    def _of(self, context: Any, owner: Holding, params: _TaskParams) -> Task:
        task = self._known.get(params.task_id) or self._again(context, owner, params.task_id)
        if task.owner is not owner:
            raise MCPError(code=types.INVALID_PARAMS, message=_UNKNOWN)
        task.seen = time.monotonic()
        return task

    def _again(self, context: Any, owner: Holding, id: str) -> Task:
        """Go on with a task of an earlier process."""
        kept = _kept_by(owner, client_of(context), id)
        task = Task(owner, kept.client, types.CallToolRequestParams.model_validate(kept.params), id, kept)
        if kept.result is not None:
            task.work.set_result(types.CallToolResult.model_validate(kept.result))
        elif kept.forwarded:
            task.work.set_result(_lost())
        else:
            task.begin(self._call(context, task.params, task))
        self._watch(task)
        return task

    async def _cancelled(self, owner: Holding, client: str, id: str) -> None:
        """Cancel a task of an earlier process; what was forwarded is not undone by it."""
        kept = _kept_by(owner, client, id)
        if kept.result is None and not kept.forwarded:
            owner.tasks.drop(id)
            await self._forget(owner, kept.client, types.CallToolRequestParams.model_validate(kept.params))

    async def begun(
        self, context: Any, owner: Holding, params: types.CallToolRequestParams
    ) -> CallResult | dict[str, Any]:
        """Return what comes of a call, or the task that it became."""
        task = Task(owner, client_of(context), params, secrets.token_urlsafe(24))
        task.begin(self._call(context, params, task))
        try:
            await asyncio.wait((task.work,), timeout=_AT_ONCE)
            if task.work.done():
                return task.work.result()
            task.keep()
        except BaseException:
            task.work.cancel()
            raise
        self._watch(task)
        return {"resultType": "task", **task.state}

    def _watch(self, task: Task) -> None:
        self._known[task.id] = task
        asyncio.get_running_loop().call_later(_UNSEEN, self._look, task)

    def _look(self, task: Task) -> None:
        """Give up a task at which its client has not looked for long."""
        left = task.seen + _UNSEEN - time.monotonic()
        if left > 0:
            asyncio.get_running_loop().call_later(left, self._look, task)
            return
        del self._known[task.id]
        task.drop()

    async def end(self) -> None:
        """Give up the calls of all tasks, as the gate ends; another process goes on with them."""
        work = [task.work for task in self._known.values()]
        for each in work:
            each.cancel()
        await asyncio.gather(*work, return_exceptions=True)


def _kept_by(owner: Holding, client: str, id: str) -> KeptTask:
    """Return a task that an earlier process kept for this client."""
    kept = owner.tasks.find(id)
    if kept is None or kept.client != client:
        raise MCPError(code=types.INVALID_PARAMS, message=_UNKNOWN)
    return kept


def _lost() -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=_LOST)], is_error=True)


def _dumped(made: CallResult) -> dict[str, Any]:
    return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def declares_tasks(context: Any) -> bool:
    """Return whether a client declares in its request that it takes a task for a result."""
    capabilities: types.ClientCapabilities | None = context.session.client_capabilities
    return capabilities is not None and TASKS in (capabilities.extensions or {})


def _now() -> str:
    return timestamp(time.time_ns() // 1_000_000)
