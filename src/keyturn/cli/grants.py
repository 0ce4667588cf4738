"""The command `keyturn grants` lists standing decisions: what runs, or is rejected, without anybody being asked."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import msgspec

from ..core.records import GrantTerms
from ..journal.rows import GrantRow, Query
from ..presenting.clock import here
from ..presenting.grant_words import covered_words, reach_words
from ..render.escape import escape, quote
from .finding import find_run
from .seats.base import Seat
from .seats.sitting import run_at
from .with_journal import Told, describe_journal


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("--all", action="store_true", help="include revoked grants")
    parser.add_argument("--run", metavar="RUN", help="only those of this run")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="the most results (default: %(default)s)")
    describe_journal(parser, server=True)


def run(arguments: argparse.Namespace) -> int:
    """List them; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        of_run = None if arguments.run is None else (await find_run(seat.runs, arguments.run)).run
        state = None if arguments.all else "open"
        wanted = Query(run=of_run, state=state, limit=max(arguments.limit, 1))
        found = await (await seat.inbox("")).grant_rows(wanted)
        rows = [" ".join(_parts(row)) for row in found] or ["no grants"]
        return Told(rows, [_data(row) for row in found])

    return run_at(arguments, "grants", work)


def _parts(row: GrantRow) -> Iterator[str]:
    yield f"grant {escape(row.id, keep='')}"
    if row.damaged:
        yield "its row was altered: see keyturn check"
        return
    terms = msgspec.json.decode(row.body, type=GrantTerms)
    yield f"{terms.verdict} {escape(row.tool, keep='')} of {quote(row.agent)}"
    if terms.where is not None:
        yield f"for {covered_words(terms.where)}:"
    yield f"used {row.uses}" if terms.uses is None else f"used {row.uses} of {terms.uses}"
    if terms.expires_at is not None:
        yield f"until {here(terms.expires_at)}"
    yield f"in {reach_words(row.reach).name}, created in run {row.run[:8]}"
    if terms.by:
        yield f"by {quote(terms.by)}"
    if row.revoked:
        yield "revoked"


def _data(row: GrantRow) -> dict[str, Any]:
    told: dict[str, Any] = {} if row.damaged else msgspec.json.decode(row.body)
    counted = {"run": row.run, "tool_name": row.tool, "used": row.uses, "revoked": row.revoked, "damaged": row.damaged}
    return told | {"id": row.id, "agent": row.agent} | counted
