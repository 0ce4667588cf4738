"""A listener on 127.0.0.1 that ends with its lines: what the loopback servers have in common."""

from __future__ import annotations

import abc
import asyncio
from contextlib import suppress
from typing import Any, Self


class LoopbackListener(abc.ABC):
    """Listens on a free port of 127.0.0.1, and drops every line when it closes; subclass it with a conversation."""

    def __init__(self) -> None:
        self.connections = 0
        self._server: asyncio.Server | None = None
        self._lines: set[asyncio.Task[Any]] = set()

    @abc.abstractmethod
    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hold one conversation, until the line is to be closed."""

    @property
    def port(self) -> int:
        """Return the port."""
        if self._server is None:
            raise RuntimeError("the server is not running: enter it with `async with` or `with`")
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """Return the address, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def close(self) -> None:
        """Stop listening and drop every line."""
        if self._server is not None:
            self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self.connections += 1
        self._lines.add(line)
        try:
            await self.converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client hung up, or the test is over
        finally:
            self._lines.discard(line)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
