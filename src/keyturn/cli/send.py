"""The command `keyturn send` adds a message to a run, which its model reads at its next turn."""

from __future__ import annotations

import argparse

from .finding import SHORTEST, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"the id, or its first {SHORTEST} or more characters")
    parser.add_argument("text", metavar="TEXT", help="the message to the model")
    describe_journal(parser, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Send it; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        row = await find_run(seat.runs, arguments.run)
        await seat.runs.steer("send", row.run, arguments.text)
        return Told([f"sent to run {row.run}"], {"run": row.run, "sent": True})

    return run_at(arguments, "send", work)
