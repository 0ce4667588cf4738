"""The command `keyturn show` shows a request whole: what would run, why it asks, who may decide, and who did."""

from __future__ import annotations

import argparse
import sys

from ..console.screen import Terminal
from ..inbox.desk import Inbox
from ..render.terminal import wants_colour
from .deciding.drawing import draw_request, request_data
from .finding import SHORTEST, find_request
from .with_journal import Told, describe_journal, run_with_inbox

#: Columns of what is drawn where nobody has a terminal.
WIDTH = 100


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("request", metavar="REQUEST", help=f"its id, or the first characters of it, {SHORTEST} or more")
    describe_journal(parser, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Show it; return 1 where there is none."""

    async def work(inbox: Inbox) -> Told:
        row = await find_request(inbox, arguments.request)
        rows: list[str] = []
        draw_request(drawing_to(rows), row, await inbox.now())
        return Told(rows, request_data(row), drawn=True)

    return run_with_inbox(arguments, "show", work)


def drawing_to(rows: list[str]) -> Terminal:
    """Return a terminal that keeps its rows, as wide and as coloured as where they will be printed."""
    width = None if sys.stdout.isatty() else WIDTH
    return Terminal(show=rows.append, colour=wants_colour(sys.stdout), width=width)
