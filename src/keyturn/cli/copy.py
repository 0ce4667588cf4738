"""The command `keyturn copy FROM TO` copies a journal to another database, SQLite to PostgreSQL or back."""

from __future__ import annotations

import argparse
import asyncio

from ..core.errors import KeyturnError, UserError
from ..journal import open_journal
from ..journal.moving import copy_store
from ..journal.sql_journal import SQLJournal
from .printing import must_be_there, print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("source", help="the journal that is copied, as its URL; its workers must be stopped")
    parser.add_argument("target", help="the empty journal that it is copied to, as its URL")
    parser.add_argument(
        "--reseal", action="store_true", help="seal the copy with the newest key, so that older keys can be retired"
    )


def run(arguments: argparse.Namespace) -> int:
    """Copy, and print what was copied."""
    try:
        counts = asyncio.run(_copy(arguments.source, arguments.target, reseal=arguments.reseal))
    except KeyturnError as error:
        print_labelled("keyturn copy", str(error))
        return 1
    print("copied and verified: " + ", ".join(f"{count} {table}" for table, count in counts.items()))
    return 0


async def _copy(source: str, target: str, *, reseal: bool) -> dict[str, int]:
    must_be_there(source)
    opened = [_kept(source), _kept(target)]
    try:
        return await copy_store(*opened, reseal=reseal)
    finally:
        for journal in opened:
            await journal.close()


def _kept(url: str) -> SQLJournal:
    journal = open_journal(url)
    if not isinstance(journal, SQLJournal):
        raise UserError(f"{url} lives in memory; name a sqlite:/// or postgresql:// journal")
    return journal
