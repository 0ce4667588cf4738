"""The command `keyturn run module:app AGENT INPUT` starts a run, and with `--wait` goes on with it until it stops.

Without `--wait` a worker goes on with it; at a server, the server does in any case.

Exit codes with `--wait`: 0 where it finished, 3 where it requires a decision or
was not there yet in time, 1 where it failed or was cancelled.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from ..core.durations import milliseconds
from ..core.errors import UserError
from ..core.priorities import PRIORITIES
from ..journal.rows import RequestRow, RunRow
from ..render.escape import escape, quote
from .finding import SHORT
from .printing import print_labelled
from .seats.base import RunStart, Seat, SeatOutcome
from .seats.sitting import run_at
from .with_journal import Told, describe_json, describe_server

_WAITS = 3


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "what",
        metavar="[MODULE:NAME] AGENT INPUT",
        nargs="+",
        help="the app (omit it with --server), the agent's name, and the input",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the run ends or requires an approval")
    parser.add_argument("--timeout", metavar="DURATION", help="the longest wait: 90s, 5m (default: no limit)")
    parser.add_argument("--requester", metavar="USER", help="the user that the run is for")
    parser.add_argument("--session", metavar="ID", help="the session to continue")
    parser.add_argument(
        "--priority", choices=PRIORITIES, default="normal", help="how soon to execute it (default: %(default)s)"
    )
    describe_json(parser)
    describe_server(parser, "an app")


def run(arguments: argparse.Namespace) -> int:
    """Start a run, and tell how it stands."""
    if len(arguments.what) not in (2, 3):
        print_labelled("keyturn run", "pass the app, the agent and the input: module:app AGENT INPUT")
        return 2
    *where, agent, asked = arguments.what
    arguments.app = where[0] if where else None
    start = RunStart(agent, asked, arguments.requester, arguments.session, arguments.priority)

    async def work(seat: Seat) -> Told:
        seconds = None if arguments.timeout is None else milliseconds(arguments.timeout) / 1000
        if arguments.wait:
            return _waited(await seat.runs.carry(start, seconds))
        row = await seat.runs.start(start)
        said = [f"run {row.run} is queued, to be executed by {seat.runs.mover}"]
        return Told(said, {"run": row.run, "status": row.status})

    return run_at(arguments, "run", work)


def _waited(came: SeatOutcome) -> Told:
    row = came.row
    if came.goes_on:
        return Told([f"run {row.run} {row.status}, not finished yet"], {"run": row.run, "status": row.status}, _WAITS)
    codes = {"finished": 0, "waiting": _WAITS}
    waiting = [each.id for each in came.waiting]
    data = {"run": row.run, "status": row.status, "error": row.error, "requests": waiting}
    rows = list(_rows(row, came.output, list(came.waiting)))
    return Told(rows, data | {"output": _plain(came.output)}, codes.get(row.status, 1))


def _rows(row: RunRow, output: object, waiting: list[RequestRow]) -> Iterator[str]:
    yield f"run {row.run} {row.status}"
    if row.error:
        yield f"because {escape(row.error, keep='')}"
    for each in waiting:
        yield f"request {each.id[:SHORT]} for {escape(each.tool, keep='')} of {quote(each.agent)}"
    if output is not None:
        for line in _text(output).split("\n"):
            yield f"| {escape(line, keep='')}"


def _text(output: object) -> str:
    return output if isinstance(output, str) else json.dumps(_plain(output), ensure_ascii=False)


def _plain(output: object) -> Any:
    """Return a final answer as plain data; what is none is its own text."""
    try:
        return json.loads(json.dumps(output, default=_dumped))
    except (TypeError, ValueError, UserError):
        return str(output)


def _dumped(value: Any) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)
