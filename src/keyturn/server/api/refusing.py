"""Answer what is refused: one form for every error, as `errors.py` words it, and nothing of ours that went wrong."""

from __future__ import annotations

import logging
from typing import Any, cast

import msgspec
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...core.errors import KeyturnError
from ...wire.responses import Failure, Told
from ..errors import Refused, refused
from ..guard import TooLong, TooSlow
from ..limits import TooMany

log = logging.getLogger("keyturn.server")
_KINDS = {401: "unknown", 403: "not_allowed", 404: "missing", 405: "method", 413: "too_long", 415: "media_type"}


class Refusal(Exception):
    """Raised to refuse a request with a status of its own.

    >>> Refusal(429, "too_many", "slower").status
    429
    """

    def __init__(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = headers or {}
        super().__init__(message)


def error_body_of(error: KeyturnError) -> Told:
    """Return what is told of an error of ours."""
    return _told(refused(error))


def _told(why: Refused) -> Told:
    return Told(why.kind, why.message, why.winner, why.decision, why.at)


def failure(status: int, told: Told, headers: dict[str, str] | None = None) -> Response:
    """Make the answer of a refusal."""
    return Response(msgspec.json.encode(Failure(told)), status, headers, "application/json")


def answer_refusals(api: FastAPI) -> None:
    """Have an API answer each error in that form."""
    api.add_exception_handler(KeyturnError, _ours)
    api.add_exception_handler(Refusal, _refusal)
    api.add_exception_handler(RequestValidationError, _parameters)
    api.add_exception_handler(HTTPException, answer_http)
    api.add_exception_handler(TooLong, _too_long)
    api.add_exception_handler(TooSlow, _too_slow)
    api.add_exception_handler(TooMany, _too_many)
    api.add_exception_handler(Exception, _fault)


async def _ours(_request: Request, error: Exception) -> Response:
    why = refused(cast("KeyturnError", error))
    return failure(why.status, _told(why), {"retry-after": "1"} if why.status in (429, 503) else None)


async def _refusal(_request: Request, error: Exception) -> Response:
    made = cast("Refusal", error)
    return failure(made.status, Told(made.kind, made.message), made.headers)


async def _parameters(_request: Request, error: Exception) -> Response:
    first: dict[str, Any] = dict(cast("RequestValidationError", error).errors()[0])
    place = ".".join(str(part) for part in first.get("loc", ()))
    return failure(422, Told("bad_request", f"{place}: {first.get('msg', 'is not what this route takes')}"))


async def answer_http(_request: Request, error: Exception) -> Response:
    """Answer what no route takes, in the form that every refusal has."""
    made = cast("HTTPException", error)
    kind = _KINDS.get(made.status_code, "refused")
    return failure(made.status_code, Told(kind, str(made.detail)), dict(made.headers or {}))


async def _too_long(_request: Request, error: Exception) -> Response:
    return failure(413, Told("too_long", str(error)), {"connection": "close"})


async def _too_slow(_request: Request, error: Exception) -> Response:
    return failure(408, Told("too_slow", str(error)), {"connection": "close"})


async def _too_many(_request: Request, error: Exception) -> Response:
    return failure(429, Told("too_many", str(error)), {"retry-after": str(cast("TooMany", error).after)})


async def _fault(request: Request, error: Exception) -> Response:
    # The log names the route and the kind of error; what the request said may be anything, and stays out.
    route: Any = request.scope.get("route")
    log.error("%s %s failed: %s", request.method, getattr(route, "path", "?"), type(error).__name__, exc_info=error)
    return failure(500, Told("fault", "this went wrong on the server, whose log says more"))
