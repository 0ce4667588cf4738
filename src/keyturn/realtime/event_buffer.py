"""Hold the events that a session's reader has not read yet, so many and no more.

What tells of calls and decisions is never dropped. Audio and raw events of a reader who is far behind are, the oldest
first, and the reader is told so by an error event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

from ..core.errors import KeyturnError
from .session_events import (
    DROPPABLE,
    RealtimeAudio,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
)

#: So many events wait at most, and of those that can be dropped so many bytes of audio.
MOST = 4096
MOST_BYTES = 64 * 2**20


class EventsDropped(KeyturnError):
    """Tells that a reader was so far behind that audio or raw events were dropped; it is told and not raised.

    >>> issubclass(EventsDropped, KeyturnError)
    True
    """


class EventBuffer:
    """Holds events for one reader."""

    def __init__(self, info: RealtimeEventInfo, most: int = MOST) -> None:
        self._info = info
        self._most = most
        # Each kind in its own queue, with a place in the order of all.
        self._kept: deque[tuple[int, RealtimeSessionEvent]] = deque()
        self._droppable: deque[tuple[int, RealtimeSessionEvent]] = deque()
        self._count = 0
        self._bytes = 0
        self._told = False
        self._error: BaseException | None = None
        self._closed = False
        self._wake: asyncio.Event = asyncio.Event()

    def __len__(self) -> int:
        return len(self._kept) + len(self._droppable)

    def put(self, event: RealtimeSessionEvent) -> None:
        """Add an event, in the place of the oldest that can be done without where too many wait."""
        if self._closed:
            return
        size = _size(event)
        while self._droppable and (len(self) >= self._most or self._bytes + size > MOST_BYTES):
            self._take()
            if not self._told:
                self._told = True
                dropped = EventsDropped(
                    f"more than {self._most} events or {MOST_BYTES} bytes wait: audio or raw events were dropped"
                )
                self._add(RealtimeError(dropped, self._info))
        self._bytes += size
        self._add(event)

    def _add(self, event: RealtimeSessionEvent) -> None:
        self._count += 1
        (self._droppable if event.type in DROPPABLE else self._kept).append((self._count, event))
        self._wake.set()

    def close(self, error: BaseException | None = None) -> None:
        """End the events, with an error for the reader if there is one."""
        if not self._closed:
            self._closed, self._error = True, error
            self._wake.set()

    async def get(self) -> RealtimeSessionEvent:
        """Return the next event; raise `StopAsyncIteration` after the last, or what ended them."""
        while not len(self):
            if self._closed:
                error, self._error = self._error, None
                raise StopAsyncIteration if error is None else error
            self._wake.clear()
            await self._wake.wait()
        if not self._droppable or (self._kept and self._kept[0][0] < self._droppable[0][0]):
            return self._kept.popleft()[1]
        event = self._take()
        self._told = self._told and bool(self._droppable)
        return event

    def _take(self) -> RealtimeSessionEvent:
        event = self._droppable.popleft()[1]
        self._bytes -= _size(event)
        return event


def _size(event: RealtimeSessionEvent) -> int:
    """Return about how many bytes an event holds that are no more than told."""
    if isinstance(event, RealtimeAudio):
        return len(event.audio.data)
    if not isinstance(event, RealtimeRawModelEvent):
        return 0
    data: Any = getattr(event.data, "data", None)  # raw audio has its own copy, as text
    held: Any = cast("dict[str, Any]", data).get("delta") if isinstance(data, dict) else data
    return len(held) if isinstance(held, str | bytes) else 0
