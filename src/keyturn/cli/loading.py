"""Load the app that a command names as `module:name`, as `python -m` would find it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from ..application.app import App
from ..core.errors import UserError
from ..fleet import engine_named


def external(journal: str) -> App:
    """Return an app of a journal that answers external callers, and runs nothing itself.

    >>> list(external("memory://").agents)
    ['external']
    """
    from ..asks.agent import ExternalAgent

    try:
        from ..asks.webhooks import CallerWebhooks
    except ImportError:  # the extra "webhooks" signs what is posted
        return App([ExternalAgent()], journal)
    return App([ExternalAgent()], journal, channels=[CallerWebhooks()])


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


def describe_engine(parser: argparse.ArgumentParser) -> None:
    """Add the arguments by which an engine is chosen."""
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help="what hands runs to workers: journal, dbos, temporal (default: the app's, KEYTURN_ENGINE)",
    )
    parser.add_argument(
        "--engine-url",
        metavar="URL",
        help="the engine's database or server (default: the journal's; KEYTURN_ENGINE_URL)",
    )


def use_engine(app: App, arguments: argparse.Namespace) -> None:
    """Give an app the engine that a command names, or raise `UserError`."""
    if arguments.engine is not None:
        app.engine = engine_named(arguments.engine, getattr(app.journal, "url", ""), arguments.engine_url or "")
    elif arguments.engine_url is not None:
        raise UserError("--engine-url requires --engine")
