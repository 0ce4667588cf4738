"""Look at each request before anything else does: for which host it is, from which site it comes, how long it is.

It knows nothing of routes. What it refuses reaches nobody, and each answer leaves with headers that let a page load
nothing from elsewhere and be shown nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .settings import ServerSettings

_LARGEST_HEAD = 32_768
_MOST_HEADERS = 100
_MOST_PARAMETERS = 200  # of a query, and cookies: each is an object before anybody is known
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS: dict[bytes, bytes] = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=()",
    b"cache-control": b"no-store",
}


class Guard:
    """Wraps an ASGI app: `settings` say what is let in, `end` ends what would stay open.

    >>> Guard(None, ServerSettings()).knows_host("127.0.0.1:8321")
    True
    """

    def __init__(
        self, app: ASGIApp | None, settings: ServerSettings, *, end: Callable[[], None] = lambda: None
    ) -> None:
        self._app, self._settings = app, settings
        #: Ends open streams: whoever runs the server says so when it is to stop.
        self.end = end
        self._hosts = frozenset(host.lower() for host in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that may be served."""
        assert self._app is not None
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        scope["keyturn_root"] = scope.get("root_path", "")  # below which prefix all of it stands: parts have their own
        refused = self.refusal(scope)
        if refused is not None:
            return await _refuse(send, *refused)
        scope["headers"] = own_cookies(scope["headers"])
        await self._app(scope, _bounded(receive, self._settings), self._with_headers(send))
        return None

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the words by which a request is refused; None for one that may pass."""
        headers = _Headers(scope)
        if (refused := _too_much(scope, headers)) is not None:
            return refused
        hosts = headers.all(b"host")
        if len(hosts) != 1 or not self.knows_host(hosts[0]):
            return 421, "this server is not reached by that name; `hosts` of its settings says by which it is"
        length = headers.one(b"content-length")
        if length and headers.all(b"transfer-encoding"):
            return 400, "a request says how long it is in one way: by content-length, or in chunks"
        if length and (not length.isascii() or not length.isdigit() or int(length[:20]) > self._settings.body_limit):
            return 413, f"a request has at most {self._settings.body_limit} bytes"
        if scope["method"] not in SAFE and not self._from_here(scope, headers, hosts[0]):
            return 403, "a change must come from a page of this server, or from a program with a token"
        return None

    def knows_host(self, host: str) -> bool:
        """Return whether the server may be reached by that name, whatever the port."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        return (name if port.isdigit() and name else host).lower().rstrip(".") in self._hosts

    def _from_here(self, scope: Scope, headers: _Headers, host: str) -> bool:
        """Return whether a change comes from one of our pages; a program shows a token, which no page sends unasked."""
        origins = headers.all(b"origin")
        site = headers.one(b"sec-fetch-site")
        if origins:
            own = f"{'https' if self._settings.secure else scope.get('scheme', 'http')}://{host}".lower()
            return len(origins) == 1 and origins[0].lower() in (own, *self._settings.origins)
        if site:
            return site == "same-origin"
        return not headers.all(b"cookie")

    def _with_headers(self, send: Send) -> Send:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _added(message.get("headers", ()), secure=self._settings.secure)
            await send(message)

        return sent


def _too_much(scope: Scope, headers: _Headers) -> tuple[int, str] | None:
    """Refuse a head of more parts than a request of ours has, before any of it is parsed."""
    if headers.size > _LARGEST_HEAD:  # the parser bounds only what comes in pieces
        return 431, f"the headers of a request have at most {_LARGEST_HEAD} bytes"
    if len(scope["headers"]) > _MOST_HEADERS:
        return 431, f"a request has at most {_MOST_HEADERS} headers"
    if headers.one(b"cookie").count(";") >= _MOST_PARAMETERS:
        return 431, f"a request has at most {_MOST_PARAMETERS} cookies"
    if scope.get("query_string", b"").count(b"&") >= _MOST_PARAMETERS:
        return 400, f"a query has at most {_MOST_PARAMETERS} parameters"
    return None


class _Headers:
    """Reads the headers of a request as they came, each of them."""

    def __init__(self, scope: Scope) -> None:
        self._given: list[tuple[bytes, bytes]] = scope["headers"]

    @property
    def size(self) -> int:
        """Return how many bytes they have."""
        return sum(len(key) + len(value) + 4 for key, value in self._given)

    def all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1").strip() for key, value in self._given if key.lower() == name]

    def one(self, name: bytes) -> str:
        return ",".join(self.all(name))


def own_cookies(given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Leave out cookies with quotes or backslashes: none of ours has any, and unquoting them takes quadratic time."""
    return [(name, _unquoted(value) if name.lower() == b"cookie" else value) for name, value in given]


def _unquoted(cookies: bytes) -> bytes:
    if b'"' not in cookies and b"\\" not in cookies:
        return cookies
    return b";".join(each for each in cookies.split(b";") if b'"' not in each and b"\\" not in each)


def _added(given: Any, *, secure: bool) -> list[tuple[bytes, bytes]]:
    own = dict(_HEADERS)
    if secure:
        own[b"strict-transport-security"] = b"max-age=31536000"
    there = {name.lower() for name, _ in given}
    return [*given, *((name, value) for name, value in own.items() if name not in there)]


def _bounded(receive: Receive, settings: ServerSettings) -> Receive:
    """Return what reads a body of bounded length in bounded time; once it is read, it waits for the end as before."""
    limit = settings.body_limit
    until = time.monotonic() + settings.body_seconds
    seen, whole = 0, False

    async def received() -> Message:
        nonlocal seen, whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(until - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise TooSlow(f"a body is sent within {settings.body_seconds:g} s") from None
        whole = not message.get("more_body", False)
        seen += len(message.get("body", b""))
        if seen > limit:
            raise TooLong(f"a request has at most {limit} bytes")
        return message

    return received


class TooLong(Exception):
    """Raised where a request that did not say how long it is turns out to be too long.

    >>> raise TooLong("a request has at most 5 bytes")
    Traceback (most recent call last):
    ...
    keyturn.server.guard.TooLong: a request has at most 5 bytes
    """


class TooSlow(Exception):
    """Raised where the body of a request takes too long to come.

    >>> raise TooSlow("a body is sent within 30 s")
    Traceback (most recent call last):
    ...
    keyturn.server.guard.TooSlow: a body is sent within 30 s
    """


async def _refuse(send: Send, status: int, why: str) -> None:
    body = json.dumps({"error": {"kind": "refused", "message": why}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": _added(headers, secure=False)})
    await send({"type": "http.response.body", "body": body})
