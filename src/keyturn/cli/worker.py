"""The command `keyturn worker module:app` moves an app's runs until told to stop.

The first SIGTERM or Ctrl-C lets what was begun end; a second one ends at once, and what was in flight is in doubt.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import warnings

from ..application.app import App
from ..application.tenants import Tenants
from ..core.errors import UnsafeStore, UserError
from .health import health_checks
from .loading import describe_engine, found_worker, use_engine
from .logs import describe_logs, set_up_logs
from .printing import print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("app", help="the app, or the Tenants, as module:name")
    parser.add_argument("--slots", type=int, metavar="N", help="how many runs to execute at once (default: the app's)")
    parser.add_argument("--lease", type=float, metavar="SECONDS", help="how long a run is held without a renewal (60)")
    describe_engine(parser)
    parser.add_argument("--health", type=int, metavar="PORT", help="answer health checks over HTTP on 127.0.0.1")
    describe_logs(parser)
    parser.add_argument("--strict", action="store_true", help="refuse a journal that may not be safe at its location")


def run(arguments: argparse.Namespace) -> int:
    """Work until told to stop."""
    with warnings.catch_warnings():
        if arguments.strict:
            warnings.simplefilter("error", UnsafeStore)
        try:
            app = found_worker(arguments.app)
            use_engine(app, arguments)
        except (UserError, UnsafeStore) as error:
            print_labelled("keyturn worker", str(error))
            return 2
    if arguments.slots is not None and arguments.slots < 1:
        print_labelled("keyturn worker", "--slots must be 1 or more")
        return 2
    try:
        app.lease = app.lease if arguments.lease is None else arguments.lease
    except UserError as error:
        print_labelled("keyturn worker", f"--lease: {error}")
        return 2
    set_up_logs(arguments)
    try:
        asyncio.run(_work(app, arguments))
    except UserError as error:
        print_labelled("keyturn worker", str(error))
        return 2
    except OSError as error:
        print_labelled("keyturn worker", f"health checks cannot be answered on port {arguments.health}: {error}")
        return 2
    return 0


async def _work(app: App | Tenants, arguments: argparse.Namespace) -> None:
    async with health_checks(app, arguments.health) as port:
        if port is not None:
            print_labelled("health checks", f"http://127.0.0.1:{port}/")
        await _until_told(app, arguments.slots)


async def _until_told(app: App | Tenants, slots: int | None) -> None:
    working, loop = asyncio.ensure_future(app.work(slots)), asyncio.get_running_loop()
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        if stopping:
            working.cancel()
        else:
            print("shutting down after the current steps; press Ctrl-C again to stop at once", file=sys.stderr)
            stopping.append(loop.create_task(app.stop()))

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    print_labelled("worker started for", ", ".join(app.agents) if isinstance(app, App) else "all tenants")
    await asyncio.wait({working})
    if stopping:  # what the app owns is closed, however many signals there were
        await asyncio.wait(stopping)
    if not working.cancelled():
        working.result()
