"""Refuse whoever changes too much: a person by who they are, and a stranger by the address from which they come.

Who asks is looked up before anything is counted or read, so that strangers at an address, or behind one proxy, keep
nobody from deciding who has logged in. What a stranger sends is short.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..application.app import App
from ..core.errors import KeyturnError
from .address import client_of, network_of
from .guard import SAFE, TooLong
from .limits import BY_LOGIN, BY_PERSON, CHANGES, MISSES, Limits, TooMany
from .settings import ServerSettings
from .turns import TURN, ServedTurns, leave_turn
from .visitor import FOUND, Visitor, recognized, turn_of

#: How many bytes a request may have whose sender is not known.
BEFORE_LOGIN = 16_384
_LARGE = 65_536


class Limiter:
    """Wraps an ASGI app, and refuses a person or an address that changes too much.

    It counts how often a token or a login is told that there is no such thing: whoever reads who they are refuses them.
    Nobody else is told of anything but logins.
    """

    def __init__(self, routes: ASGIApp, app: App, settings: ServerSettings, limits: Limits, turns: ServedTurns) -> None:
        self._routes, self._app = routes, app
        self._settings = settings
        self._limits, self._turns = limits, turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request of somebody who has not asked too much."""
        if scope["type"] != "http":
            return await self._routes(scope, receive, send)
        asker = scope["keyturn_asker"] = {"token": ""}
        visitor = None if _is_static(scope) else await self._visitor(scope)
        try:
            if scope["method"] not in SAFE:
                self._spend(scope, visitor)
                receive = _short(receive) if visitor is None else receive
            turn = None if visitor is None else await self._turns.serve(visitor.login.token, turn_of(visitor))
        except TooMany as many:
            return await _refuse(send, many)
        scope[TURN] = turn
        if turn is not None and turn.waited:  # who it is was looked up a while ago
            scope.pop(FOUND, None)
        try:
            await self._routes(scope, receive, self._counting(scope, asker, send))
        finally:
            leave_turn(scope)
        return None

    def _counting(self, scope: Scope, asker: dict[str, str], send: Send) -> Send:
        """Return what sends an answer, and counts one that says that there is no such thing."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.body":
                return await _taken(message, send)
            if message["type"] == "http.response.start":
                if message["status"] == 404 and asker["token"]:
                    with contextlib.suppress(TooMany):  # the next one is refused
                        self._limits.spend(MISSES, asker["token"])
                if _streams(message):  # it lasts, and sends little at a time
                    leave_turn(scope)
            await send(message)
            return None

        return counted

    async def _visitor(self, scope: Scope) -> Visitor | None:
        """Return who makes a request, which is kept for its route; nobody, while the store cannot be asked."""
        try:
            found = await recognized(self._app, HTTPConnection(scope), self._settings)
        except KeyturnError:
            return None
        if found is not None:
            scope[FOUND] = found
        return found

    def _spend(self, scope: Scope, visitor: Visitor | None) -> None:
        if visitor is None:
            self._limits.spend(CHANGES, network_of(client_of(scope, self._settings.proxies)))
        else:  # neither a program of theirs that runs wild nor a stolen login keeps them from the pages
            self._limits.spend(BY_LOGIN, visitor.login.token)
            self._limits.spend(BY_PERSON, visitor.id, visitor.via)


def _streams(start: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in start["headers"])


async def _taken(message: Message, send: Send) -> None:
    """Send a part of an answer; of a large last one, return when it was read.

    It is in memory until then, so whoever does not read their answers has few of them.
    """
    if message.get("more_body", False) or len(message.get("body", b"")) < _LARGE:
        return await send(message)
    await send({**message, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return None


def _short(receive: Receive) -> Receive:
    """Return what reads a body of somebody who is not known: no more of it than a login takes."""
    seen = 0

    async def received() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BEFORE_LOGIN:
            raise TooLong(f"before you log in, a request has at most {BEFORE_LOGIN} bytes")
        return message

    return received


def _is_static(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")).startswith("/static/")


async def _refuse(send: Send, many: TooMany) -> None:
    body = json.dumps({"error": {"kind": "too_many", "message": str(many)}}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"retry-after", str(many.after).encode())]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 429, "headers": headers})
    await send({"type": "http.response.body", "body": body})
