"""Say each refusal in the form of AAP, with the id of the exchange that is also in its header."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

from starlette.responses import Response

from ...core.errors import BadJson, KeyturnError, RunMissing
from ...directory.bounds import LimitReached
from ...directory.instances import UnknownInstance
from ..errors import refused

#: The header that every answer has.
REQUEST_ID = "x-request-id"
_TYPES = {
    400: ("invalid_request", "invalid_request"),
    401: ("authentication", "invalid_credential"),
    403: ("authorization", "not_permitted"),
    404: ("not_found", "not_found"),
    405: ("invalid_request", "method_not_allowed"),
    408: ("invalid_request", "too_slow"),
    409: ("conflict", "conflict"),
    413: ("invalid_request", "too_long"),
    415: ("invalid_request", "unsupported_media_type"),
    422: ("invalid_request", "invalid_request"),
    429: ("rate_limit", "too_many_requests"),
    503: ("dependency", "unavailable"),
}


class AapRefused(KeyturnError):
    """Raised for a request that AAP refuses, with the code that its clients know.

    >>> AapRefused(409, "already_consumed", "it was consumed").code
    'already_consumed'
    """

    def __init__(self, status: int, code: str, message: str, param: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param


def answer(text: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Make an answer of the text of JSON."""
    return Response(text, status, {REQUEST_ID: str(uuid4()), **(headers or {})}, "application/json")


def failure(
    status: int, message: str, code: str = "", param: str = "", headers: dict[str, str] | None = None
) -> Response:
    """Make the answer of a refusal."""
    kind, usual = _TYPES.get(status, ("internal", "internal"))
    exchange = str(uuid4())
    said: dict[str, Any] = {"type": kind, "code": code or usual, "message": message, "request_id": exchange}
    said |= {"param": param} if param else {}
    return answer(json.dumps({"error": said}), status, {REQUEST_ID: exchange, **(headers or {})})


def refusal(error: KeyturnError) -> Response:
    """Return how an error of ours is answered."""
    match error:
        case AapRefused():
            return failure(error.status, str(error), error.code, error.param)
        case LimitReached():
            return failure(429, str(error), headers={"retry-after": str(error.after or 60)})
        case BadJson():
            return failure(400, f"the body is {error}")
        case UnknownInstance():
            return failure(404, str(error))
        case RunMissing():
            return failure(404, "there is no such request")
        case _:
            said = refused(error)
            status = {410: 409, 422: 400}.get(said.status, said.status)
            return failure(status, said.message, headers={"retry-after": "1"} if status in (429, 503) else None)
