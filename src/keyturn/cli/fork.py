"""The command `keyturn fork` starts a new run from the first lines of another; what waits there asks anew."""

from __future__ import annotations

import argparse

from .finding import SHORTEST, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_app, describe_json, describe_server


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"the id, or its first {SHORTEST} or more characters")
    parser.add_argument("--at", type=int, metavar="N", help="how many lines to copy (default: as many as possible)")
    describe_app(parser, "its worker executes the new run")
    describe_server(parser, "an app")
    describe_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Fork it; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        row = await find_run(seat.runs, arguments.run)
        made = await seat.runs.steer("fork", row.run, arguments.at)
        said = f"run {made} was forked from run {row.run}, to be executed by {seat.runs.mover}"
        return Told([said], {"run": made, "forked_from": row.run})

    return run_at(arguments, "fork", work)
