"""The command `keyturn worker module:app` moves an app's runs until told to stop.

The first SIGTERM or Ctrl-C lets what was begun end; a second one ends at once, and what was in flight is in doubt.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import warnings
from importlib import import_module
from pathlib import Path

from ..app import App
from ..core.errors import UnsafeStore, UserError
from .printing import print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("app", help="where the App is, as module:name")
    parser.add_argument("--strict", action="store_true", help="refuse a journal that may not be safe where it is kept")


def run(arguments: argparse.Namespace) -> int:
    """Work until told to stop."""
    with warnings.catch_warnings():
        if arguments.strict:
            warnings.simplefilter("error", UnsafeStore)
        try:
            app = found(arguments.app)
        except (UserError, UnsafeStore) as error:
            print_labelled("keyturn worker", str(error))
            return 2
    asyncio.run(_work(app))
    return 0


def found(where: str) -> App:
    """Import the app of a `module:name`, or raise `UserError`."""
    module, _, name = where.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the module is the user's own
    try:
        app = getattr(import_module(module), name or "app")
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"there is no app at {where!r}: {error}") from None
    if not isinstance(app, App):
        raise UserError(f"{where!r} is a {type(app).__name__}; name a keyturn.App")
    return app


async def _work(app: App) -> None:
    working, loop = asyncio.ensure_future(app.work()), asyncio.get_running_loop()
    told: list[int] = []

    def stop() -> None:
        told.append(1)
        if len(told) > 1:
            working.cancel()
        else:
            print("finishing what was begun; once more ends at once", file=sys.stderr)
            loop.create_task(app.stop())

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    print_labelled("working for", ", ".join(app.agents))
    await asyncio.wait({working})
    if not working.cancelled():
        working.result()
