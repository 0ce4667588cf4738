"""Check what a login hands out: no token and no link that is good for more, or lasts longer, than the login itself.

Pure, as `decide.py` is. A session that was left open, or stolen, is turned into nothing that outlasts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..core.errors import NotAllowed
from .login import Login
from .state import Directory

#: How long after its sign-in a session changes how its person signs in, in milliseconds.
FRESH_MS = 15 * 60_000
#: What a session is good for, and so a link, which begins one.
SESSION_SCOPES = ("decide", "read", "people")


def within(scopes: Iterable[str], held: Collection[str]) -> None:
    """Refuse scopes that the login which hands them out has not got at the moment."""
    more = [scope for scope in scopes if scope not in held]
    if more:
        raise NotAllowed(f"a login issues nothing that it is not good for itself, and this one is not for {more[0]!r}")


def hands_out(directory: Directory, by: object, scopes: Iterable[str], now: int) -> None:
    """Refuse a login that hands out more than it is good for, or whose session began too long ago.

    A program that names a person, in place of their login, vouches for them.
    """
    if isinstance(by, Login):
        within(scopes, by.scopes)
        fresh(directory, by, now)


def fresh(directory: Directory, by: object, now: int) -> None:
    """Refuse a session that began too long ago for a change of what lets its person in."""
    held = directory.tokens.get(by.token) if isinstance(by, Login) else None
    if held is not None and held.session and now - held.issued_at >= FRESH_MS:
        raise NotAllowed("sign in again for this: this session is more than 15 minutes old")


def lasts(directory: Directory, by: object, until: int | None) -> None:
    """Refuse a token that would outlast the token by which it is issued."""
    held = directory.tokens.get(by.token) if isinstance(by, Login) else None
    if held is None or held.session or held.expires_at is None:
        return
    if until is None or until > held.expires_at:
        raise NotAllowed("a token issues none that outlasts it: say expires=, and no later than its own end")
