"""The command `keyturn cancel` cancels a run: what is in flight is stopped, and nothing of it waits any more."""

from __future__ import annotations

import argparse
from typing import Any

from ..directory.people import DECIDE
from ..inbox.desk import Inbox
from .finding import SHORTEST, find_run
from .with_journal import Told, by_of, describe_journal, login_of, run_with_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("--why", default="", metavar="TEXT", help="the reason, for the record")
    describe_journal(parser, people=True)


def run(arguments: argparse.Namespace) -> int:
    """Cancel it; return 1 where that cannot be done."""

    async def work(store: Any) -> Told:
        inbox = Inbox(store)
        who = await login_of(inbox.people, arguments, DECIDE) or by_of(arguments)
        row = await find_run(store, arguments.run)
        await inbox.cancel(row.run, by=who, why=arguments.why)
        return Told([f"cancelled: run {row.run}"], {"run": row.run, "status": "cancelled"})

    return run_with_journal(arguments, "cancel", work)
