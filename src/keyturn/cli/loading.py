"""Load the app that a command names as `module:name`, as `python -m` would find it."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from ..application.app import App
from ..application.tenants import Tenants
from ..core.errors import UserError
from ..fleet import JOURNAL, asked_engine, engine_named


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


def _imported(where: str) -> object:
    module, _, name = where.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does: the module is the user's own
    try:
        app = getattr(import_module(module), name or "app")
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"there is no app at {where!r}: {error}") from None
    return app


def found(where: str) -> App:
    """Import the app of a `module:name`, or raise `UserError`."""
    return _checked(where, _imported(where))


def found_worker(where: str) -> App | Tenants:
    """Import what a worker serves: an app, or the apps of several tenants."""
    app = _imported(where)
    return app if isinstance(app, Tenants) else _checked(where, app)


def _checked(where: str, app: object) -> App:
    if not isinstance(app, App):
        raise UserError(f"{where!r} is a {type(app).__name__}; name a keyturn.App")
    return app


def describe_engine(parser: argparse.ArgumentParser, default: str = "the app's, KEYTURN_ENGINE") -> None:
    """Add the arguments by which an engine is chosen, and which one is the default."""
    parser.add_argument(
        "--engine",
        metavar="NAME",
        help=f"what hands runs to workers: journal, dbos, temporal (default: {default})",
    )
    parser.add_argument(
        "--engine-url",
        metavar="URL",
        help="the engine's database or server (default: the journal's; KEYTURN_ENGINE_URL)",
    )


def engine_asked_for(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the name and the URL of the engine that a command names, or else the environment."""
    name, url = asked_engine(arguments.engine, arguments.engine_url)
    if arguments.engine_url is not None and name == JOURNAL:
        raise UserError("--engine-url requires --engine")
    return name, url


def use_engine(app: App | Tenants, arguments: argparse.Namespace) -> None:
    """Give an app the engine that a command names, or raise `UserError`."""
    if arguments.engine is not None:
        name, url = engine_asked_for(arguments)
        app.engine = engine_named(name, getattr(app.journal, "url", ""), url)
    elif arguments.engine_url is not None:
        raise UserError("--engine-url requires --engine")
