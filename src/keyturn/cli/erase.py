"""The command `keyturn erase` erases runs that ended long ago.

Their digests stay, so that `check` still verifies.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from ..core.durations import milliseconds
from ..core.errors import KeyturnError
from ..journal import open_journal
from ..journal.retention import ended_before, erase_ended
from ..render.plural import plural
from .printing import must_be_there, print_labelled


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("url", metavar="URL", help="the journal, such as sqlite:///runs.db")
    parser.add_argument("--older-than", required=True, metavar="TIME", help="runs that ended before that: 90d, 12h ago")
    parser.add_argument("--tenant", default="default", metavar="NAME", help="the tenant (default: %(default)s)")
    parser.add_argument("--yes", action="store_true", help="erase; without this, only the number of runs is shown")


def run(arguments: argparse.Namespace) -> int:
    """Print how many runs there are, and erase them with `--yes`."""
    try:
        count = asyncio.run(_erased(arguments))
    except KeyturnError as error:
        print_labelled("keyturn erase", str(error))
        return 1
    runs = plural(count, "run")
    print(f"erased {runs}; the digests stay" if arguments.yes else f"{runs} ended before that; --yes erases them")
    return 0


async def _erased(arguments: argparse.Namespace) -> int:
    age = milliseconds(arguments.older_than)
    must_be_there(arguments.url)
    whole: Any = open_journal(arguments.url)
    try:
        await whole.looked_at()
        whole.moved()
        store = whole.of(arguments.tenant)
        at = await store.now() - age
        return await erase_ended(store, at) if arguments.yes else len(await ended_before(store, at))
    finally:
        if hasattr(whole, "close"):
            await whole.close()
