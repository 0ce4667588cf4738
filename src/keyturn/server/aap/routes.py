"""Serve AAP under /aap: the table of its routes, and every refusal in its form."""

from __future__ import annotations

from typing import Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..api.refusing import Refusal
from ..places import StreamPlaces
from ..protocols import protocol_app
from . import instances, requests
from .errors import failure, refusal

_ROUTES = (
    ("POST", "/v1/requests", requests.create),
    ("GET", "/v1/requests/{id}", requests.show),
    ("DELETE", "/v1/requests/{id}", requests.cancel),
    ("POST", "/v1/requests/{id}/consume", requests.consume),
    ("POST", "/v1/requests/{id}/outcome", requests.report),
    ("POST", "/v1/instances", instances.create),
    ("GET", "/v1/instances/{id}", instances.show),
    ("PATCH", "/v1/instances/{id}", instances.update),
    ("DELETE", "/v1/instances/{id}", instances.delete),
)


def aap_of(shared: Any) -> Starlette:
    """Return the routes of AAP of an app, to be mounted under /aap; they share what counts people with the pages."""
    routes = [Route(path, does, methods=[method]) for method, path, does in _ROUTES]
    state = {name: getattr(shared, name) for name in ("app", "settings", "live", "limits", "turns", "open_asks")}
    made = protocol_app("AAP", routes, refusal, failure, state | {"places": StreamPlaces()})
    made.add_exception_handler(Refusal, _refused)
    return made


def _refused(_request: Request, error: Exception) -> Response:
    made = cast("Refusal", error)
    status = 400 if made.status == 422 else made.status
    return failure(status, made.message, headers=made.headers)
