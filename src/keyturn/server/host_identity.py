"""Use the sign-in of the app that this server is mounted in: a callable, or a header that the host's own process sets.

A client can send any header. So one is believed only below `HostHeader`, which takes it out of what clients send and
notes that in the scope, where no client writes; what stands there afterwards was put there by the host's own code.
"""

from __future__ import annotations

import inspect
import logging
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ..directory.provisioning import Claims
from .settings import HostUser, ServerSettings

log = logging.getLogger("keyturn.server")
_TAKEN_OUT = "keyturn_taken_out"


class HostHeader:
    """Wraps the host's whole app, outside of what sets the header, and takes the header out of what clients send.

    >>> HostHeader(None, "x-remote-user").name
    'x-remote-user'
    """

    def __init__(self, app: ASGIApp | None, name: str) -> None:
        self._app = app
        self.name = name.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request without the header, in whatever spelling it came."""
        assert self._app is not None
        if "headers" in scope:
            kept = [each for each in scope["headers"] if _plain(each[0]) != _plain(self.name.encode())]
            noted = {*scope.get(_TAKEN_OUT, ()), self.name}
            scope = {**scope, "headers": kept, _TAKEN_OUT: noted}
        await self._app(scope, receive, send)


def _plain(name: bytes) -> bytes:
    return name.lower().replace(b"_", b"-")


async def host_user(settings: ServerSettings, request: HTTPConnection) -> HostUser | None:
    """Return whom the host's own sign-in says a request is of; None for nobody, and where that cannot be told."""
    identity = settings.identity
    if identity is None:
        return None
    if isinstance(identity, str):
        return _in_header(identity.lower(), request)
    try:
        found: Any = identity(request)
        found = await found if inspect.isawaitable(found) else found
    except Exception:  # the host's code raises what it likes: whoever cannot be told is nobody
        log.exception("identity= of the settings failed: no user is signed in by it")
        return None
    if isinstance(found, HostUser):
        return found
    if found is not None and not isinstance(found, str):
        log.error("identity= of the settings returned %s, and not a str, a HostUser or None", type(found).__name__)
        return None
    return HostUser(found) if found else None


def _in_header(name: str, request: HTTPConnection) -> HostUser | None:
    if name not in request.scope.get(_TAKEN_OUT, ()):
        log.error("the header %r is not used: wrap the host's app in keyturn.server.host_identity.HostHeader", name)
        return None
    given = request.headers.getlist(name)
    return HostUser(given[0]) if len(given) == 1 and given[0] else None


def claims_of(user: HostUser) -> Claims | None:
    """Return the groups and roles that the host gives a user; None where it says nothing of them."""
    if user.groups is None and user.roles is None:
        return None
    return Claims(tuple(user.groups or ()), tuple(user.roles or ()))
