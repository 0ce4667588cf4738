"""The command `keyturn send` adds a message to a run, which its model reads at its next turn."""

from __future__ import annotations

import argparse
from typing import Any

from ..inbox.desk import Inbox
from .finding import SHORTEST, find_run
from .with_journal import Told, describe_journal, run_with_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("text", metavar="TEXT", help="what the model is told")
    describe_journal(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send it; return 1 where that cannot be done."""

    async def work(store: Any) -> Told:
        row = await find_run(store, arguments.run)
        await Inbox(store).send(row.run, arguments.text)
        return Told([f"sent to run {row.run}"], {"run": row.run, "sent": True})

    return run_with_journal(arguments, "send", work)
