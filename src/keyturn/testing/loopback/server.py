"""A server on 127.0.0.1 that answers from a script, remembers every request and misbehaves on demand.

Here is the script; `wire.py` has the bytes, and no provider's format is in either. A format is one file with one
subclass of `LoopbackServer`, which says at most four things:

    reply(request, step) -> HttpReply  a step's items as this provider sends them: `.json(...)` or `.stream(...)`
    error(status, message) -> dict     the body of this provider's errors
    refuse(request) -> (status, message) | None     what the real one would not accept; asked before the script
    base_path = "/v1"                  what `base_url` adds to the address

A script is what `ScriptedModel` takes: a list of steps (items in the Responses format, texts, `ModelStep`s), or one
function of the `HttpRequest`, sync or async, that returns one. A `Fault` may stand for a step or be returned. Of a
`ModelStep`, `error` is an error response if it has a `status_code`, else a dropped line; `break_after` cuts the stream.
A function may return a `HttpReply`, too, which is sent as it is.

    async with ResponsesServer([Fault(status=429, headers={"retry-after": "0"}), "Done."]) as server:
        client = AsyncOpenAI(api_key="k", base_url=server.base_url, max_retries=0)
        ...
    server.requests[0].json["model"]

`with` in place of `async with` runs the server in a thread of its own, for code that blocks the event loop.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self, cast

from ...models.scripted.script import ModelStep, read_step
from .lines import LoopbackListener
from .wire import Fault, HttpReply, HttpRequest, receive, send

__all__ = ["Fault", "HttpReply", "HttpRequest", "LoopbackServer"]

Responder = Callable[[HttpRequest], Any]


class LoopbackServer(LoopbackListener):
    """Serves one wire format from a script; subclass it, see the top of the file.

    It is a context manager, sync and async.

    `requests` is what came, `answered` how many steps were used, `connections` how many lines were opened.
    """

    base_path: ClassVar[str] = ""

    def __init__(self, script: Iterable[Any] | Responder = ()) -> None:
        super().__init__()
        self.requests: list[HttpRequest] = []
        self.answered = 0
        self._respond = script if callable(script) else None
        self._steps: deque[Any] = deque(() if callable(script) else script)
        self._thread: tuple[threading.Thread, asyncio.AbstractEventLoop] | None = None

    @abc.abstractmethod
    def reply(self, request: HttpRequest, step: ModelStep) -> HttpReply:
        """Return a step's items as this provider sends them."""

    @abc.abstractmethod
    def error(self, status: int, message: str) -> Any:
        """Return the body of this provider's errors."""

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        """Return status and message of what the real one would not accept; the default accepts everything."""
        return None

    @property
    def base_url(self) -> str:
        """Return the address that the provider's client is given."""
        return self.url + self.base_path

    def __enter__(self) -> Self:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="loopback", daemon=True)
        thread.start()
        self._thread = thread, loop
        asyncio.run_coroutine_threadsafe(self.start(), loop).result()
        return self

    def __exit__(self, *_raised: object) -> None:
        assert self._thread is not None
        thread, loop = self._thread
        asyncio.run_coroutine_threadsafe(self.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await receive(reader)) is not None:
            self.requests.append(request)
            reply, fault = await self._answer(request)
            if await send(writer, reply, fault):
                continue
            if fault.stall:
                await reader.read()  # until the client hangs up
            return

    async def _answer(self, request: HttpRequest) -> tuple[HttpReply, Fault]:
        try:
            refused = self.refuse(request)
            return (self._error(*refused), Fault()) if refused is not None else await self._told(request)
        except Exception as error:  # a script's mistake must reach the test, and this is the only way there
            return self._error(400, f"the script: {type(error).__name__}: {error}"), Fault()

    async def _told(self, request: HttpRequest) -> tuple[HttpReply, Fault]:
        fault, step = await self._next(request)
        if fault.status is not None:
            return self._error(fault.status, fault.message, fault.headers), fault
        if fault.body is not None:
            return HttpReply(200, {"content-type": "application/json", **fault.headers}, fault.body), fault
        if isinstance(step, HttpReply):
            return step, fault
        if step.delay is not None:
            await (step.delay() if callable(step.delay) else asyncio.sleep(step.delay))
        return self.reply(request, step), fault

    def _error(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> HttpReply:
        return HttpReply.json(self.error(status, message), status, headers)

    async def _next(self, request: HttpRequest) -> tuple[Fault, ModelStep | HttpReply]:
        if self._respond is None and not self._steps:
            raise IndexError(f"it has {self.answered} steps and was asked for one more")
        self.answered += 1
        given: Any = self._respond if self._respond is not None else self._steps.popleft()
        while callable(asked := given.responder if isinstance(given, ModelStep) else given):
            given = cast("Any", asked)(request)
            given = await given if inspect.isawaitable(given) else given
        fault: Fault = given if isinstance(given, Fault) else Fault(given)
        if isinstance(fault.reply, HttpReply):
            return fault, fault.reply
        step = read_step(fault.reply, f"step {self.answered}")
        if step.error is not None and step.break_after is None:
            status = getattr(step.error, "status_code", None)
            fault = Fault(status=status, message=str(step.error)) if status else Fault(step, events=0)
        elif step.break_after is not None:
            fault = Fault(step, events=step.break_after)
        return fault, step
