"""Serve AAP under /aap: the table of its routes, and every refusal in its form."""

from __future__ import annotations

import logging
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ...core.errors import KeyturnError
from ..api.refusing import Refusal
from ..contained import ContainedRequests
from ..guard import TooLong, TooSlow
from ..limits import TooMany
from ..places import StreamPlaces
from . import requests
from .errors import failure, refusal

log = logging.getLogger("keyturn.server")

_ROUTES = (
    ("POST", "/v1/requests", requests.create),
    ("GET", "/v1/requests/{id}", requests.show),
    ("DELETE", "/v1/requests/{id}", requests.cancel),
    ("POST", "/v1/requests/{id}/consume", requests.consume),
    ("POST", "/v1/requests/{id}/outcome", requests.report),
)


def aap_of(shared: Any) -> Starlette:
    """Return the routes of AAP of an app, to be mounted under /aap; they share what counts people with the pages."""
    made = Starlette(
        routes=[Route(path, does, methods=[method]) for method, path, does in _ROUTES],
        exception_handlers={
            KeyturnError: lambda _request, error: refusal(cast("KeyturnError", error)),
            Refusal: _refused,
            HTTPException: _http,
            TooMany: _too_many,
            TooLong: lambda _request, error: failure(413, str(error)),
            TooSlow: lambda _request, error: failure(408, str(error)),
            Exception: _fault,
        },
    )
    made.add_middleware(ContainedRequests)
    for name in ("app", "settings", "live", "limits", "turns", "open_asks"):
        setattr(made.state, name, getattr(shared, name))
    made.state.places = StreamPlaces()
    return made


def _refused(_request: Request, error: Exception) -> Response:
    made = cast("Refusal", error)
    status = 400 if made.status == 422 else made.status
    return failure(status, made.message, headers=made.headers)


def _http(_request: Request, error: Exception) -> Response:
    made = cast("HTTPException", error)
    return failure(made.status_code, str(made.detail), headers=dict(made.headers or {}))


def _too_many(_request: Request, error: Exception) -> Response:
    return failure(429, str(error), headers={"retry-after": str(cast("TooMany", error).after)})


def _fault(request: Request, error: Exception) -> Response:
    log.error("%s of AAP failed: %s", request.method, type(error).__name__, exc_info=error)
    return failure(500, "An error occurred on the server. Its log has more.")
