"""The line to the inbox: a door of its own, or that of an app or a client, in the caller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from ..gating.door import AskPlace, Door

T = TypeVar("T")
Work = Callable[[AskPlace], Coroutine[Any, Any, T]]


class HasAsks(Protocol):
    """Describes what answers external callers: an `App`, or an `AsyncClient`."""

    @property
    def asks(self) -> Any:
        """Return what answers."""
        ...


class InboxLine:
    """Does what is to be done at the inbox, in the loop in which that is open."""

    def __init__(self, inbox: str | HasAsks | None, token: str | None) -> None:
        self._asks: AskPlace | None = None if inbox is None or isinstance(inbox, str) else inbox.asks
        self._door = Door(inbox, token, None) if inbox is None or isinstance(inbox, str) else None

    async def do(self, work: Work[T]) -> T:
        """Do something at the inbox, and return what it comes to."""
        if self._door is None:
            assert self._asks is not None
            return await work(self._asks)
        return await asyncio.wrap_future(self._begun(self._door, work))

    def begin(self, work: Work[Any]) -> Any:
        """Begin something that goes on until it is cancelled."""
        if self._door is None:
            assert self._asks is not None
            return asyncio.ensure_future(work(self._asks))
        return self._begun(self._door, work)

    def _begun(self, door: Door, work: Work[T]) -> Any:
        async def done() -> T:
            return await work(door.open())

        return door.begin(done())

    def close(self) -> None:
        """Close the door that was opened here."""
        if self._door is not None:
            self._door.close()
