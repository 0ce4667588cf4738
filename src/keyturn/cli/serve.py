"""The command `keyturn serve module:app` serves the pages and the API of an app, and moves its runs.

It listens on this machine alone, unless told otherwise; others reach it only encrypted, and once there is somebody who
can let people in. The first SIGTERM or Ctrl-C ends it well, a second one at once.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
import warnings
from pathlib import Path

from ..application.app import App
from ..core.errors import KeyturnError, StorageError, UnsafeStore, UserError
from .loading import found
from .logs import describe_logs, set_up_logs
from .printing import print_labelled

_GRACE = 10.0
_NONE = "none"


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("app", help="where the App is, as module:name")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8321, help="the port (default: %(default)s)")
    parser.add_argument("--url", default="", help="how people reach it, if otherwise: https://keyturn.example")
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="another name by which it may be reached"
    )
    parser.add_argument("--secure", action="store_true", help="people reach it by https, through a proxy")
    parser.add_argument(
        "--proxy",
        action="append",
        default=[],
        metavar="NETWORK",
        help="a proxy whose X-Forwarded-For is believed, 10.0.0.5 or 10.0.0.0/8; `none` where it names no clients "
        "(KEYTURN_PROXIES)",
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="serve https with this certificate")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    parser.add_argument("--person", metavar="ID", help="the first person, where there is none (default: your login)")
    parser.add_argument("--no-worker", action="store_true", help="leave runs to workers elsewhere")
    parser.add_argument("--strict", action="store_true", help="refuse a journal that may not be safe where it is kept")
    describe_logs(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to stop."""
    try:
        from ..server.running import ListeningAddress
    except ImportError as error:
        print_labelled(
            "keyturn serve", f"the server needs packages of its own: pip install 'keyturn[server]' ({error})"
        )
        return 2
    with warnings.catch_warnings():
        if arguments.strict:
            warnings.simplefilter("error", UnsafeStore)
        try:
            app = found(arguments.app)
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
        raise UserError("--proxy none says that no proxy names clients: leave out the other networks, or leave it out")
    if proxied and not named:
        raise UserError(
            "people reach it by https through a proxy, and no proxy is named: all of them would share one address and "
            "its limits. Name the proxy by address or network, --proxy 10.0.0.5, so that its X-Forwarded-For is "
            "believed, or say --proxy none where it sends no such header"
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
        running = Running(serve(app, settings), address, grace=_GRACE, told=_ending)
        print_labelled("serving", f"{address.url}/ for {', '.join(app.agents) or 'no agent'}")
        await running.serve([listening])
    return 0 if running.started else 1


def _ending() -> None:
    print("ending; once more ends at once", file=sys.stderr)


async def _may_be_public(app: App, address: object) -> None:
    """Refuse an address that others reach, where anybody could listen in, or be the first to come in."""
    from ..server.running import ListeningAddress

    assert isinstance(address, ListeningAddress)
    if not address.public:
        return
    if not address.encrypted:
        raise UserError(
            f"others reach {address.host}, and nothing would be encrypted: serve https with --tls-cert and --tls-key, "
            "or say --secure where a proxy in front does"
        )
    if not (await app.people.directory()).admins():
        raise UserError(
            f"others reach {address.host}, and nobody is in the directory yet: begin it with `keyturn init`, or serve "
            "on 127.0.0.1 first"
        )


async def _let_in(app: App, url: str, person: str | None) -> None:
    """Print the link by which the first person comes in, until somebody has."""
    from ..server.identity.first_run import drawn, first_link

    directory = await app.people.directory()
    secret = ""
    if not directory.place:
        secret = await first_link(app.people, person or getpass.getuser())
    elif not directory.tokens and not directory.keys and not any(each.used for each in directory.links.values()):
        admin = directory.admins()[0]  # the link of before was never used, and nobody remembers it
        secret = await app.people.make_link(admin, by=admin)
    if secret:
        link = f"{url}/enter#{secret}"
        print(drawn(link))
        print(f"Come in, once and within a day: {link}", flush=True)
