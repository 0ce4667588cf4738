"""Put a server together: the guard around the API and the pages, on one app."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from fastapi import FastAPI

from ..app import App
from .api.v1 import api_of
from .guard import Guard
from .live import Live
from .opening import Opening
from .settings import ServerSettings
from .web import routes as pages
from .web.files import Files
from .web.pages import Elsewhere, elsewhere


def serve(app: App, settings: ServerSettings | None = None) -> Guard:
    """Return the ASGI app of an app, to be served alone or mounted under any prefix of another.

    >>> from keyturn import App
    >>> serve(App([], "memory://", worker=False)).__class__.__name__
    'Guard'
    """
    made = settings or ServerSettings()
    api = face(app, made)
    return Guard(Opening(api, app), made, end=api.state.live.end)


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
    api.state.app, api.state.settings, api.state.live = app, settings, live
    api.mount("/v1", api_of(app, settings, live))
    api.include_router(pages.router)
    api.add_exception_handler(Elsewhere, elsewhere)
    api.mount("/static", Files())
    return api
