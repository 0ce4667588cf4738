"""The command `keyturn fork` starts a new run from the first lines of another; what waits there asks anew."""

from __future__ import annotations

import argparse

from .finding import SHORTEST, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_app, describe_json, describe_server


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("--at", type=int, metavar="N", help="how many lines of it (default: as many as can be copied)")
    describe_app(parser, "its worker moves the new run")
    describe_server(parser, "an app")
    describe_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fork it; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        row = await find_run(seat.runs, arguments.run)
        made = await seat.runs.steer("fork", row.run, arguments.at)
        said = f"run {made} was forked from run {row.run}; {seat.runs.mover} moves it"
        return Told([said], {"run": made, "forked_from": row.run})

    return run_at(arguments, "fork", work)
