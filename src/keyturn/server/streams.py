"""Send events as they come (server-sent events), until the reader goes, the source ends, or the server stops.

A reader who is slow holds up nobody but itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..core.errors import KeyturnError
from ..wire.responses import LAST
from .places import StreamPlaces

_PING = 15.0
_AT_ONCE = 0.1
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_BEGIN = b": keyturn\nretry: 1000\n\n"


def event(data: bytes, *, id: str, name: str = "") -> bytes:
    """Write one event; the data are one line of JSON.

    >>> event(b"{}", id="3")
    b'id: 3\\ndata: {}\\n\\n'
    """
    named = f"event: {name}\n".encode() if name else b""
    return b"id: " + id.encode() + b"\n" + named + b"data: " + data + b"\n\n"


class EventStream(Response):
    """Answers with the events of a generator, which it closes; `ended` ends it when the server stops.

    After the last event it says so: what ends otherwise was cut off.

    `still` is asked before an event is sent, and every now and then; it raises one of `refusals` where the reader may
    read this no more: then it ends as well. Events that come at once share one look. A generator that looks for itself
    before each event gives none.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        *,
        ended: asyncio.Event,
        places: StreamPlaces,
        person: str,
        still: Callable[[], Awaitable[object]] | None = None,
        refusals: tuple[type[Exception], ...] = (),
    ) -> None:
        super().__init__()
        self._still, self._checked = still, time.monotonic()
        self._events, self._ended = events, ended
        self._places, self._person = places, person
        self._refusals = (KeyturnError, *refusals)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what comes until one of the three ends it."""
        with self._places.held(self._person):
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send({"type": "http.response.body", "body": _BEGIN, "more_body": True})
            sending = asyncio.ensure_future(self._pump(send))
            ends = {asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(self._ended.wait())}
            try:
                await asyncio.wait({sending, *ends}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _stopped({sending, *ends})
            with contextlib.suppress(OSError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            error = None if sending.cancelled() else sending.exception()
            if error is not None and not isinstance(error, self._refusals):
                raise error  # what is refused in the middle has no status any more: it is told when asked anew

    async def _pump(self, send: Send) -> None:
        async with contextlib.aclosing(self._events) as events:
            while (body := await self._next(events, send)) is not None:
                await self._check(_AT_ONCE)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": LAST + b"\n\n", "more_body": True})

    async def _next(self, events: AsyncGenerator[bytes], send: Send) -> bytes | None:
        """Return the next event, None after the last; while there is none, show that somebody is still here."""
        coming = asyncio.ensure_future(anext(events, None))
        try:
            while not (await asyncio.wait({coming}, timeout=_PING))[0]:
                await self._check(0)
                await send({"type": "http.response.body", "body": b": \n\n", "more_body": True})
        finally:
            await _stopped({coming})
        return coming.result()

    async def _check(self, age: float) -> None:
        if self._still is not None and time.monotonic() - self._checked >= age:
            await self._still()
            self._checked = time.monotonic()


async def _stopped(tasks: Iterable[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(list(tasks))


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
