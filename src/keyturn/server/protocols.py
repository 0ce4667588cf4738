"""Put together the routes of a protocol that is not ours, as AAP and SCIM: each refusal is answered in its form."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.errors import KeyturnError
from .contained import ContainedRequests
from .guard import TooLong, TooSlow
from .limits import TooMany

log = logging.getLogger("keyturn.server")


class FailureForm(Protocol):
    """Makes the answer of a refusal in the form of a protocol."""

    def __call__(self, status: int, message: str, /, *, headers: dict[str, str] | None = None) -> Response:
        """Make the answer of a refusal."""
        ...


def protocol_app(
    name: str,
    routes: Sequence[Route],
    refusal: Callable[[KeyturnError], Response],
    failure: FailureForm,
    state: Mapping[str, Any],
) -> Starlette:
    """Return the routes as an app with this state; `refusal` answers an error of ours, `failure` any other refusal."""

    def http(_request: Request, error: Exception) -> Response:
        made = cast("HTTPException", error)
        return failure(made.status_code, str(made.detail), headers=dict(made.headers or {}))

    def too_many(_request: Request, error: Exception) -> Response:
        return failure(429, str(error), headers={"retry-after": str(cast("TooMany", error).after)})

    def fault(request: Request, error: Exception) -> Response:
        log.error("%s of %s failed: %s", request.method, name, type(error).__name__, exc_info=error)
        return failure(500, "An error occurred on the server. Its log has more.")

    made = Starlette(
        routes=routes,
        exception_handlers={
            KeyturnError: lambda _request, error: refusal(cast("KeyturnError", error)),
            HTTPException: http,
            TooMany: too_many,
            TooLong: lambda _request, error: failure(413, str(error)),
            TooSlow: lambda _request, error: failure(408, str(error)),
            Exception: fault,
        },
    )
    made.add_middleware(ContainedRequests)
    for each, value in state.items():
        setattr(made.state, each, value)
    return made
