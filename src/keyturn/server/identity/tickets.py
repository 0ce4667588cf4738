"""Remember for some minutes, in a browser's own cookie, what a login was begun with: nothing is kept here.

What begins with a ticket can end once: the ticket's `once` becomes the id of the session, which the directory gives
only once. So it holds for all processes of a server, and nothing grows.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response

from ...support.keys import ring
from ..visitor import Visitor, own_cookie, store_name

_LASTS = 300
_MOST = 3_000
#: How long a path in a ticket is: a browser keeps cookies of some 4,000 characters.
LONGEST_PATH = 1_000


class Ticket(NamedTuple):
    """Holds a secret of one browser for one login, until when it is good, and what else is to be known at its end.

    >>> one = new_ticket("login", {"next": "/"})
    >>> one.derived("state") != one.derived("nonce")
    True
    """

    use: str
    seed: str
    until: int
    words: dict[str, str]

    def derived(self, what: str) -> str:
        """Return a value that nobody can tell who has not the seed; each name has its own."""
        return hashlib.sha256(f"keyturn {self.use} {what}\n{self.seed}\n{self.until}".encode()).hexdigest()

    @property
    def challenge(self) -> bytes:
        """Return what a key signs to end it: 32 bytes that no decision and no other use has."""
        text = f"keyturn {self.use} challenge 1\n{self.seed}\n{self.until}\n{json.dumps(self.words, sort_keys=True)}"
        return hashlib.sha256(text.encode()).digest()

    @property
    def once(self) -> str:
        """Return the id of the session that it begins."""
        return self.derived("once")[:24]


def new_ticket(use: str, words: dict[str, str]) -> Ticket:
    """Make a ticket, good for five minutes."""
    return Ticket(use, secrets.token_urlsafe(32), int(time.time()) + _LASTS, words)


def give(request: Request, response: Response, ticket: Ticket) -> None:
    """Put a ticket into the browser's cookie."""
    text = json.dumps([ticket.seed, ticket.until, ticket.words])
    mac = ring().mac("server ticket", store_of(request), ticket.use.encode(), text.encode())
    response.set_cookie(
        _name(request, ticket.use),
        f"{text.encode().hex()}.{mac}",
        max_age=_LASTS,
        path=f"{request.scope.get('root_path', '')}/",
        secure=request.app.state.settings.secure,
        httponly=True,
        samesite="lax",  # a provider sends the browser back with a link
    )


def taken(request: Request, response: Response | None, use: str) -> Ticket | None:
    """Return the ticket of this browser, or None; with a response it is taken out of the cookie."""
    text = request.cookies.get(_name(request, use), "")
    if response is not None:
        drop(request, response, use)
    body, _, mac = text.partition(".")
    try:
        raw = bytes.fromhex(body) if len(body) <= _MOST else b""
    except ValueError:
        return None
    if not raw or not ring().fits("server ticket", mac, store_of(request), use.encode(), raw):
        return None
    seed, until, words = cast("tuple[Any, Any, Any]", tuple(json.loads(raw)))
    return Ticket(use, seed, until, words) if time.time() < until else None


def store_of(request: Request) -> bytes:
    """Return the name of the store and tenant of the server that serves a request."""
    return store_name(request.app.state.app)


def drop(request: Request, response: Response, use: str) -> None:
    """Take a ticket out of the browser's cookie."""
    path = f"{request.scope.get('root_path', '')}/"
    secure = request.app.state.settings.secure
    response.delete_cookie(_name(request, use), path=path, secure=secure, httponly=True, samesite="lax")


def mark_of(visitor: Visitor) -> str:
    """Return what binds a ticket to a session: another's is of no use with it."""
    return visitor.form


def _name(request: Request, use: str) -> str:
    return own_cookie(request, f"keyturn_{use}", secure=request.app.state.settings.secure)
