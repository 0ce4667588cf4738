"""The command `keyturn requests` lists pending requests, the oldest first."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from ..directory.people import DECIDE
from ..journal.rows import Query, RequestRow
from ..presenting.asking import approvals
from ..presenting.trail import TrailMark
from ..render.escape import escape, quote
from ..render.one_row import arguments_row
from .deciding.drawing import STATES, beside, request_data
from .finding import SHORT, find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal

_ROOM = 80  # characters of the arguments
_KINDS = {"in_doubt": "in doubt", "external": "asks"}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--all", action="store_true", help="include decided and expired requests")
    parser.add_argument("--tool", metavar="NAME", help="only calls of this tool")
    parser.add_argument("--agent", metavar="NAME", help="only calls of this agent")
    parser.add_argument("--run", metavar="RUN", help="only those of this run")
    parser.add_argument(
        "--mine", action="store_true", help="only requests that you may decide and did not snooze (see --as)"
    )
    parser.add_argument("--unclaimed", action="store_true", help="only requests that no approver claimed")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="the most results (default: %(default)s)")
    describe_journal(parser, people=True, server=True)


def run(arguments: argparse.Namespace) -> int:
    """List them; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        inbox = await seat.inbox(DECIDE if arguments.mine else "")
        of_run = None if arguments.run is None else (await find_run(seat.runs, arguments.run)).run
        limit = max(arguments.limit, 1)
        state = None if arguments.all else "open"
        wanted = Query(state=state, tool=arguments.tool, agent=arguments.agent, run=of_run, limit=limit + 1)
        found = list(await inbox.page(wanted, mine=arguments.mine, unclaimed=arguments.unclaimed))
        now = await inbox.now()
        edits = {row.id: _edited((await beside(inbox, row)).trail) for row in found[:limit] if row.state == "edit"}
        rows = [_line(row, now, edits.get(row.id, "")) for row in found[:limit]] or ["no pending requests"]
        if len(found) > limit:
            rows.append(f"more results: --limit {limit * 2}")
        return Told(rows, [request_data(row) for row in found[:limit]])

    return run_at(arguments, "requests", work)


def _edited(trail: Sequence[TrailMark]) -> str:
    """Return what a person made of the arguments, as the last edit of a trail has it."""
    return next((str(mark.text) for mark in reversed(trail) if mark.kind == "edit"), "")


def _line(row: RequestRow, now: int, edited: str = "") -> str:
    return f"{' '.join(_call(row))}{', '.join(_state(row, now, edited))}"


def _call(row: RequestRow) -> Iterator[str]:
    yield row.id[:SHORT]
    if row.state == "damaged":
        yield "its row was altered: see keyturn check, and keyturn show for its log"
        return
    yield f"{_KINDS.get(row.kind, '')} {escape(row.tool, keep='')}".strip()
    given: Any = row.request.requests if row.kind == "external" else row.params
    if given:
        yield arguments_row(given, _ROOM)
    yield f"of {quote(row.agent)}, "


def _state(row: RequestRow, now: int, edited: str) -> Iterator[str]:
    if row.state == "damaged":
        return
    if row.state != "open":
        by = row.by if row.by not in ("clock", "") else None
        said = f"{STATES.get(row.state, row.state)}{f' by {quote(by)}' if by else ''}"
        yield f"{said} ({edited})" if edited else said
        return
    yield f"requested {_length(now - row.asked_at)} ago"
    if row.expires_at is not None:
        left = row.expires_at - now
        yield f"expires in {_length(left)}" if left > 0 else "expired"
    terms = row.request.terms
    if terms is not None and terms.quorum > 1:
        yield f"{approvals(row.request)} of {terms.quorum} approvals"
    if claimed := row.request.claimed_by(now):
        yield f"claimed by {quote(claimed)}"


def _length(milliseconds: int) -> str:
    """Say in the largest unit that fits how long something takes."""
    seconds = max(milliseconds, 0) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size * 2:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
