"""The command `keyturn runs` lists a journal's runs, newest first, and says of one of them why it stopped, and where.

Nothing is written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from ..core.encodable import moment
from ..engine.driving.quota_logs import AGENT as COUNTING
from ..engine.session.owner import AGENT as OWNERS
from ..journal.rows import Query, RunRow
from ..presenting.clock import here
from ..render.escape import escape, quote
from .finding import every_row, find_run
from .printing import print_labelled
from .seats.base import RunsSeat, Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal

_STATUSES = ("queued", "running", "waiting", "finished", "failed", "set_aside", "cancelled", "erased", "damaged")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument(
        "what",
        metavar="[URL] [RUN]",
        nargs="*",
        help="the journal, such as sqlite:///runs.db, and a run: show why and where it stopped",
    )
    parser.add_argument("--all", action="store_true", help="include the logs of quotas that span several runs")
    parser.add_argument("--status", choices=_STATUSES, help="only runs with this status")
    parser.add_argument("--agent", metavar="NAME", help="only runs that started with this agent")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="the most results (default: %(default)s)")
    describe_journal(parser, server=True)


def run(arguments: argparse.Namespace) -> int:
    """List runs, or tell of one; return 1 where that cannot be done."""
    named: list[str] = list(arguments.what)
    if named and "://" in named[0]:
        arguments.journal = named.pop(0)
    if len(named) > 1:
        print_labelled("keyturn runs", "name one journal and one run at most")
        return 2

    async def work(seat: Seat) -> Told:
        if named:
            return await _of_one(seat.runs, named[0])
        found = await _listed(seat.runs, arguments)
        return Told([_line(row) for row in found] or ["no runs"], [_data(row) for row in found])

    return run_at(arguments, "runs", work)


async def _listed(runs: RunsSeat, arguments: argparse.Namespace) -> list[RunRow]:
    """Return the runs that are asked for, the newest first; a log that counts is none, unless it is asked for."""
    limit = max(arguments.limit, 1)
    wanted = Query(state=arguments.status, agent=arguments.agent, limit=limit, newest=True)
    if arguments.all or arguments.agent is not None:
        return list(await runs.runs(wanted))
    found: list[RunRow] = []
    async for row in every_row(runs.runs, wanted, lambda row: (row.started_at, row.run)):
        found += [row] if row.agent not in (COUNTING, OWNERS) else []
        if len(found) == limit:
            break
    return found


async def _of_one(runs: RunsSeat, given: str) -> Told:
    row, traceback = await runs.story(await find_run(runs, given))
    if row.status == "erased":
        return Told([_line(row)], _data(row))
    raised = [f"  | {escape(line, keep='')}" for line in traceback.splitlines()]
    return Told([_line(row), *raised], _data(row) | {"traceback": traceback})


def _data(row: RunRow) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.structs.asdict(row)
    return told | {name: f"{moment(told[name]):%Y-%m-%dT%H:%M:%SZ}" for name in ("started_at", "updated_at")}


def _line(row: RunRow) -> str:
    return " ".join(_parts(row))


def _parts(row: RunRow) -> Iterator[str]:
    yield f"run {escape(row.run, keep='')}"
    yield here(row.started_at)
    yield row.status
    if row.status == "damaged":
        yield "its row was altered: see keyturn check, and name the run to see its log"
        return
    yield f"agent {quote(row.agent)}"
    yield f"turns {row.turns}"
    if row.waiting:
        yield f"waiting calls {row.waiting}"
    if row.error:
        yield f"because {escape(row.error, keep='')}"
