"""Draw pages: one environment for all templates, and for each request who looks, at what time, below which path."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, tzinfo
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...application.app import App
from ...core.errors import KeyturnError
from ...inbox.personal import PersonalInbox
from ...presenting.asking import (
    MARKS,
    NOT_ARRIVED,
    RISKS,
    STATES,
    UNANSWERED,
    agent_words,
    is_held,
    risk_words,
    seconds,
)
from ...presenting.clock import span, stamp
from ...presenting.grant_words import value_words
from ...presenting.list_row import LINE
from ...presenting.notifications import delivered_of, undelivered_first
from ...presenting.recorded import ANSWERS, FINAL, MISSED, starts_with
from ...presenting.source import SOURCES
from ...render.one_row import lines_in, parts
from ...render.plural import plural
from ..errors import refused
from ..forms import safe_redirect
from ..live import Live
from ..settings import ServerSettings
from ..visibility import Visibility
from ..visitor import Visitor, cookie_name, visitor_of
from ..zones import exactly, zone_of
from .shown import VisibleHtml, finalize, ready, typed

_HERE = Path(__file__).parent
STATIC = _HERE / "static"


class PageContext(NamedTuple):
    """Holds what every page needs: the app, who looks and what they see, the journal's time, where the pages begin."""

    app: App
    settings: ServerSettings
    live: Live
    visitor: Visitor
    visibility: Visibility
    now: int
    root: str
    partial: bool
    zone: tzinfo = UTC
    since: int = 0  # the line of a run's log that an open page of a request shows, where it is drawn anew

    @property
    def inbox(self) -> PersonalInbox:
        """Return the inbox of the visitor."""
        return self.app.inbox.as_person(self.visitor.login)

    def url(self, path: str) -> str:
        """Return the path of a page of ours, below whatever prefix it is served."""
        return self.root + path


class Elsewhere(Exception):
    """Raised where a page is not for this visitor: they are sent elsewhere.

    >>> raise Elsewhere("/login")
    Traceback (most recent call last):
    ...
    keyturn.server.web.pages.Elsewhere: /login
    """


async def here(request: HttpRequest) -> PageContext:
    """Return what a page needs; who did not log in is sent to do so, and comes back."""
    app: App = request.app.state.app
    visitor = await visitor_of(app, request)
    root = request.scope.get("root_path", "")
    partial = request.headers.get("hx-request") == "true"
    if visitor is None:
        raise Elsewhere(f"{root}/login?next={quote(_page_of(request, root))}{_ended(request)}")
    now = await app.inbox.now()
    visibility, zone = Visibility(app, visitor, now), zone_of(request, visitor.person.settings)
    state, since = request.app.state, request.query_params.get("since", "")[:9]
    line = int(since) if since.isascii() and since.isdigit() else 0
    return PageContext(app, state.settings, state.live, visitor, visibility, now, root, partial, zone, line)


def _page_of(request: HttpRequest, root: str) -> str:
    """Return the page on which a visitor is: what they asked for, or the page from which they sent a form."""
    if request.method == "GET":
        return request.url.path.removeprefix(root)
    sent_from = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer") or "").path
    return safe_redirect(sent_from.removeprefix(root))


def _ended(request: HttpRequest) -> str:
    """Return how the address of the sign-in page says that a session ended, and whether a form was sent since."""
    if request.method != "GET":
        return "&ended=sent"
    return "&ended=yes" if request.cookies.get(cookie_name(request)) else ""


async def elsewhere(request: HttpRequest, error: Exception) -> Response:
    """Send somebody elsewhere; a part of a page says so to the script."""
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401, headers={"HX-Redirect": str(error)})
    return RedirectResponse(str(error), 303)


def page(at: PageContext, template: str, status: int = 200, /, **values: Any) -> Response:
    """Draw a page, or a part of one."""
    made = _environment().get_template(template).render(at=at, static=static_path(), **values)
    return HTMLResponse(made, status)


async def drawn(at: PageContext, template: str, status: int = 200, /, **values: Any) -> Response:
    """Draw a page that shows what would run, outside of the event loop: it may be long."""
    return await asyncio.to_thread(page, at, template, status, **values)


def failure(at: PageContext, error: KeyturnError, **values: Any) -> Response:
    """Draw what was refused, where it was asked for."""
    said = refused(error)
    return page(at, "refused.html", said.status, said=said, **values)


def bare_page(template: str, root: str, status: int = 200, /, **values: Any) -> Response:
    """Draw a page for somebody who did not log in."""
    made = _environment().get_template(template).render(at=None, root=root, static=static_path(), **values)
    return HTMLResponse(made, status)


@cache
def static_path() -> str:
    """Return below which path the static files of this version are: it changes when they do."""
    found = hashlib.sha256()
    for file in sorted(STATIC.rglob("*")):
        if file.is_file():
            found.update(file.name.encode() + file.read_bytes())
    return f"/static/{found.hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("safe", "tojson", "urlize", "forceescape", "xmlattr"):  # they print what `finalize` has not seen
        del made.filters[name]
    of_time: dict[str, Any] = {"span": span, "stamp": _stamp, "exactly": _exactly}
    made.filters.update(of_time)
    made.filters |= {
        "seconds": seconds,
        "typed": typed,
        "groups": _groups,
        "short": _short,
    }
    known: dict[str, Any] = {
        "MARKS": MARKS,
        "LINE": LINE,
        "agent_words": agent_words,
        "STATES": STATES,
        "RISKS": RISKS,
        "SOURCES": SOURCES,
        "is_held": is_held,
        "ANSWERS": ANSWERS,
        "FINAL": FINAL,
        "starts_with": starts_with,
        "MISSED": MISSED,
        "UNANSWERED": UNANSWERED,
        "NOT_ARRIVED": NOT_ARRIVED,
        "risk_words": risk_words,
    }
    made.globals.update(known)
    of_words: dict[str, Any] = {"plural": plural, "data": _data, "name": _named}
    of_words |= {
        "delivered_of": delivered_of,
        "undelivered_first": undelivered_first,
        "parts": parts,
        "lines_in": lines_in,
    }
    made.filters.update(of_words)
    return made


@pass_context
def _stamp(context: Context, ms: int) -> str:
    """Return a time as the visitor reads it."""
    return stamp(ms, _zone(context))


@pass_context
def _exactly(context: Context, ms: int) -> str:
    """Return a time as a hint has it: as the visitor reads it, and in UTC."""
    return exactly(ms, _zone(context))


def _zone(context: Context) -> tzinfo:
    at = context.get("at")
    return UTC if at is None else at.zone


def _groups(digest: str) -> str:
    """Return a hash in groups of four, as people compare them.

    >>> _groups("5e1f0a")
    '5e1f 0a'
    """
    return " ".join(digest[place : place + 4] for place in range(0, len(digest), 4))


def _data(value: object) -> VisibleHtml:
    return ready(value_words(value))


def _named(name: str) -> str:
    """Return a name as a part of a path or a query."""
    return quote(name, "")


def _short(name: str) -> str:
    return name[:8]
