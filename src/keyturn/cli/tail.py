"""The command `keyturn tail RUN` tells what happened in a run, and with `--follow` what happens, until the run ends.

Exit codes with `--follow`: 0 where the run finished, 1 where it failed or was cancelled. With `--json` each event is a
line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import sys

from ..presenting.clock import hour_here
from .finding import SHORTEST, find_run
from .printing import print_row
from .seats.base import EventLine, Seat
from .seats.sitting import run_at
from .with_journal import describe_journal, print_json


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"the id, or its first {SHORTEST} or more characters")
    parser.add_argument("--follow", "-f", action="store_true", help="keep watching until the run ends")
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """Tell of it; return 1 where there is none, or where it was followed to a bad end."""

    async def work(seat: Seat) -> int:
        row = await find_run(seat.runs, arguments.run)
        async with contextlib.aclosing(seat.runs.lines(row.run, follow=arguments.follow)) as lines:
            async for line in lines:
                for words in line.words:
                    _print(line, words, as_json=arguments.json)
                sys.stdout.flush()
        if not arguments.follow:
            return 0
        return 0 if (await find_run(seat.runs, row.run)).status == "finished" else 1

    return run_at(arguments, "tail", work)


def _print(line: EventLine, words: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"at": f"{line.at:%Y-%m-%dT%H:%M:%SZ}", "event": line.event, "words": words})
    else:
        print_row(f"{hour_here(line.at)} {words}", sys.stdout)
