"""Serve a gate over streamable HTTP: each client shows a token of Keyturn, and asks as the account of that token.

Sessions of 2025-11-25 and requests of 2026-07-28 are those of the MCP library. What is added is who calls, and whether
they are still there: a client of a session that goes away cancels nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from ..client.client import AsyncClient
from ..core.errors import KeyturnError, NotAllowed
from .callers import CALLER, GONE
from .holding import Holding
from .proxy import McpGate

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]

PATH = "/mcp"
_KNOWN_FOR = 60.0
_MOST = 1_000
_BEARER = "bearer "
_REFUSED = "the token is missing or invalid"


class _Caller(NamedTuple):
    """Holds whose token it is, how its calls are held, and when the token was last looked at."""

    account: str
    client: AsyncClient
    holding: Holding
    looked: float

    async def close(self) -> None:
        """End its leases and its connection."""
        await self.holding.close()
        await self.client.close()


class _NotAdmitted(Exception):
    """Raised for a request of which it is not known that its token may ask."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Callers:
    """Knows the accounts of tokens; a token is looked at again after a minute, so that a revoked one ends."""

    def __init__(self, server: str, holding: Callable[[str, AsyncClient], Holding]) -> None:
        self._server, self._holding = server, holding
        self._known = OrderedDict[bytes, _Caller]()
        self._closing = False

    async def caller(self, token: str) -> _Caller:
        """Return who has a token; raise `_NotAdmitted` where it may not ask."""
        if not token:
            raise _NotAdmitted(401, _REFUSED)
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._known.get(key)
        if known is not None and time.monotonic() - known.looked < _KNOWN_FOR:
            self._known.move_to_end(key)
            return known
        try:
            made = await self._looked(token, known)
        except _NotAdmitted as error:
            if error.status != 503:  # calls that are held stay so while the server is away
                await self._forget(key)
            raise
        other = self._known.get(key)
        if known is None and other is not None:  # two requests brought a new token at the same time
            await made.close()
            return other
        self._known[key] = made
        while len(self._known) > _MOST:
            await self._forget(next(iter(self._known)))
        return made

    async def _looked(self, token: str, known: _Caller | None) -> _Caller:
        client = AsyncClient(self._server, token) if known is None else known.client
        try:
            me = await client.people.me()
            if me.person.kind != "machine" or "ask" not in me.scopes:
                raise _NotAdmitted(403, "the token must be of a service account and have the scope 'ask'")
        except BaseException as error:
            if known is None:
                await client.close()
            if isinstance(error, NotAllowed):  # its token is not valid
                raise _NotAdmitted(401, _REFUSED) from None
            if isinstance(error, KeyturnError):
                raise _NotAdmitted(503, "the Keyturn server cannot be reached") from None
            raise
        if known is not None:
            return known._replace(looked=time.monotonic())
        holding = self._holding(me.person.id, client)
        holding.begin()
        return _Caller(me.person.id, client, holding, time.monotonic())

    async def _forget(self, key: bytes) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            await known.close()

    def stop(self) -> None:
        """Answer held calls: each is to be repeated."""
        for each in self._known.values():
            each.holding.stop()

    async def close(self) -> None:
        """Close the connections."""
        for key in list(self._known):
            await self._forget(key)


class ListeningGate:
    """Admits a request by its token, and says to its call whether its client is still there."""

    def __init__(self, gate: McpGate, callers: Callers, hosts: tuple[str, ...]) -> None:
        names = [pattern for host in hosts for pattern in (host, f"{host}:*")]
        origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True, allowed_hosts=names, allowed_origins=origins
        )
        self._app: Any = gate.server().streamable_http_app(streamable_http_path=PATH, transport_security=security)
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        token = _token_of(scope)
        try:
            caller = await self._callers.caller(token)
        except _NotAdmitted as error:
            await _refuse(send, error)
            return
        gone = asyncio.Event()
        user = AuthenticatedUser(AccessToken(token=token, client_id=caller.account, scopes=["ask"]))
        try:
            await self._app({**scope, "user": user, CALLER: caller.holding, GONE: gone}, receive, send)
        finally:
            gone.set()

    def end(self) -> None:
        """Answer what is held, so that the server can end."""
        self._callers.stop()


async def _refuse(send: Send, error: _NotAdmitted) -> None:
    headers = [(b"content-type", b"application/json")]
    headers += [(b"www-authenticate", b"Bearer")] if error.status == 401 else []
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": str(error)}).encode()})


def _token_of(scope: Scope) -> str:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    text = given[0].decode("latin-1") if len(given) == 1 else ""
    return text[len(_BEARER) :].strip() if text.lower().startswith(_BEARER) else ""
