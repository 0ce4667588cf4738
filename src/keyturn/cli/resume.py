"""The command `keyturn resume` lets a run go on that failed or was set aside, on record as whoever says so."""

from __future__ import annotations

import argparse

from .finding import SHORTEST, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"the id, or its first {SHORTEST} or more characters")
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Resume it; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        row = await find_run(seat.runs, arguments.run)
        await seat.runs.steer("resume", row.run)
        return Told([f"resumed: run {row.run}; a worker continues it"], {"run": row.run, "status": "running"})

    return run_at(arguments, "resume", work)
