"""The command `keyturn serve module:app` serves the pages and the API of an app, and moves its runs.

It listens on this machine alone, unless told otherwise; others reach it only encrypted, and once there is somebody who
can let people in. The first SIGTERM or Ctrl-C ends it well, a second one at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import warnings
from pathlib import Path

from ..application.app import App
from ..core.errors import KeyturnError, StorageError, UnsafeStore, UserError
from ..render.escape import escape
from .loading import describe_engine, external, found, use_engine
from .logs import describe_logs, set_up_logs
from .printing import print_labelled
from .with_journal import journal_of

_GRACE = 10.0
_NONE = "none"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("app", nargs="?", help="the app, as module:name; without one, an inbox for external callers")
    parser.add_argument(
        "--journal",
        metavar="URL",
        help="without an app: the journal (default: KEYTURN_JOURNAL, else that of keyturn init, else ./keyturn.db)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8321, help="the port (default: %(default)s)")
    parser.add_argument("--url", default="", help="the public URL, if different: https://keyturn.example")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another host name that requests may use"
    )
    parser.add_argument("--secure", action="store_true", help="a reverse proxy in front terminates TLS (https)")
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a trusted reverse proxy, whose X-Forwarded-For is used: 10.0.0.5 or 10.0.0.0/8; `none` if it sends none "
        "(KEYTURN_PROXIES)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve https (TLS) with this certificate")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    parser.add_argument(
        "--person", metavar="ID", help="the first administrator, if there is none (default: your login)"
    )
    parser.add_argument("--no-worker", action="store_true", help="do not execute runs in this process")
    describe_engine(parser)
    parser.add_argument("--strict", action="store_true", help="refuse a journal that may not be safe at its location")
    describe_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    try:
        from ..server.running import ListeningAddress
    except ImportError as error:
        print_labelled("keyturn serve", f"the server needs more packages: pip install 'keyturn[server]' ({error})")
        return 2
    with warnings.catch_warnings():
        if arguments.strict:
            warnings.simplefilter("error", UnsafeStore)
        try:
            if arguments.app and arguments.journal:
                raise UserError("an app has a journal of its own: omit --journal")
            app = found(arguments.app) if arguments.app else external(journal_of(arguments.journal, new=True))
            use_engine(app, arguments)
            address = ListeningAddress(
                host=arguments.host,
                port=arguments.port,
                public_url=arguments.url,
                hosts=tuple(arguments.allow_host),
                secure=arguments.secure,
                certificate=arguments.tls_cert,
                key=arguments.tls_key,
            )
            proxies = _proxies(arguments.proxy, proxied=address.proxied)
        except (UserError, UnsafeStore) as error:
            print_labelled("keyturn serve", str(error))
            return 2
    set_up_logs(arguments)
    app.embedded = app.embedded and not arguments.no_worker
    try:
        return asyncio.run(_serve(app, address, arguments.person, proxies))
    except (KeyturnError, OSError) as error:
        print_labelled("keyturn serve", str(error))
        return 1 if isinstance(error, StorageError) else 2


def _proxies(given: list[str], *, proxied: bool) -> tuple[str, ...]:
    """Return which proxies are trusted to name clients, or refuse to serve behind one that nobody named."""
    named = given or os.environ.get("KEYTURN_PROXIES", "").replace(",", " ").split()
    if named == [_NONE]:
        return ()
    if _NONE in named:
        raise UserError("--proxy none cannot be combined with other networks")
    if proxied and not named:
        raise UserError(
            "--secure requires --proxy: without it, all users share one client address and its rate limits. Pass the "
            "address or network of the reverse proxy, --proxy 10.0.0.5, to trust its X-Forwarded-For, or "
            "--proxy none if it sends no such header"
        )
    return tuple(named)


async def _serve(app: App, address: object, person: str | None, proxies: tuple[str, ...]) -> int:
    from ..server.asgi import serve
    from ..server.running import ListeningAddress, Running
    from ..server.settings import ServerSettings

    assert isinstance(address, ListeningAddress)
    await _may_be_public(app, address)
    settings = ServerSettings(hosts=address.known_hosts, secure=address.encrypted, proxies=proxies)
    with address.bound() as listening:
        await _let_in(app, address.url, person)
        running = Running(serve(app, settings, invites=False), address, grace=_GRACE)
        print_labelled("serving", f"{address.url}/ for {', '.join(app.agents) or 'no agent'}")
        await running.serve([listening])
    return 0 if running.started else 1


async def _may_be_public(app: App, address: object) -> None:
    """Refuse an address that others reach, where anybody could listen in, or be the first to come in."""
    from ..server.running import ListeningAddress

    assert isinstance(address, ListeningAddress)
    if not address.public:
        return
    if not address.encrypted:
        raise UserError(
            f"{address.host} is reachable from the network and the connection would not be encrypted: pass --tls-cert "
            "and --tls-key, or --secure if a reverse proxy in front terminates TLS"
        )
    if not (await app.people.directory()).admins():
        raise UserError(
            f"{address.host} is reachable from the network and there are no users yet: run `keyturn init`, or serve on "
            "127.0.0.1 first"
        )


async def _let_in(app: App, url: str, person: str | None) -> None:
    """Print the link by which the first person signs in, or how to create one, until somebody has."""
    from ..server.identity.first_run import invitation, unused_link

    secret = await unused_link(app.people, person or "")
    if secret:
        print("\n".join(invitation(f"{url}/enter#{secret}")), flush=True)
        return
    directory = await app.people.directory()
    signs_in = directory.passwords or directory.keys or any(each.session for each in directory.tokens.values())
    if not signs_in and (admins := directory.admins()):  # no link: the log of a server is no place for a second one
        print(f"No user has signed in yet: keyturn users link {escape(admins[0], keep='')} --url {url}", flush=True)
