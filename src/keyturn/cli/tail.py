"""The command `keyturn tail RUN` tells what happened in a run, and with `--follow` what happens, until the run ends.

Exit codes with `--follow`: 0 where the run finished, 1 where it failed or was cancelled. With `--json` each event is a
line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from datetime import datetime
from typing import Any

from ..core.codec import Log
from ..core.encodable import moment
from ..core.states import OVER
from ..directory.people import People
from ..directory.reads import Reads
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import chain_of
from ..inbox.event_words import Teller
from ..journal.base import Store
from .finding import SHORTEST, find_run
from .printing import print_row
from .with_journal import describe_journal, print_json, reader_of, run_with_journal

_ENDED = (*OVER, "failed")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the run ends")
    describe_journal(parser, people=True)


def run(arguments: argparse.Namespace) -> int:
    """Tell of it; return 1 where there is none, or where it was followed to a bad end."""

    async def work(store: Any) -> int:
        row = await find_run(store, arguments.run)
        people = People(store)
        await Reads(store, people).note(await reader_of(people, arguments), "log", what=row.run)
        await log_in(store, row.run)  # refused whole where a line is not the one that was written
        tail = _Tail(Log(chain=chain_of(store, row.run)), as_json=arguments.json)
        for line in await store.read(row.run):
            tail.tell(line)
        return await tail.follow(store, row.run) if arguments.follow else 0

    return run_with_journal(arguments, "tail", work)


class _Tail:
    """Prints the events of a run as its lines come."""

    def __init__(self, log: Log, *, as_json: bool) -> None:
        self._log = log
        self._as_json = as_json
        self._teller = Teller()

    async def follow(self, store: Store, run: str) -> int:
        async with contextlib.aclosing(store.watch(run, len(self._log))) as lines:
            while self._log.run.status not in _ENDED:
                self.tell(await anext(lines))
        return 0 if self._log.run.status == "finished" else 1

    def tell(self, line: bytes) -> None:
        for step in self._log.extend([line]):
            at = moment(step.at)
            for event in step.events:
                for words in self._teller.rows(self._log.run, event):
                    self._print(at, type(event).__name__, words)
        sys.stdout.flush()

    def _print(self, at: datetime, event: str, words: str) -> None:
        if self._as_json:
            print_json({"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "event": event, "words": words})
        else:
            print_row(f"{at:%H:%M:%S} {words}", sys.stdout)
