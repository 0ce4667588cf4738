"""Read the body of a request: strict JSON of one struct, bounded before it is parsed, or refused with the place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from ...core.errors import BadJson
from ...core.strict import TextLimits, parse
from ...wire import agui, asks, bodies
from .refusing import Refusal

T = TypeVar("T")


#: How many bytes the body of most routes has, and from which size on one is parsed outside of the event loop.
MOST, LARGE = 160_000, 16_384
#: What holds texts of a conversation, arguments or results: as large as the settings allow.
_WHOLE = (
    bodies.Start,
    bodies.Message,
    bodies.Approve,
    bodies.PreviewEdit,
    bodies.Signing,
    bodies.Answer,
    bodies.Resolve,
    asks.AskFor,
    agui.AguiInput,
)


def body_of(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Return what reads the body of a request as this struct."""

    async def read(request: Request) -> T:
        whole = request.app.state.settings.body_limit
        return convert(await json_of(request, whole if kind in _WHOLE else min(whole, MOST)), kind)

    return read


async def json_of(request: Request, most: int) -> Any:
    """Return the body as strict JSON; one that is empty is an empty object."""
    raw = await request.body()
    if not raw:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "media_type", "a body is JSON: send it with content-type application/json")
    if len(raw) > most:
        raise Refusal(413, "too_long", f"the body of this request has at most {most} bytes")
    limits = TextLimits(bytes=most)
    return parse(raw, limits) if len(raw) <= LARGE else await asyncio.to_thread(parse, raw, limits)


def convert(given: object, kind: type[T]) -> T:
    """Make a struct of plain data, or refuse it with the place of what is wrong."""
    try:
        return msgspec.convert(given, kind, strict=True)
    except msgspec.ValidationError as error:
        raise BadBody(str(error)) from None


class BadBody(BadJson):
    """Raised for a body that is JSON and not what this route takes.

    >>> str(BadBody("Expected `int`"))
    'the body is not what this route takes: Expected `int`'
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.args = (f"the body is not what this route takes: {reason}",)
