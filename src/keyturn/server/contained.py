"""Serve a request so that user code in it, such as the preview of a tool, ends that request at most."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ..support.user_code import contained


class ContainedRequests:
    """Wraps an ASGI app: what no server survives, such as `SystemExit`, is an error of the one request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        with contained:
            await self._app(scope, receive, send)
