"""Open what a command works on: a server if one is meant, else an app's journal, else a journal; and do the work there.

Only the seat that is opened is imported: a command at a server loads no engine.
What is named on the command line goes before what the environment says, and two places that are named are refused.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString

from ...core.errors import NotAllowed, UserError
from ...directory.login import DECIDE
from ...inbox.personal import PersonalInbox
from ..with_journal import SERVER, TENANT, TOKEN, Told, close, run_command, token_of, with_store
from .base import Seat

Work = Callable[[Seat], Awaitable[Told | int]]


def run_at(arguments: argparse.Namespace, name: LiteralString, work: Work) -> int:
    """Do the work where it is meant, and print what it says; return 1 where that cannot be done."""
    return run_command(arguments, name, lambda: seated(arguments, work))


def run_with_inbox(
    arguments: argparse.Namespace,
    name: LiteralString,
    work: Callable[[PersonalInbox], Awaitable[Told | int]],
    *,
    scope: str = DECIDE,
) -> int:
    """Do the work with the inbox of the person where it is meant; their login has to be good for the scope."""

    async def seated_work(seat: Seat) -> Told | int:
        return await work(await seat.inbox(scope))

    return run_at(arguments, name, seated_work)


async def seated(arguments: argparse.Namespace, work: Callable[[Seat], Awaitable[Any]]) -> Any:
    """Open what is meant, do the work with it, and close it."""
    url = server_of(arguments)
    if url is not None:
        return await _at_server(url, arguments, work)
    if not hasattr(arguments, "by") and getattr(arguments, "token_file", None) is not None:
        raise UserError("--token-file requires a server: pass --server, or omit the file")
    if getattr(arguments, "app", None) is not None:
        return await _at_app(arguments, work)
    if not hasattr(arguments, "journal"):
        raise UserError("no app was named: pass the app as module:name, or a server with --server URL")
    from .journal import at_journal

    return await with_store(arguments, lambda store: work(at_journal(store, arguments)))


def server_of(arguments: argparse.Namespace) -> str | None:
    """Return the URL of the server that is meant; None where it is a journal, or an app, which goes first if named."""
    given: str | None = getattr(arguments, "server", None)
    named = [name for name in ("journal", "url", "app") if getattr(arguments, name, None)]
    if given is not None and not given.strip():
        raise UserError("--server is empty: pass a URL, or omit it")
    if given is not None and named:
        raise UserError(f"a server and {'an app' if named == ['app'] else 'a journal'} are named: omit one")
    if given is None and (named or not hasattr(arguments, "server")):
        return None
    return given or os.environ.get(SERVER) or None


async def _at_server(url: str, arguments: argparse.Namespace, work: Callable[[Seat], Awaitable[Any]]) -> Any:
    token = token_of(arguments)
    if token is None:
        raise UserError(f"the token is missing: set {TOKEN}, or pass --token-file FILE")
    if getattr(arguments, "tenant", TENANT) != TENANT:
        raise UserError("with a server, your token determines the tenant: omit --tenant")
    try:
        from ...client.sending import TokenRefused
        from .server import at_server
    except ImportError as error:
        raise UserError(str(error)) from None
    try:
        async with at_server(url, token, arguments) as seat:
            return await work(seat)
    except TokenRefused as error:
        given = TOKEN if arguments.token_file is None else f"--token-file {arguments.token_file}"
        raise NotAllowed(
            f"{error.message}: set {TOKEN}, or pass --token-file FILE (it was read from {given})"
        ) from None


async def _at_app(arguments: argparse.Namespace, work: Callable[[Seat], Awaitable[Any]]) -> Any:
    """Work with an app's agents, on its own journal, or on another one if one is named."""
    from ..loading import found
    from .journal import at_journal

    app = found(arguments.app)
    try:
        if getattr(arguments, "journal", None) is not None:
            return await with_store(arguments, lambda store: work(at_journal(store, arguments, app)))
        whole: Any = app.journal
        tenant = getattr(arguments, "tenant", TENANT)
        return await work(at_journal(whole if tenant == TENANT else whole.of(tenant), arguments, app))
    finally:
        await app.stop()
        await close(app.journal)
