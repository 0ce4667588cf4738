"""Begin and end sessions: what every way of logging in comes to.

A login begins a session of its own and ends the one before it, so that none that was planted is used (session
fixation).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from limits import parse
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from ...application.app import App
from ...core.durations import milliseconds
from ...core.errors import KeyturnError, UserError
from ...directory.credentials import FRESH_MS, first_set_up
from ...proofs.base import Site
from ..address import client_of, network_of
from ..errors import refused
from ..forms import FormRefused
from ..guard import TooLong, TooSlow
from ..limits import Limits, TooMany
from ..settings import ServerSettings
from ..visitor import Visitor, cookie_name, visitor_of
from .oidc import Provider
from .passwords import Passwords

#: Draws a page: request, who looks (None for nobody who logged in), template, status, values.
Draw = Callable[[Request, Visitor | None, str, int, dict[str, Any]], Awaitable[Response]]

LOGINS = parse("30 per hour")
CHANGES = parse("60 per hour")  # of one account: each is an entry of the directory, too
#: How long a session lasts that a link began: of a user who has another way to sign in, and of one who has none yet.
LINK_SESSION = "1h"
FIRST_SESSION = "24h"


class SignIn:
    """Holds what logins need: the app, its settings, limits, passwords, the provider, and how pages are drawn."""

    def __init__(self, app: App, settings: ServerSettings, limits: Limits, draw: Draw) -> None:
        self.app, self.settings = app, settings
        self.people = app.people
        self.limits = limits
        self.passwords = Passwords()
        self.provider = None if settings.oidc is None else Provider(settings.oidc)
        self.log = logging.getLogger("keyturn.server")
        self._draw = draw

    async def visitor(self, request: Request) -> Visitor | None:
        """Return who makes a request by a session, or None."""
        found = await visitor_of(self.app, request)
        return found if found is not None and found.via == "session" else None

    async def page(
        self, request: Request, template: str, visitor: Visitor | None = None, status: int = 200, **values: Any
    ) -> Response:
        """Draw a page."""
        return await self._draw(request, visitor, f"login/{template}.html", status, values)

    def address(self, request: Request) -> str:
        """Return from where a request comes, as it is counted."""
        return network_of(client_of(request.scope, self.settings.proxies))

    def site(self, request: Request) -> Site | None:
        """Return the site whose passkeys are good here; None where browsers have none, as for an address."""
        host = request.headers.get("host", "").lower()
        name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
        try:
            return Site(name, (self.origin(request),))
        except UserError:
            return None

    def title(self, request: Request) -> str:
        """Return what this inbox is called where people sign in: its title, else the host by which they came."""
        return self.settings.title or request.headers.get("host", "")

    def origin(self, request: Request) -> str:
        """Return the origin of our own pages, as a browser says it."""
        scheme = "https" if self.settings.secure else str(request.scope.get("scheme", "http"))
        host = request.headers.get("host", "").lower()
        return f"{scheme}://{host}".removesuffix(":443" if scheme == "https" else ":80")

    async def begin(self, request: Request, person: str, proof: str, **more: Any) -> str:
        """Begin a session of somebody who proved who they are, end the one that this browser had, and return its token.

        There are so many an hour: each is an entry of the directory, which is never shortened.
        """
        self.limits.spend(LOGINS, person)
        lasts = more.pop("lasts", self.settings.session)
        token = await self.people.begin_session(person, proof, lasts=lasts, label=browser_of(request), **more)
        await self.end(request)
        return token

    async def end(self, request: Request) -> None:
        """End the session of this browser, where it has one."""
        before = await self.visitor(request)
        if before is not None:
            await self.people.revoke_token(before.login.token, by=before.login)

    def keep(self, request: Request, response: Response, token: str, lasts: str | float | None = None) -> Response:
        """Put a session into the browser's cookie."""
        response.set_cookie(
            cookie_name(request),
            token,
            max_age=milliseconds(self.settings.session if lasts is None else lasts) // 1000,
            path=f"{root_of(request)}/",
            secure=self.settings.secure,
            httponly=True,
            samesite="lax",  # a link in a mail leads to a page that knows its reader
        )
        return response

    def forget(self, request: Request, response: Response) -> Response:
        """Take the session out of the browser's cookie."""
        response.delete_cookie(
            cookie_name(request),
            path=f"{root_of(request)}/",
            secure=self.settings.secure,
            httponly=True,
            samesite="lax",
        )
        return response


def sign_in_of(request: Request) -> SignIn:
    """Return the entrance of the server that serves a request."""
    found = request.app.state.sign_in
    assert isinstance(found, SignIn)
    return found


async def fresh(sign_in: SignIn, visitor: Visitor) -> bool:
    """Return whether somebody may change how they sign in: they signed in minutes ago, or have set up nothing yet."""
    directory = await sign_in.people.directory()
    if first_set_up(directory, visitor.login):
        return True
    token = directory.tokens.get(visitor.login.token)
    return token is not None and await sign_in.app.inbox.now() - token.issued_at < FRESH_MS


def root_of(request: Request) -> str:
    """Return below which path the server is."""
    return str(request.scope.get("root_path", ""))


def go(request: Request, path: str) -> Response:
    """Send a browser on to a page of ours."""
    return RedirectResponse(root_of(request) + path, 303)


def told(error: KeyturnError) -> Response:
    """Say to a script what was refused, and why."""
    said = refused(error)
    return JSONResponse({"error": {"kind": said.kind, "message": said.message}}, said.status)


async def too_many(_request: Request, error: Exception) -> Response:
    """Say that something was tried too often, and when to try again."""
    assert isinstance(error, TooMany)
    said = {"error": {"kind": "too_many", "message": str(error)}}
    return JSONResponse(said, 429, {"retry-after": str(error.after)})


async def too_much(_request: Request, error: Exception) -> Response:
    """Say that a body is too long, comes too slowly, or is not a form of these pages."""
    status, kind = next((status, kind) for of, status, kind in _BODIES if isinstance(error, of))
    return JSONResponse({"error": {"kind": kind, "message": str(error)}}, status)


_BODIES: tuple[tuple[type[Exception], int, str], ...] = (
    (TooLong, 413, "too_long"),
    (TooSlow, 408, "too_slow"),
    (FormRefused, 400, "refused"),
)
_BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Mac OS", "Mac"))


def browser_of(request: Request) -> str:
    """Return what a browser says it is, in two words of ours."""
    said = request.headers.get("user-agent", "")
    browser = next((name for word, name in _BROWSERS if word in said), "a browser")
    system = next((name for word, name in (*_SYSTEMS, ("Linux", "Linux")) if word in said), "")
    return f"{browser} on {system}" if system else browser
