"""Declare the routes of the API: each says for which scope, what it takes, what it answers and how it refuses.

One table of them (`ROUTES` of each file) is what the OpenAPI is made of, and what the tests count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from ...application.app import App
from ...core.errors import NotAllowed
from ...directory.people import People
from ...inbox.personal import PersonalInbox
from ...wire.people import Secret
from ..forms import check_csrf
from ..guard import SAFE
from ..limits import MARKS
from ..live import Live
from ..settings import ServerSettings
from ..visibility import Visibility
from ..visitor import Visitor, turn_of, visitor_of
from .bodies import body_of
from .once import Answers, asked_of, key_of
from .refusing import Refusal

SCHEMA = "#/components/schemas/{name}"
#: What any route may answer, beside what it says of itself.
ALWAYS = (400, 401, 403, 421, 422, 429, 500, 503)
OPEN = (421, 422, 500)
_SAID = {
    400: "It was refused.",
    401: "Nobody is known by this token.",
    403: "Whoever asks may not do this.",
    404: "There is no such thing, or none that whoever asks may see.",
    408: "The body came too slowly.",
    409: "Somebody else was first; the answer says who, with what word, and when.",
    410: "Its time is up.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    421: "The server is not reached by that host.",
    422: "It is not what this route takes, or cannot be done.",
    429: "Too many; try again later.",
    500: "It went wrong on the server.",
    503: "The store cannot be used now; try again.",
}


class Route(NamedTuple):
    """Describes one route of the API."""

    method: str
    path: str
    scopes: tuple[str, ...]
    body: type | None
    answer: type | None


class Once(NamedTuple):
    """Holds the name of a request with a key, of whoever sent it, and a digest of what it asks."""

    name: str
    asked: str


class Call(NamedTuple):
    """Holds what a route works with: the app, who asks, and what they see of it."""

    app: App
    visitor: Visitor
    visibility: Visibility
    settings: ServerSettings
    live: Live
    request: Request
    scopes: tuple[str, ...]
    once: Once | None = None

    @property
    def name(self) -> str | None:
        """Return the name under which the run's log knows what is asked with a key; None without one."""
        return None if self.once is None else self.once.name

    @property
    def people(self) -> People:
        """Return the people of the app, who are changed once under a key of the token: another may less."""
        if self.once is None:
            return self.app.people
        return self.app.people.once(f"{self.once.name} {self.visitor.login.token}", self.once.asked)

    @property
    def inbox(self) -> PersonalInbox:
        """Return the inbox of whoever asks."""
        return self.app.inbox.as_person(self.visitor.login)

    def marks(self) -> None:
        """Count what somebody notes beside a request, or raise `TooMany`."""
        self.request.app.state.limits.spend(MARKS, self.visitor.id)

    def look(self) -> AbstractAsyncContextManager[None]:
        """Hold the turn in which a request of theirs that waits, or streams, looks again."""
        return self.request.app.state.turns.look(turn_of(self.visitor))

    async def anew(self) -> Call:
        """Return the same with who asks as they are now, or refuse whoever is let in no more."""
        return await admit_call(self.request, self.scopes)


async def _call(request: Request) -> Call:
    made: Call = request.state.call
    return made


ApiContext = Annotated[Call, Depends(_call)]


def answer(data: Any, status: int = 200) -> Response:
    """Make an answer of data."""
    return Response(msgspec.json.encode(data), status, media_type="application/json")


class Routes:
    """Collects the routes of one subject."""

    def __init__(self, subject: str) -> None:
        self.router = APIRouter(tags=[subject])
        self.table: list[Route] = []

    def add(
        self,
        method: str,
        path: str,
        *,
        scope: str | Sequence[str] = (),
        takes: type | None = None,
        gives: type | None = None,
        errors: Sequence[int] = (),
        media: str = "application/json",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what adds a function as a route."""
        scopes = (scope,) if isinstance(scope, str) else tuple(scope)
        refusals = {*(ALWAYS if scopes else OPEN), *errors, *((408, 413, 415) if takes else ())}

        def added(function: Callable[..., Any]) -> Callable[..., Any]:
            self.table.append(Route(method, path, scopes, takes, gives))
            self.router.add_api_route(
                path,
                _once(function, secret=gives is Secret) if scopes and method == "POST" else function,
                methods=[method],
                response_model=None,
                response_class=Response,
                dependencies=[Depends(_admitted(scopes))] if scopes else [],
                responses={200: _content(gives, media), **{each: _failure(each) for each in sorted(refusals)}},
                openapi_extra=_extra(takes, scopes),
                operation_id=function.__name__,
            )
            return function

        return added


def _content(gives: type | None, media: str) -> dict[str, Any]:
    schema = {"type": "string"} if gives is None else {"$ref": SCHEMA.format(name=gives.__name__)}
    return {"description": "It was done.", "content": {media: {"schema": schema}}}


def _failure(status: int) -> dict[str, Any]:
    schema = {"$ref": SCHEMA.format(name="Failure")}
    return {"description": _SAID[status], "content": {"application/json": {"schema": schema}}}


def _extra(takes: type | None, scopes: tuple[str, ...]) -> dict[str, Any]:
    told: dict[str, Any] = {"security": [{"token": []}] if scopes else []}
    if takes is not None:
        schema = {"$ref": SCHEMA.format(name=takes.__name__)}
        told["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return told


def _admitted(scopes: tuple[str, ...]) -> Callable[[Request], Any]:
    async def admit(request: Request) -> None:
        request.state.call = await admit_call(request, scopes)

    return admit


async def admit_call(request: Request, scopes: tuple[str, ...]) -> Call:
    """Return what a route works with, or refuse whoever has no token for one of these scopes."""
    state = request.app.state
    visitor = await visitor_of(state.app, request)
    if visitor is None:
        raise Refusal(401, "unknown", "the token is missing, unknown, expired or revoked", _BEARER)
    if request.method not in SAFE:
        check_csrf(visitor, request.headers.get("x-csrf-token", ""))
    if not any(visitor.may(scope) for scope in scopes):
        raise NotAllowed(f"this takes a token for {' or '.join(map(repr, scopes))}")
    visibility = await Visibility.of(state.app, visitor)
    return Call(state.app, visitor, visibility, state.settings, state.live, request, scopes)


def _once(function: Callable[..., Any], *, secret: bool) -> Callable[..., Any]:
    """Wrap a route so that a request which names a key is done once, by the same token."""

    @wraps(function)
    async def repeatable(*, here: Call, **rest: Any) -> Any:
        key = key_of(here.request.headers)
        if key is None:
            return await function(here=here, **rest)
        asked = asked_of(here.request.method, here.request.url.path, rest)
        answers: Answers = here.request.app.state.answers
        whose = f"{here.visitor.id} {here.visitor.login.token}"
        named = here._replace(once=Once(f"http {here.visitor.id} {key}", asked.hex()))
        return await answers.once(whose, key, asked, lambda: function(here=named, **rest), secret=secret)

    return repeatable


_BEARER = {"www-authenticate": "Bearer"}


def taken(kind: type) -> Any:
    """Return the dependency by which a route takes a body."""
    return Depends(body_of(kind))
