"""Open the app where nobody did: a server that is mounted in another app is not told when that begins."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from ..application.app import App


class Opening:
    """Wraps the routes of an app; the first request has its worker begin, unless a lifespan did.

    Where the app is entered elsewhere (`async with app:`), nothing is done twice. Where it was not, it stays open until
    `app.stop()`, whoever enters and leaves it meanwhile.
    """

    def __init__(self, routes: ASGIApp, app: App) -> None:
        self._routes, self._app = routes, app
        self._opened = False
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            self._opened = True
        if not self._opened:
            async with self._lock:
                await self._app.at_work(serves=True)
                self._opened = True
        await self._routes(scope, receive, send)
