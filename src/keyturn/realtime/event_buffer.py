"""Hold the events that a session's reader has not read yet, so many and no more.

Audio, raw events and `history_updated` of a reader who is far behind are dropped, the oldest first, and the reader is
told so by an error event. What tells of calls and decisions is never dropped: where too much of it waits the events
end, with an error that says so, and the session goes on without that reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import is_dataclass
from typing import Any, cast

from ..core.errors import KeyturnError
from .items import Part, attributes_of
from .session_events import (
    DROPPABLE,
    RealtimeAudio,
    RealtimeError,
    RealtimeEventInfo,
    RealtimeHistoryAdded,
    RealtimeHistoryUpdated,
    RealtimeRawModelEvent,
    RealtimeSessionEvent,
    held,
)

#: So many events wait at most of those that can be dropped and of those that cannot, and so many bytes of either.
MOST = 4096
MOST_BYTES = 64 * 2**20

# About what an event costs besides what it holds.
_BARE = 128
_NODE = 16

Held = tuple[int, RealtimeSessionEvent, int]


class EventsDropped(KeyturnError):
    """Tells that a reader was so far behind that events were dropped; it is raised where there were no more events.

    >>> issubclass(EventsDropped, KeyturnError)
    True
    """


class EventBuffer:
    """Holds events for one reader."""

    def __init__(self, info: RealtimeEventInfo, most: int = MOST) -> None:
        self._info = info
        self._most = most
        # Each kind in its own queue: a place in the order of all, the event and about how many bytes it holds.
        self._kept: deque[Held] = deque()
        self._droppable: deque[Held] = deque()
        self._count = 0
        self._kept_bytes = 0
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
        if event.type not in DROPPABLE:
            self._keep(event, size)
            return
        while self._droppable and (len(self) >= self._most or self._bytes + size > MOST_BYTES):
            self._drop()
        self._bytes += size
        self._add(self._droppable, event, size)

    def _keep(self, event: RealtimeSessionEvent, size: int) -> None:
        if self._kept and (len(self._kept) >= self._most or self._kept_bytes + size > MOST_BYTES):
            self.close(
                EventsDropped(
                    f"more than {self._most} events or {MOST_BYTES} bytes of events that are not dropped waited for a "
                    "reader, so there are no more events; the session continues: see its pending_approvals and history"
                )
            )
            return
        while self._droppable and len(self) >= self._most:
            self._drop()
        self._kept_bytes += size
        self._add(self._kept, event, size)

    def _drop(self) -> None:
        self._take_droppable()
        if not self._told:
            self._told = True
            dropped = EventsDropped(
                f"more than {self._most} events or {MOST_BYTES} bytes wait: audio or raw events were dropped"
            )
            self._add(self._kept, RealtimeError(dropped, self._info), 0)

    def _add(self, queue: deque[Held], event: RealtimeSessionEvent, size: int) -> None:
        self._count += 1
        queue.append((self._count, event, size))
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
            _place, event, size = self._kept.popleft()
            self._kept_bytes -= size
            return event
        event = self._take_droppable()
        self._told = self._told and bool(self._droppable)
        return event

    def _take_droppable(self) -> RealtimeSessionEvent:
        _place, event, size = self._droppable.popleft()
        self._bytes -= size
        return event


def _size(event: RealtimeSessionEvent) -> int:
    """Return about how many bytes an event holds that others do not hold anyway."""
    if isinstance(event, RealtimeAudio):
        return _BARE + len(event.audio.data)
    if isinstance(event, RealtimeHistoryUpdated):
        return _BARE + 8 * len(held(event, "history"))
    if isinstance(event, RealtimeRawModelEvent):
        return _weight(held(event, "data"))
    if isinstance(event, RealtimeError):
        return _weight(event.error)
    return _weight(held(event, "item")) if isinstance(event, RealtimeHistoryAdded) else _BARE


def _weight(held: object) -> int:
    """Return about how many bytes an event of a model holds: texts, and a little for each thing that holds them."""
    weight = _BARE
    left: list[Any] = [held]
    while left and weight <= MOST_BYTES:  # a user's own model may tell of what holds itself
        value = left.pop()
        weight += _NODE
        if isinstance(value, str | bytes):
            weight += len(value)
        elif isinstance(value, dict):
            left += cast("dict[Any, Any]", value).values()
        elif isinstance(value, list | tuple):
            left += cast("list[Any]", value)
        elif isinstance(value, BaseException):
            left += value.args
        elif isinstance(value, Part) or is_dataclass(value):
            left += attributes_of(value).values()
    return weight
