"""Open and close several servers together, so that one that cannot be reached does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import ClassVar, Self

from ..core.errors import UserError
from ..core.settable import FLAG, SECONDS, Rules, Sealed
from .base import MCPServerError
from .own_server import MCPServer


class MCPServerManager(Sealed):
    """Connects servers and says which are available: give an agent `active_servers`.

    With `strict=True` the first that fails is an error; else it is in `failed_servers` and `errors`, and left out of
    `active_servers` unless `drop_failed_servers=False`.

    >>> MCPServerManager([]).active_servers
    []
    """

    connect_timeout_seconds: float | None
    cleanup_timeout_seconds: float | None
    drop_failed_servers: bool
    strict: bool
    connect_in_parallel: bool
    _rules: ClassVar[Rules] = {
        **dict.fromkeys(("connect_timeout_seconds", "cleanup_timeout_seconds"), SECONDS),
        **dict.fromkeys(("drop_failed_servers", "strict", "connect_in_parallel"), FLAG),
    }

    def __init__(
        self,
        servers: Iterable[MCPServer],
        *,
        connect_timeout_seconds: float | None = 10.0,
        cleanup_timeout_seconds: float | None = 10.0,
        drop_failed_servers: bool = True,
        strict: bool = False,
        connect_in_parallel: bool = False,
    ) -> None:
        self.all_servers = list(servers)
        names = [server.name for server in self.all_servers]
        if len(set(names)) < len(names):
            raise UserError("two MCP servers of a manager have one name; give each a name= of its own")
        self.errors: dict[MCPServer, Exception] = {}
        self._connected: set[MCPServer] = set()
        self.connect_timeout_seconds, self.cleanup_timeout_seconds = connect_timeout_seconds, cleanup_timeout_seconds
        self.drop_failed_servers = drop_failed_servers
        self.strict = strict
        self.connect_in_parallel = connect_in_parallel

    @property
    def active_servers(self) -> list[MCPServer]:
        """Return the servers to give to an agent."""
        if not self.drop_failed_servers:
            return list(self.all_servers)
        return [server for server in self.all_servers if server in self._connected]

    @property
    def failed_servers(self) -> list[MCPServer]:
        """Return the servers that could not be connected; `errors` says why."""
        return list(self.errors)

    async def connect_all(self) -> list[MCPServer]:
        """Connect all that are not connected, and return those that are active."""
        waiting = [server for server in self.all_servers if server not in self._connected]
        return await self._connect(waiting)

    async def reconnect(self, failed_only: bool = True) -> list[MCPServer]:
        """Connect again those that failed, or all."""
        if not failed_only:
            await self.cleanup_all()
        return await self._connect(self.failed_servers if failed_only else self.all_servers)

    async def cleanup_all(self) -> None:
        """Close all servers, even where closing one fails."""
        servers, self._connected = list(self._connected), set()
        await asyncio.gather(*(self._closed(server) for server in servers))

    async def __aenter__(self) -> Self:
        await self.connect_all()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.cleanup_all()

    async def _connect(self, servers: list[MCPServer]) -> list[MCPServer]:
        try:
            if self.connect_in_parallel:
                await asyncio.gather(*(self._opened(server) for server in servers))
            else:
                for server in servers:
                    await self._opened(server)
        except BaseException:
            await self.cleanup_all()
            raise
        return self.active_servers

    async def _opened(self, server: MCPServer) -> None:
        self.errors.pop(server, None)
        try:
            async with asyncio.timeout(self.connect_timeout_seconds):
                await server.connect()
            self._connected.add(server)
        except Exception as error:
            slow = MCPServerError(server.name, f"it was not connected within {self.connect_timeout_seconds} s")
            self.errors[server] = slow if isinstance(error, TimeoutError) else error
            await self._closed(server)
            if self.strict:
                raise self.errors[server] from None

    async def _closed(self, server: MCPServer) -> None:
        try:
            async with asyncio.timeout(self.cleanup_timeout_seconds):
                await server.cleanup()
        except Exception as error:
            self.errors[server] = error
