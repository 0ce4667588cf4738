"""Say who somebody is who comes with a token or a link, and make those secrets; only digests of them are kept."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from typing import NamedTuple, cast

from ..core.errors import UserError
from ..core.people import Decider, plain_text
from .spelling import named

DECIDE = "decide"
PEOPLE = "people"
MARK = "kt"


class Login(NamedTuple):
    """Says who somebody is who proved it: with a token, with a link, or to the program that makes this.

    `scopes` is for what it is good, and `token` the id of the token that said so, which must be good still whenever it
    is used. Whoever makes one by hand vouches for the person.

    >>> Login("ada").scopes
    ('decide', 'read', 'people')
    """

    person: str
    scopes: tuple[str, ...] = (DECIDE, "read", PEOPLE)
    token: str = ""


By = str | Decider | Login


def id_of(by: By) -> str:
    """Return the id of whoever makes a change."""
    if isinstance(by, Login):
        return by.person
    return by.id if isinstance(by, Decider) else by


def author_of(by: object) -> Decider:
    """Return whoever makes a change as it is recorded, or raise `UserError`."""
    if isinstance(by, Login):
        return Decider(plain_text(by.person, "by"), (), "authenticated")
    if isinstance(by, Decider):
        return Decider(by.id, (), by.strength)
    if not isinstance(by, str) or not by:
        raise UserError("say who changes the directory: by= is a person's id, their Login, or a Decider(...)")
    return Decider(plain_text(by, "by"))


def names(given: Iterable[str], what: str) -> tuple[str, ...]:
    """Return names that a directory can hold, each once, or raise `UserError`."""
    if isinstance(cast("object", given), str):
        raise UserError(f"{what} is a list of names, not one text")
    return tuple(dict.fromkeys(named(each, f"one of {what}") for each in given))


def new_secret(name: str = "") -> tuple[str, str]:
    """Make an id, where none is given, and the secret of a token or link that names it."""
    name = name or secrets.token_hex(6)
    return name, f"{MARK}_{name}_{secrets.token_hex(24)}"


def id_in(token: object) -> str:
    """Return the id that a token or link names; "" for what is none."""
    parts = token.split("_") if isinstance(token, str) else []
    return parts[1] if len(parts) == 3 and parts[0] == MARK else ""


def digest_of(token: object) -> str:
    """Return what is kept of a token or link."""
    text = token if isinstance(token, str) else ""
    return hashlib.sha256(b"keyturn token\n" + text.encode("utf-8", "surrogatepass")).hexdigest()
