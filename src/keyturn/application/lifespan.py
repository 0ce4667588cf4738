"""Own what an app's agents need: what its lifespan opens, and the MCP servers of its agents.

The lifespan is entered and left in one task of its own, since what it opens may have cancel scopes, which belong to a
task: whoever starts a run and whoever stops the app are two others. A server is connected when it is first needed, and
is let go before the lifespan ends, which may hold what the server needs. Nothing here knows a run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

from ..core.errors import UserError
from ..support.user_code import answer_of, class_name, contained

log = logging.getLogger("keyturn.app")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

_CLOSING = 15.0  # how long a server may take to close, in seconds
_CLOSED = "the app was closed before its lifespan was entered"


@asynccontextmanager
async def _nothing(_app: object) -> AsyncGenerator[None]:
    yield


class AppResources:
    """Holds what an app's agents need while the app is open; it may be opened again once it is closed."""

    def __init__(self, app: Any, lifespan: Lifespan | None = None) -> None:
        self._app = app
        self._owner: asyncio.Task[None] | None = None
        self.lifespan = lifespan
        self._ready: asyncio.Future[Any] | None = None
        self._ending = asyncio.Event()
        self._waiting = set[object]()
        self._servers: dict[int, Any] = {}
        self._lock = asyncio.Lock()
        #: What the lifespan yielded.
        self.value: Any = None

    @property
    def lifespan(self) -> Lifespan | None:
        """Return what is entered; None where that is nothing."""
        return self._lifespan

    @lifespan.setter
    def lifespan(self, lifespan: Lifespan | None) -> None:
        given: object = lifespan
        if given is not None and (not callable(given) or isasyncgenfunction(given) or iscoroutinefunction(given)):
            raise UserError(
                f"lifespan must be a function of the app that returns an async context manager, not {lifespan!r}: "
                "decorate it with @contextlib.asynccontextmanager"
            )
        if self._owner is not None and not self._gone(self._owner):
            raise AttributeError("lifespan of an App cannot be set while it is open: stop() the app first")
        self._lifespan = lifespan

    async def open(self) -> None:
        """Enter the lifespan, unless that is done; raise what it raises.

        Where whoever waits gives up, and nobody else does, it is not entered.
        """
        if asyncio.current_task() is self._owner and self._ending.is_set():
            raise UserError("the app is being closed: start runs before what its lifespan does at the end")
        while self._owner is not None and self._ending.is_set() and not self._gone(self._owner):
            await asyncio.wait({self._owner})
        if self._owner is None or self._gone(self._owner):
            self._ending, self._lock = asyncio.Event(), asyncio.Lock()
            self._ready = asyncio.get_running_loop().create_future()
            self._owner = asyncio.ensure_future(self._own(self._ready))
            self._owner.add_done_callback(partial(self._ended, self._ready))
        assert self._ready is not None
        if asyncio.current_task() is not self._owner:  # which may start a run, and cannot wait for itself
            await self._entered(self._owner, self._ready)
            if self._ending.is_set():  # a stop came as it was entered
                raise UserError(_CLOSED)

    async def opened(self, stopped: Callable[[], bool]) -> bool:
        """Enter the lifespan, and return True; False where the app was stopped meanwhile."""
        try:
            await self.open()
        except UserError:
            if not stopped():
                raise
            return False
        return True

    async def _entered(self, owner: asyncio.Task[None], ready: asyncio.Future[Any]) -> None:
        self._waiting.add(waiter := object())
        try:
            await asyncio.shield(ready)
        finally:
            self._waiting.remove(waiter)
            if not self._waiting and not ready.done():
                owner.cancel()

    async def close(self) -> None:
        """Let go of the servers and leave the lifespan; raise what leaving raises."""
        owner = self._owner
        if owner is None or self._gone(owner):
            return
        self._ending.set()
        if asyncio.current_task() is owner:
            return
        if self._ready is not None and not self._ready.done():  # it may never be entered
            owner.cancel()
        await asyncio.wait({owner})
        if not owner.cancelled() and owner.exception() is not None:
            raise owner.exception()  # type: ignore[misc]  # it is none of None

    async def keep(self, server: Any) -> None:
        """Have a server connected when it is needed, until the app is closed; while it is closed, leave it alone."""
        if id(server) in self._servers or self._owner is None or self._gone(self._owner) or self._ending.is_set():
            return
        async with self._lock:  # one that connects at once is connected once
            if id(server) not in self._servers:
                await answer_of(server.hold, self)
                self._servers[id(server)] = server

    async def _own(self, ready: asyncio.Future[Any]) -> None:
        try:
            with contained:
                await self._inside(ready)
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)  # whoever opens the app is told, and the next one tries again
            ready.exception()
        finally:
            self.value = None

    async def _inside(self, ready: asyncio.Future[Any]) -> None:
        async with self._manager() as self.value:
            ready.set_result(None)
            try:
                await self._ending.wait()
            finally:
                await self._let_go()

    def _manager(self) -> AbstractAsyncContextManager[Any]:
        made = (self._lifespan or _nothing)(self._app)
        if not hasattr(made, "__aenter__"):
            raise UserError(
                f"lifespan returned a {type(made).__name__}, which is no async context manager: decorate it with "
                "@contextlib.asynccontextmanager"
            )
        return made

    async def _let_go(self) -> None:
        servers, self._servers = list(self._servers.values()), {}
        await asyncio.gather(*map(self._release, servers))

    async def _release(self, server: Any) -> None:
        try:
            async with asyncio.timeout(_CLOSING):
                await answer_of(server.release, self)
        except Exception as error:
            log.warning("MCP server %r of the app was not closed: %s", server.name, class_name(error))

    def _gone(self, owner: asyncio.Task[None]) -> bool:
        """Return whether the lifespan is over, or was on a loop that is."""
        return owner.done() or owner.get_loop().is_closed()

    def _ended(self, ready: asyncio.Future[Any], owner: asyncio.Task[None]) -> None:
        if not ready.done():  # it was cancelled, maybe before it began
            ready.set_exception(UserError(_CLOSED))
            ready.exception()
        if not owner.cancelled() and owner.exception() is not None and not self._ending.is_set():
            log.error("the app's lifespan ended by itself, the next run enters it again", exc_info=owner.exception())
