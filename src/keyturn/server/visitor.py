"""Say who makes a request: a token in its header, or in the cookie that a login set. Both are tokens of the directory.

So a session ends as a token does: when it is out of time, when it is revoked, when its person leaves. Roles are looked
up at each request and kept nowhere.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal, NamedTuple

from starlette.requests import HTTPConnection

from ..app import App
from ..core.errors import NotAllowed
from ..directory.login import Login
from ..directory.state import ADMIN, Directory, Person

COOKIE = "keyturn_session"


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


async def visitor_of(app: App, request: HTTPConnection) -> Visitor | None:
    """Return who makes a request, or None for nobody that is known: a wrong token is not explained."""
    header = request.headers.get("authorization", "")
    kind, _, given = header.partition(" ")
    bears = kind.lower() == "bearer"
    token = given.strip() if bears else request.cookies.get(COOKIE, "")
    if not token or (header and not bears):
        return None
    try:
        login = await app.people.login(token)
    except NotAllowed:
        return None
    directory = await app.people.directory()
    person = directory.person(login.person)
    if person is None:
        return None
    via = "token" if bears else "session"
    return Visitor(login, person, directory.roles_of(person.id), via, form_mark(token), directory)


def form_mark(token: str) -> str:
    """Return what the forms of a session carry; it tells nothing of the session's token.

    >>> form_mark("kt_1_2") == form_mark("kt_1_2") != form_mark("kt_1_3")
    True
    """
    return hmac.new(hashlib.sha256(token.encode()).digest(), b"keyturn form", hashlib.sha256).hexdigest()[:32]
