"""The command `keyturn fork` starts a new run from the first lines of another; what waits there asks anew."""

from __future__ import annotations

import argparse

from ..app import App
from .finding import SHORTEST, find_run
from .with_journal import Told, describe_app, describe_json, run_with_app


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("--at", type=int, metavar="N", help="how many lines of it (default: as many as can be copied)")
    describe_app(parser, "its worker moves the new run", required=True)
    describe_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fork it; return 1 where that cannot be done."""

    async def work(app: App) -> Told:
        app.embedded = False
        row = await find_run(app.journal, arguments.run)
        made = await app.fork(row.run, arguments.at)
        said = f"run {made.id} was forked from run {row.run}; keyturn worker {arguments.app} moves it"
        return Told([said], {"run": made.id, "forked_from": row.run})

    return run_with_app(arguments, "fork", work)
