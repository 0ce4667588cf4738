"""Say who makes a request: a token in its header, or in the cookie that a login set.

Both are tokens of the directory, and neither is taken for the other. So a session ends as a token does: when it is out
of time, when it is revoked, when its person leaves. Roles are looked up at each request and kept nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Literal, NamedTuple

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from ..application.app import App
from ..core.durations import milliseconds
from ..core.errors import KeyturnError, NotAllowed
from ..directory.credentials import first_set_up
from ..directory.events import BY_HOST, BY_PROVIDER
from ..directory.login import Login
from ..directory.provisioning import map_claims
from ..directory.state import ADMIN, Directory, Person, Token
from ..journal.rows import RequestRow
from ..presenting.asking import Standing, standing
from ..support.keys import ring
from .guard import SAFE
from .host_identity import claims_of, host_user
from .limits import MISSES
from .settings import ServerSettings

COOKIE = "keyturn_session"
#: Where a request keeps who was found to make it, before its route asked.
FOUND = "keyturn_visitor"
#: Where a request keeps whose session it has that an identity provider is to confirm again before it is good.
STALE = "keyturn_stale"
_CONFIRMED = "keyturn_confirmed"
# For how many seconds it is believed who somebody was when they began to send.
_LONG = 1.0


class Visitor(NamedTuple):
    """Says who makes a request, by what, and with which roles as of now, by the `directory` as it stood then.

    `form` is what a form of this session carries, so that nobody else's form is taken for it.
    """

    login: Login
    person: Person
    roles: frozenset[str]
    via: Literal["token", "session"]
    form: str = ""
    directory: Directory = Directory()

    @property
    def id(self) -> str:
        """Return the person's id."""
        return self.person.id

    def may(self, scope: str) -> bool:
        """Return whether the token is good for that."""
        return scope in self.login.scopes

    @property
    def administers(self) -> bool:
        """Return whether they may change the directory."""
        return ADMIN in self.roles and self.may("people")

    @property
    def on_a_link(self) -> bool:
        """Return whether they came by a sign-in link, and have no other way to sign in once this session is over."""
        return first_set_up(self.directory, self.login) and self.id not in self.directory.subjects


def turn_of(visitor: Visitor) -> str:
    """Return whose turns a visitor takes: a program of theirs that runs wild does not keep them from the pages."""
    return f"{visitor.via} {visitor.id}"


async def visitor_of(app: App, request: Request) -> Visitor | None:
    """Return who makes a request, or None for nobody that is known: a wrong token is not explained.

    What they send is read first: a token that is revoked while it comes is good for nothing any more.
    """
    if request.method not in SAFE:
        await _whole(request)
    known: Visitor | None = request.scope.pop(FOUND, None)  # good once: who asks anew is looked up anew
    visitor = known or await recognized(app, request, _settings(request))
    if visitor is not None:
        _counted(request, visitor.login.token)
    return visitor


async def _whole(request: Request) -> None:
    """Read the body of a request; who sends it is looked up anew where it was long in coming."""
    begun = time.monotonic()
    await request.body()
    if time.monotonic() - begun >= _LONG:
        request.scope.pop(FOUND, None)


async def recognized(app: App, request: HTTPConnection, settings: ServerSettings) -> Visitor | None:
    """Look up who makes a request, and count nothing."""
    header = request.headers.get("authorization", "")
    kind, _, given = header.partition(" ")
    bears = kind.lower() == "bearer"
    token = given.strip() if bears else request.cookies.get(session_cookie(request, secure=settings.secure), "")
    if not token or (header and not bears):
        return None
    try:
        login = await app.people.login(token)
    except NotAllowed:
        return None
    directory = await app.people.directory()
    person = directory.person(login.person)
    issued = directory.tokens.get(login.token)
    if person is None or issued is None or bool(issued.session) == bears:
        return None
    if issued.session == BY_HOST and not await _vouched(request, settings, directory, login.person):
        return None
    if not await _confirmed(app, request, settings, issued):
        request.scope[STALE] = login
        return None
    via = "token" if bears else "session"
    return Visitor(login, person, directory.roles_of(person.id), via, csrf_token(token), directory)


async def _vouched(request: HTTPConnection, settings: ServerSettings, directory: Directory, person: str) -> bool:
    """Return whether the host that began a session says the same now: the same user, of the same groups and roles."""
    user = await host_user(settings, request)
    if user is None or user.id != person:
        return False
    claims = claims_of(user)
    try:
        return claims is None or not map_claims(directory, person, claims)
    except KeyturnError:
        return False


async def _confirmed(app: App, request: HTTPConnection, settings: ServerSettings, issued: Token) -> bool:
    """Return whether a session is good that an identity provider began: it was confirmed there not too long ago."""
    refresh = None if settings.oidc is None or issued.session != BY_PROVIDER else settings.oidc.refresh_ms
    if refresh is None:
        return True
    at, _, mac = request.cookies.get(own_cookie(request, _CONFIRMED, secure=settings.secure), "").partition(".")
    known = at.isascii() and at.isdigit() and ring().fits(_CONFIRMED, mac, *_confirming(app, issued.id, at))
    last = max(issued.issued_at, int(at[:15]) if known else 0)
    return await app.people.now() - last < refresh


def confirm(app: App, request: HTTPConnection, response: Response, token: str, at: int) -> Response:
    """Note in the browser that a session was confirmed at a time by the provider that began it."""
    settings = _settings(request)
    response.set_cookie(
        own_cookie(request, _CONFIRMED, secure=settings.secure),
        f"{at}.{ring().mac(_CONFIRMED, *_confirming(app, token, str(at)))}",
        max_age=milliseconds(settings.session) // 1000,
        path=f"{request.scope.get('root_path', '')}/",
        secure=settings.secure,
        httponly=True,
        samesite="lax",
    )
    return response


def _confirming(app: App, token: str, at: str) -> tuple[bytes, ...]:
    return store_name(app), token.encode(), at.encode()


def store_name(app: App) -> bytes:
    """Return the name of the store and tenant of a server: what is sealed for one is of no use at another."""
    journal = app.journal
    return json.dumps([getattr(journal, "tenant", ""), getattr(journal, "identity", "")]).encode()


def _counted(request: HTTPConnection, token: str) -> None:
    """Say whose misses are counted from now on, or raise `TooMany` for a token or a login that guesses at ids."""
    asker = request.scope.get("keyturn_asker")
    if asker is not None:
        asker["token"] = token
        request.app.state.limits.stop(MISSES, token)


def _settings(request: HTTPConnection) -> ServerSettings:
    found: ServerSettings | None = getattr(request.app.state, "settings", None)
    return ServerSettings() if found is None else found


def cookie_name(request: HTTPConnection) -> str:
    """Return the name of the session's cookie of the server that serves a request."""
    return session_cookie(request, secure=_settings(request).secure)


def session_cookie(request: HTTPConnection, *, secure: bool) -> str:
    """Return the name of the session's cookie."""
    return own_cookie(request, COOKIE, secure=secure)


def own_cookie(request: HTTPConnection, name: str, *, secure: bool) -> str:
    """Return the name of a cookie of ours, which keeps it to this very host where people come by https.

    A browser takes a name that begins with `__Host-` from no other host of the same domain.
    """
    if not secure:
        return name
    root = request.scope.get("keyturn_root", request.scope.get("root_path"))
    return f"__Secure-{name}" if root else f"__Host-{name}"


def csrf_token(token: str) -> str:
    """Return what the forms of a session carry; it tells nothing of the session's token.

    >>> csrf_token("kt_1_2") == csrf_token("kt_1_2") != csrf_token("kt_1_3")
    True
    """
    return hmac.new(hashlib.sha256(token.encode()).digest(), b"keyturn form", hashlib.sha256).hexdigest()[:32]


async def standing_of(app: App, visitor: Visitor, row: RequestRow) -> Standing:
    """Return what a visitor can do about a request, and why not where they cannot."""
    terms, requester = row.request.terms_now, row.request.requester
    try:
        who = await app.people.decider(visitor.id, "authenticated", terms=terms, requester=requester)
    except NotAllowed as error:
        return Standing((), str(error))
    if visitor.person.kind == "machine":
        return Standing((), "A service account cannot decide.")
    return standing(row, who, may=visitor.may("decide"))
