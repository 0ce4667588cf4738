"""The command `keyturn tail RUN` tells what happened in a run, and with `--follow` what happens, until the run ends.

Exit codes with `--follow`: 0 where the run finished, 1 where it failed or was cancelled. With `--json` each event is a
line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

from ..core.codec import Log
from ..core.encodable import moment
from ..core.events import Step
from ..core.run import Run
from ..core.states import OVER
from ..engine.run.log_cache import log_in
from ..engine.run.open_run import chain_of
from ..journal.base import Store
from .event_words import event_rows
from .finding import SHORTEST, find_run
from .printing import print_row
from .with_journal import describe_journal, print_json, run_with_journal

_ENDED = (*OVER, "failed")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("run", metavar="RUN", help=f"its id, or the first {SHORTEST} or more characters of it")
    parser.add_argument("--follow", "-f", action="store_true", help="go on until the run ends")
    describe_journal(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell of it; return 1 where there is none, or where it was followed to a bad end."""

    async def work(store: Any) -> int:
        row = await find_run(store, arguments.run)
        await log_in(store, row.run)  # refused whole where a line is not the one that was written
        log = Log(chain=chain_of(store, row.run))
        for line in await store.read(row.run):
            _tell(log, line, as_json=arguments.json)
        if not arguments.follow:
            return 0
        return await _follow(store, row.run, log, as_json=arguments.json)

    return run_with_journal(arguments, "tail", work)


async def _follow(store: Store, run: str, log: Log, *, as_json: bool) -> int:
    async with contextlib.aclosing(store.watch(run, len(log))) as lines:
        while log.run.status not in _ENDED:
            _tell(log, await anext(lines), as_json=as_json)
    return 0 if log.run.status == "finished" else 1


def _tell(log: Log, line: bytes, *, as_json: bool) -> None:
    for step in log.extend([line]):
        _print(log.run, step, as_json=as_json)
    sys.stdout.flush()


def _print(run: Run, step: Step, *, as_json: bool) -> None:
    for event in step.events:
        for words in event_rows(run, event):
            if as_json:
                at = f"{moment(step.at):%Y-%m-%dT%H:%M:%SZ}"
                print_json({"at": at, "event": type(event).__name__, "words": words})
            else:
                print_row(f"{moment(step.at):%H:%M:%S} {words}", sys.stdout)
