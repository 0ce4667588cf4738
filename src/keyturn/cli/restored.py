"""The command `keyturn restored URL` settles a restored backup or promoted standby, so that nothing runs twice.

Every call that was let run and has no result is in doubt, what waits asks anew, and each open run stops until somebody
lets it go on. It can be interrupted and begun again.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ..core.errors import KeyturnError, UserError
from ..inbox.restored import Settled, settle
from ..journal import open_journal
from .printing import must_be_there, print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("url", metavar="URL", help="the journal, such as sqlite:///runs.db")
    parser.add_argument("--anyway", action="store_true", help="also if no restore was detected")


def run(arguments: argparse.Namespace) -> int:
    """Settle the store, and print what was done."""
    try:
        done = asyncio.run(_settled(arguments.url, arguments.anyway))
    except KeyturnError as error:
        print_labelled("keyturn restored", str(error))
        return 1
    print("no restore was detected; --anyway marks the calls all the same" if done is None else done)
    return 0 if done is None or not done.unread else 1


async def _settled(url: str, anyway: bool) -> Settled | None:
    must_be_there(url)
    journal: Any = open_journal(url)
    if not hasattr(journal, "restored"):
        raise UserError(f"{url} lives in memory, so it cannot be restored from a backup")
    try:
        if anyway:
            await journal.taken_for_restored("was restored from a backup, according to its operator")
        return await settle(journal)
    finally:
        await journal.close()
