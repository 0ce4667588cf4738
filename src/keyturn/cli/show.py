"""The command `keyturn show` shows a request whole: what would run, why it asks, who may decide, and who did."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from ..console.screen import Terminal
from ..core.errors import KeyturnError
from ..inbox.personal import PersonalInbox
from ..journal.rows import RequestRow
from ..render.terminal import wants_colour
from .deciding.batch import batch_data, batch_of, draw_batch
from .deciding.drawing import (
    beside,
    draw_identical,
    draw_notified,
    draw_request,
    draw_trail,
    notified_data,
    request_data,
    trail_data,
)
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
        draw_request(drawing_to(rows), row, now, facts=facts)
        draw_identical(drawing_to(rows), row, await _identical(inbox, row))
        draw_trail(drawing_to(rows), facts.trail)
        draw_notified(drawing_to(rows), facts.notified, now)
        beside_it = {"trail": trail_data(facts.trail), "notified": notified_data(facts.notified)}
        return Told(rows, request_data(row) | beside_it, drawn=True)

    return run_with_inbox(arguments, "show", work, scope="")


async def _identical(inbox: PersonalInbox, row: RequestRow) -> list[RequestRow]:
    """Return the other open requests of the same call; none where this one is closed, or they may not be listed."""
    if row.state != "open" or row.kind != "approval":
        return []
    with suppress(KeyturnError):
        return [each for each in await inbox.alike(row) if each.id != row.id]
    return []


def drawing_to(rows: list[str]) -> Terminal:
    """Return a terminal that keeps its rows, as wide and as coloured as where they will be printed."""
    width = None if sys.stdout.isatty() else WIDTH
    return Terminal(show=rows.append, colour=wants_colour(sys.stdout), width=width)
