"""The HTTP client under a connection: it limits the size of an answer and marks requests that were never sent.

A request that found nobody is another thing than one whose answer was lost: the first may be sent again. One that got
any answer at all, be it 404, was sent. Nothing here knows the protocol above but the form of its errors.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import httpx2
from mcp.types import CONNECTION_CLOSED

from .bounds import MESSAGE_BYTES

# A server cannot know them, so that none can claim that a call it got was never sent, or close a connection by words.
UNSENT = secrets.token_hex(16)
SESSION_OVER = secrets.token_hex(16)
_SESSION = "mcp-session-id"
_NOBODY = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _Bounded(httpx2.AsyncByteStream):
    """Reads a body up to a size limit; an error while reading fails this one request only."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > MESSAGE_BYTES:
                    raise httpx2.StreamError(f"the answer is larger than {MESSAGE_BYTES} bytes")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer broke off ({type(error).__name__})") from None

    async def aclose(self) -> None:
        await self._stream.aclose()


class HttpClient(httpx2.AsyncClient):
    """Turns network failures into protocol errors, so that only the one call fails."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; a network failure becomes a protocol error as its answer."""
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            nobody = isinstance(error, _NOBODY)
            problem = "it cannot be reached" if nobody else f"the connection broke ({type(error).__name__})"
            return _failed(request, problem, UNSENT if nobody else None)
        if response.status_code == 404 and request.method == "POST" and _SESSION in request.headers:
            await response.aclose()  # it was started again, say: by the protocol, a new session must be opened
            return _failed(request, "it knows no such session", SESSION_OVER)
        if "text/event-stream" not in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream)
        return response


class EventsClient(httpx2.AsyncClient):
    """Serves the older transport, where one stream brings all answers.

    It ends with the first message that could not be delivered: nobody shall wait for the answer, and the next call
    opens another.
    """

    _events: httpx2.Response | None = None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request; where a message cannot be delivered, end the stream of answers."""
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError:
            await self._end()
            raise
        if request.method == "GET":
            self._events = response
        elif not response.is_success:
            await self._end()
        return response

    async def _end(self) -> None:
        if self._events is not None:
            await self._events.aclose()


def _failed(request: httpx2.Request, problem: str, mark: str | None) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": CONNECTION_CLOSED, "message": problem, "data": mark}}
    return httpx2.Response(503, json=body, request=request)
