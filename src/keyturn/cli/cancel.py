"""The command `keyturn cancel` cancels a run: what is in flight is stopped, and nothing of it waits any more."""

from __future__ import annotations

import argparse

from .finding import SHORTEST, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"the id, or its first {SHORTEST} or more characters")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, for the audit log")
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Cancel it; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        row = await find_run(seat.runs, arguments.run)
        await seat.runs.steer("cancel", row.run, arguments.why)
        return Told([f"cancelled: run {row.run}"], {"run": row.run, "status": "cancelled"})

    return run_at(arguments, "cancel", work)
