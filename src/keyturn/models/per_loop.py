"""A client for each event loop, closed with its loop, since a connection belongs to the loop that opened it.

`run_sync` opens a loop each time, and a test or a notebook may, too. What is made here is closed when `asyncio.run`
ends its loop; nobody has to think of it. No provider is known here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary


class ClientPerLoop:
    """Makes a client when a loop first asks, and closes it with the loop, or by `close`.

    >>> class Client:
    ...     async def aclose(self): print("closed")
    >>> clients = ClientPerLoop(Client, Client.aclose)
    >>> async def ask(): return await clients.client() is await clients.client()
    >>> asyncio.run(ask())
    closed
    True
    """

    def __init__(self, make: Callable[[], Any], close: Callable[[Any], Awaitable[None]]) -> None:
        self._make, self._close = make, close
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None, None]]]
        self._made = WeakKeyDictionary()

    async def client(self) -> Any:
        """Return the client of the running loop, made on first use."""
        loop = asyncio.get_running_loop()
        kept = self._made.get(loop)
        if kept is None:
            client = self._make()
            kept = self._made[loop] = client, self._life(client, loop)
            await anext(kept[1])
        return kept[0]

    async def close(self) -> None:
        """Close the client of the running loop."""
        kept = self._made.pop(asyncio.get_running_loop(), None)
        if kept is not None:
            await kept[1].aclose()

    async def _life(self, client: object, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """A generator that closes the client when it is closed itself: a loop that ends closes its generators."""
        try:
            yield
        finally:
            self._made.pop(loop, None)
            await self._close(client)


@cache
def certificates() -> Any:
    """Return the trusted certificates, read once for all clients, since that takes longer than many a run."""
    from httpx2 import create_ssl_context

    return create_ssl_context()
