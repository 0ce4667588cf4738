"""The connections of one server: one that all its calls share, and more for a server that asks within its calls.

Such a server asks on the connection of a call, so each call that stands open beside another one has a connection of its
own: another session of a remote server, another process of one that is started. They are opened when they are needed,
kept for the next calls as long as they are few, and bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from .bounds import IDLE_LINES, OPEN_LINES
from .calls import OpenCalls, Unreached


class ConnectionLike(Protocol):
    """What a server needs of its connection."""

    alive: bool
    calls: OpenCalls

    async def open(self, seconds: float) -> None:
        """Connect to the server."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...

    async def page(self, cursor: str | None) -> Any:
        """Request one page of the tool listing."""
        ...

    async def read(self, what: str, **given: Any) -> Any:
        """Ask for a prompt, a resource, or a page of either's listing."""
        ...

    async def call(self, name: str, arguments: dict[str, Any] | None, extra: dict[str, Any]) -> Any:
        """Call a tool; return its result, or `InputRequired`."""
        ...


class OwnLines:
    """Keeps the connections of one server that single calls have."""

    def __init__(self, opened: Callable[[], Awaitable[ConnectionLike]]) -> None:
        self._opened = opened
        self._lines: list[ConnectionLike] = []
        # How many are being opened, and how often all were closed.
        self._opening = self._closed = 0
        self._closing: set[asyncio.Future[None]] = set()

    def free(self) -> ConnectionLike | None:
        """Return a connection on which no call stands open, where there is one."""
        self._tidy(len(self._lines))
        return next((line for line in self._lines if line.calls.free), None)

    @property
    def full(self) -> bool:
        """Return whether there are as many as there may be, with the one that all calls share."""
        return 1 + len(self._lines) + self._opening >= OPEN_LINES

    async def open(self) -> ConnectionLike:
        """Open one more."""
        closed = self._closed
        self._opening += 1
        try:
            line = await self._opened()
        finally:
            self._opening -= 1
        if closed != self._closed:
            await line.close()
            raise Unreached("it was closed")
        self._lines.append(line)
        return line

    def ended(self) -> None:
        """Close what no call needs."""
        self._tidy(IDLE_LINES)

    async def close(self) -> None:
        """Close all of them, and those that are being opened."""
        self._closed += 1
        lines, self._lines = self._lines, []
        for line in lines:
            line.calls.drop()
        await asyncio.gather(*(line.close() for line in lines), *self._closing)

    def _tidy(self, kept: int) -> None:
        """Close those that are dead, or whose call was given up, and the idle ones beyond some."""
        for line in list(self._lines):
            if not line.calls.free:
                continue
            kept -= 1
            if kept < 0 or not line.alive or line.calls.ambiguous:
                self._lines.remove(line)
                closing = asyncio.ensure_future(line.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
