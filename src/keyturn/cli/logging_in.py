"""Who a command at a journal acts for: the person whose token it has, else a name."""

from __future__ import annotations

import argparse

from ..core.errors import UserError
from ..directory.login import By, Login
from ..directory.people import People
from .with_journal import by_of, token_of


async def login_of(people: People, arguments: argparse.Namespace, scope: str) -> Login | None:
    """Return who logs in by a token, or None where there is no token."""
    token = token_of(arguments)
    if token is None:
        return None
    login = await people.login(token, scope)
    named = getattr(arguments, "by", None)
    if named not in (None, login.person):
        raise UserError(f"the token belongs to {login.person!r}, but --as names {named!r}: omit one")
    return login


async def reader_of(people: People, arguments: argparse.Namespace) -> By:
    """Return who reads: somebody with a token, else a name, as it is put on record where the directory says so."""
    login = await login_of(people, arguments, "")
    if login is not None:
        return login
    try:
        return by_of(arguments)
    except UserError:
        return "unknown"
