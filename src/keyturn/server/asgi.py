"""Put a server together: the guard around the API and the pages, on one app."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..application.app import App
from ..core.errors import KeyturnError
from .aap.routes import aap_of
from .address import origin_of
from .api.refusing import answer_http
from .api.v1 import api_of
from .contained import ContainedRequests
from .forms import FormRefused
from .guard import Guard, TooLong, TooSlow
from .identity import routes as entering
from .identity.first_run import invitation, unused_link
from .identity.sign_in import SignIn, too_many, too_much
from .limiter import Limiter
from .limits import Limits, TooMany
from .live import Live
from .open_asks import OpenAsks
from .places import StreamPlaces
from .reading_logs import LogReaders
from .scim.routes import scim_of
from .settings import ServerSettings
from .turns import ServedTurns
from .visitor import Visitor
from .web import routes as pages
from .web.files import static_files
from .web.form import Barred, barred
from .web.pages import Elsewhere, bare_page, elsewhere, here, page


def serve(app: App, settings: ServerSettings | None = None, *, invites: bool = True) -> Guard:
    """Return the ASGI app of an app, to be served alone or mounted under any prefix of another.

    Where nobody has signed in yet, a link for the first administrator is printed at the first request, unless whoever
    serves it `invites` nobody so.

    >>> from keyturn import App
    >>> serve(App([], "memory://", worker=False)).__class__.__name__
    'Guard'
    """
    made = settings or ServerSettings()
    api = face(app, made)
    return Guard(Opening(limited(api), app, invites=made if invites else None), made, end=api.state.live.end)


def limited(api: FastAPI) -> ASGIApp:
    """Return the routes of an app behind the limits on how often somebody asks."""
    return Limiter(api, api.state.app, api.state.settings, api.state.limits, api.state.turns)


def face(app: App, settings: ServerSettings) -> FastAPI:
    """Return the routes of an app, without the guard."""
    live = Live(app.journal)

    @contextlib.asynccontextmanager
    async def lifespan(_api: FastAPI) -> AsyncGenerator[None]:
        async with app:
            try:
                yield
            finally:
                live.end()

    api = FastAPI(
        title="Keyturn",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    api.add_middleware(ContainedRequests)
    api.state.app = app
    api.state.settings = settings
    api.state.live = live
    api.state.limits = Limits()
    api.state.open_asks = OpenAsks(app, settings.open_asks)
    api.state.places, api.state.turns = StreamPlaces(), ServedTurns()
    api.state.sign_in = SignIn(app, settings, api.state.limits, _drawn)
    api.state.readers = LogReaders()
    api.mount("/v1", api_of(api.state))
    api.mount("/scim/v2", scim_of(api.state))
    api.mount("/aap", aap_of(api.state))
    api.include_router(entering.router)
    api.include_router(pages.router)
    api.add_exception_handler(TooMany, too_many)
    api.add_exception_handler(HTTPException, _missing)
    api.add_exception_handler(TooLong, too_much)
    api.add_exception_handler(TooSlow, too_much)
    api.add_exception_handler(FormRefused, too_much)
    api.add_exception_handler(Elsewhere, elsewhere)
    api.add_exception_handler(Barred, barred)
    api.mount("/static", static_files())
    return api


async def _missing(request: Request, error: Exception) -> Response:
    """Answer what no page of ours takes: a browser with a page, a program as the API does."""
    assert isinstance(error, HTTPException)
    if error.status_code != 404 or "text/html" not in request.headers.get("accept", ""):
        return await answer_http(request, error)
    root = request.scope.get("root_path", "")
    try:
        return page(await here(request), "missing.html", 404)
    except (Elsewhere, TooMany):
        return bare_page("missing.html", root, 404)


async def _drawn(
    request: Request, visitor: Visitor | None, template: str, status: int, values: dict[str, Any]
) -> Response:
    """Draw a page of how people come in, in the form that all pages have."""
    if visitor is None:
        return bare_page(template, request.scope.get("root_path", ""), status, **values)
    return page(await here(request), template, status, **values)


class Opening:
    """Opens an app where nobody did: a server that is mounted in another app is not told when that begins.

    The first request has its worker begin, unless a lifespan did. Where the app is entered elsewhere (`async with
    app:`), nothing is done twice. Where it was not, it stays open until `app.stop()`, whoever enters and leaves it
    meanwhile.
    """

    def __init__(self, routes: ASGIApp, app: App, *, invites: ServerSettings | None = None) -> None:
        self._routes, self._app = routes, app
        self._opened, self._invites = False, invites
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            self._opened = True
        elif not self._opened or self._invites is not None:
            async with self._lock:
                await self._open(HTTPConnection(scope))
        await self._routes(scope, receive, send)

    async def _open(self, request: HTTPConnection) -> None:
        if not self._opened:
            await self._app.at_work(serves=True)
            self._opened = True
        if self._invites is not None:
            settings, self._invites = self._invites, None
            with contextlib.suppress(KeyturnError):  # a store that cannot be written now is no reason to refuse
                await self._invite(request, settings)

    async def _invite(self, request: HTTPConnection, settings: ServerSettings) -> None:
        """Print where the first administrator signs in: at the address of the first request, which no log keeps."""
        secret = await unused_link(self._app.people)
        if secret:
            url = f"{origin_of(request, secure=settings.secure)}{request.scope.get('root_path', '')}"
            print("\n".join(invitation(f"{url}/enter#{secret}")), file=sys.stderr, flush=True)
