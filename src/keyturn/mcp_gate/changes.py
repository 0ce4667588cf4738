"""Pass on that a list of the server behind the gate changed: to each client in the words of its own version.

A server of 2025-11-25 notifies by itself, one of 2026-07-28 in a stream that is opened here; clients of the two hear of
it in the same two ways. Nothing of a notification is trusted: the gate looks at the tools anew before it passes it on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ServerEvent,
    SubscriptionLost,
    ToolsListChanged,
)
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_MOST = 1_000  # clients of 2025-11-25 that are notified
_SLOW = 5.0  # seconds after which such a client is given up
_AGAIN = 5.0  # seconds after which a lost stream is opened again
_EVENTS: dict[type, ServerEvent] = {
    types.ToolListChangedNotification: ToolsListChanged(),
    types.PromptListChangedNotification: PromptsListChanged(),
    types.ResourceListChangedNotification: ResourcesListChanged(),
}


class PassingServer(Server[Any]):
    """Declares to clients of 2025-11-25 the changes that the server behind it declares, on every transport."""

    changes = NotificationOptions()

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        """Return what a client of 2025-11-25 is greeted with."""
        return super().create_initialization_options(notification_options or self.changes, *more, **named)


class ListChanges:
    """Hears of changed lists, and notifies clients; `received` is the message handler of the client of the server."""

    def __init__(self) -> None:
        self._happened = asyncio.Queue[ServerEvent]()
        self._streams = InMemorySubscriptionBus()
        self._clients = deque[ServerSession](maxlen=_MOST)
        self._work: list[asyncio.Task[None]] = []

    async def received(self, message: object) -> None:
        """Take note of a notification; it is passed on elsewhere, since the server may wait for this."""
        event = _EVENTS.get(type(message))
        if event is not None:
            self._happened.put_nowait(event)

    async def begin(self, up: Client, look: Callable[[], Awaitable[None]]) -> None:
        """Begin to pass changes on, so that what is listed after this misses none; `look` looks at the tools anew."""
        self._work = [asyncio.ensure_future(self._passed_on(look))]
        if up.protocol_version in MODERN_PROTOCOL_VERSIONS and (declared := _declared(up)):
            opened = asyncio.Event()
            self._work.append(asyncio.ensure_future(self._listened(up, declared, opened)))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(opened.wait(), _SLOW)

    async def end(self) -> None:
        """Pass on nothing any more."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    def offer(self, server: PassingServer, up: Client) -> None:
        """Let a server tell its clients of the changes that the server behind declares."""
        declared = _declared(up)
        if not declared:
            return
        server.changes = NotificationOptions(**{f"{name}_changed": True for name in declared})
        listen = ListenHandler(self._streams)
        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)

        async def initialized(context: Any, _params: types.NotificationParams) -> None:
            self._clients.append(context.session)

        server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)

    async def _listened(self, up: Client, declared: frozenset[str], opened: asyncio.Event) -> None:
        """Keep a stream of changes open; what is in it is `received` as well."""
        missed: list[ServerEvent] = []
        while True:
            with contextlib.suppress(MCPError, SubscriptionLost, TimeoutError):
                await self._stream(up, declared, opened, missed)
            opened.set()
            missed = [event for event in _EVENTS.values() if _list_of(event) in declared]
            await asyncio.sleep(_AGAIN)

    async def _stream(
        self, up: Client, declared: frozenset[str], opened: asyncio.Event, missed: list[ServerEvent]
    ) -> None:
        """Follow one stream to its end; what was `missed` while there was none is passed on first."""
        wanted: dict[str, Any] = {f"{name}_list_changed": True for name in declared}
        async with up.listen(**wanted) as stream:
            opened.set()
            for event in missed:
                self._happened.put_nowait(event)
            async for _ in stream:
                pass

    async def _passed_on(self, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            event = await self._happened.get()
            if isinstance(event, ToolsListChanged):
                with contextlib.suppress(MCPError):  # it is looked at again before a call
                    await look()
            await self._streams.publish(event)
            await asyncio.gather(*(self._notified(each, event) for each in list(self._clients)))

    async def _notified(self, client: ServerSession, event: ServerEvent) -> None:
        sends = {
            "tools": client.send_tool_list_changed,
            "prompts": client.send_prompt_list_changed,
            "resources": client.send_resource_list_changed,
        }
        try:
            async with asyncio.timeout(_SLOW):
                await sends[_list_of(event)]()
        except Exception:  # a client that is gone is notified of nothing
            with contextlib.suppress(ValueError):
                self._clients.remove(client)


def _list_of(event: ServerEvent) -> str:
    """Return the name of the list that changed.

    >>> _list_of(ToolsListChanged())
    'tools'
    """
    return type(event).__name__.removesuffix("ListChanged").lower()


def _declared(up: Client) -> frozenset[str]:
    """Return the lists of which a server declares that it notifies of their changes."""
    has = up.server_capabilities
    lists = {"tools": has.tools, "prompts": has.prompts, "resources": has.resources}
    return frozenset(name for name, each in lists.items() if each is not None and each.list_changed)
