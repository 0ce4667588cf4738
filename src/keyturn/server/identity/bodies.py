"""Read what our own scripts send: a small object of JSON, with the mark of the session's forms in a header."""

from __future__ import annotations

from typing import Any, cast

from starlette.requests import Request

from ...core.errors import NotAllowed, UserError
from ...core.strict import TextLimits, parse
from ..forms import check_csrf
from ..visitor import Visitor

_LIMITS = TextLimits(bytes=262_144, depth=32)


async def body_of(request: Request) -> dict[str, Any]:
    """Return the object that a script sends, or raise `UserError`."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UserError("the body must be application/json")
    found = parse(await request.body(), _LIMITS)
    if not isinstance(found, dict):
        raise UserError("the body must be a JSON object")
    return cast("dict[str, Any]", found)


def text_of(body: dict[str, Any], name: str) -> str:
    """Return a text of an object; "" where it is not there, or raise `UserError`."""
    found = body.get(name, "")
    if not isinstance(found, str):
        raise UserError(f"`{name}` must be a string")
    return found


def by_script(request: Request, visitor: Visitor | None) -> Visitor:
    """Return the visitor whose own page sends this, or raise `NotAllowed`."""
    if visitor is None:
        raise NotAllowed("sign in first")
    return check_csrf(visitor, request.headers.get("x-csrf-token", ""))
