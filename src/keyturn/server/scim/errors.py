"""Say each refusal in the form of SCIM (RFC 7644, 3.12)."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from ...core.errors import BadJson, Conflict, KeyturnError, NotAllowed
from ...directory.bounds import LimitReached
from ...directory.provisioning import Unknown
from ..errors import refused

ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
MEDIA = "application/scim+json"


class ScimRefused(KeyturnError):
    """Raised for a request that is none of SCIM, or asks for what cannot be.

    >>> ScimRefused("no filter", "invalidFilter").kind
    'invalidFilter'
    """

    def __init__(self, message: str, kind: str = "invalidValue", status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


def answer(data: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Make an answer of data."""
    return Response(json.dumps(data), status, headers, MEDIA)


def failure(status: int, detail: str, kind: str = "", headers: dict[str, str] | None = None) -> Response:
    """Make the answer of a refusal."""
    said = {"schemas": [ERROR], "status": str(status), "detail": detail}
    return answer(said | ({"scimType": kind} if kind else {}), status, headers)


def refusal(error: KeyturnError) -> Response:
    """Return how an error of ours is told."""
    match error:
        case ScimRefused():
            return failure(error.status, str(error), error.kind)
        case Unknown():
            return failure(404, str(error))
        case Conflict():
            return failure(409, error.message, "uniqueness")
        case NotAllowed():
            return failure(403, str(error))
        case LimitReached():
            return failure(429, str(error), headers={"retry-after": str(error.after or 60)})
        case BadJson():
            return failure(400, str(error), "invalidSyntax")
        case _:
            said = refused(error)
            unprocessable = said.status == 422
            return failure(400 if unprocessable else said.status, said.message, "invalidValue" if unprocessable else "")
