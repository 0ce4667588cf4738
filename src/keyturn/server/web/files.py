"""Serve the static files under a path that changes with them, so that a browser keeps them for good."""

from __future__ import annotations

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from .pages import STATIC


class Files(StaticFiles):
    """Serves the files of the pages: those of this version for a year, others not at all."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, with how long it may be kept."""
        _version, _, name = path.partition("/")
        made = await super().get_response(name, scope)
        if made.status_code == 200:
            made.headers["cache-control"] = "public, max-age=31536000, immutable"
        return made


def static_files() -> ASGIApp:
    """Return what serves the files, compressed for whoever takes that; pages are not, since they hold secrets."""
    return GZipMiddleware(Files(), minimum_size=500)
