"""Who a command at a journal acts for: the person whose token it has, else a name."""

from __future__ import annotations

import argparse
import os
from contextlib import suppress

from ..core.errors import NotAllowed, UserError
from ..directory.login import DECIDE, By, Login
from ..directory.people import People
from .with_journal import PERSON, TOKEN, by_of, remembered_of, token_of

#: Of the inbox: a command that decides, and the screen, which reads first.
_OF_INBOX = (DECIDE, "read")


async def login_of(people: People, arguments: argparse.Namespace, scope: str) -> Login | None:
    """Return who logs in by a token, or None where there is no token."""
    token = token_of(arguments)
    if token is None:
        return await _remembered(people, arguments) if scope in _OF_INBOX else None
    try:
        login = await people.login(token, scope)
    except NotAllowed as error:
        given = TOKEN if arguments.token_file is None else f"--token-file {arguments.token_file}"
        raise NotAllowed(f"{error}; it was read from {given}: issue another with keyturn users token") from None
    named = getattr(arguments, "by", None)
    if named is not None and await people.find(named) != login.person:
        raise UserError(f"the token belongs to {login.person!r}, but --as names {named!r}: omit one")
    return login


async def _remembered(people: People, arguments: argparse.Namespace) -> Login | None:
    """Return the login of the token that `keyturn init` issued here, while it is valid and nobody else is named.

    Decisions need it, and the screen that makes them: a name alone proves nothing there. The directory is changed by
    the name, which may do more.
    """
    known = remembered_of(arguments)
    named = getattr(arguments, "by", None) or os.environ.get(PERSON)
    if named or known is None or not known.token:
        return None
    with suppress(NotAllowed):
        return await people.login(known.token, DECIDE)
    return None


async def named_by(people: People, arguments: argparse.Namespace) -> str:
    """Return the id of the user that is named, in any case or by display name; the name where there is none."""
    return await people.find(by_of(arguments))


async def reader_of(people: People, arguments: argparse.Namespace) -> By:
    """Return who reads: somebody with a token, else a name, as it is put on record where the directory says so."""
    login = await login_of(people, arguments, "")
    if login is not None:
        return login
    try:
        return await named_by(people, arguments)
    except UserError:
        return "unknown"
