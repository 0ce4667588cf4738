"""The command `keyturn show` shows a request whole: what would run, why it asks, who may decide, and who did."""

from __future__ import annotations

import argparse
import sys

from ..console.screen import Terminal
from ..inbox.personal import PersonalInbox
from ..render.terminal import wants_colour
from .deciding.batch import batch_data, batch_of, draw_batch
from .deciding.drawing import beside, draw_notified, draw_request, draw_trail, notified_data, request_data, trail_data
from .finding import SHORTEST, find_request
from .seats.sitting import run_with_inbox
from .with_journal import Told, describe_journal

#: Columns of what is drawn where nobody has a terminal.
WIDTH = 100


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("request", metavar="REQUEST", help=f"its id, or the first {SHORTEST} or more characters")
    parser.add_argument(
        "--alike", action="store_true", help="show every pending request for the same tool with the same arguments"
    )
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Show it; return 1 where there is none."""

    async def work(inbox: PersonalInbox) -> Told:
        row = await find_request(inbox, arguments.request)
        rows: list[str] = []
        if arguments.alike:
            batch = await batch_of(inbox, row)
            draw_batch(drawing_to(rows), batch, await inbox.now())
            return Told(rows, batch_data(batch), drawn=True)
        facts = await beside(inbox, row)
        now = await inbox.now()
        draw_request(drawing_to(rows), row, now, context=facts.context)
        draw_trail(drawing_to(rows), facts.trail)
        draw_notified(drawing_to(rows), facts.notified, now)
        beside_it = {"trail": trail_data(facts.trail), "notified": notified_data(facts.notified)}
        return Told(rows, request_data(row) | beside_it, drawn=True)

    return run_with_inbox(arguments, "show", work, scope="")


def drawing_to(rows: list[str]) -> Terminal:
    """Return a terminal that keeps its rows, as wide and as coloured as where they will be printed."""
    width = None if sys.stdout.isatty() else WIDTH
    return Terminal(show=rows.append, colour=wants_colour(sys.stdout), width=width)
