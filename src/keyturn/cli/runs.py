"""The command `keyturn runs` lists a journal's runs, newest first, and says of one of them why it stopped, and where.

Nothing is written.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ..core.errors import KeyturnError, RunMissing
from ..engine.run.log_cache import log_in
from ..engine.views.rows import rows_in
from ..journal import open_journal
from ..journal.base import Store
from ..journal.rows import Query, RunRow
from ..render.escape import escape, quote
from .printing import must_be_there, print_labelled, print_row

_STATUSES = ("running", "waiting", "finished", "failed", "cancelled", "erased", "damaged")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("url", metavar="URL", help="the journal, such as sqlite:///runs.db")
    parser.add_argument("run", metavar="RUN", nargs="?", help="tell of this run alone, with what stopped it and where")
    parser.add_argument("--status", choices=_STATUSES, help="list these only")
    parser.add_argument("--agent", metavar="NAME", help="list those that began with this agent only")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many at most (default: %(default)s)")
    parser.add_argument("--tenant", default="default", metavar="NAME", help="whose runs (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """List runs, or tell of one; return 1 where that cannot be done."""
    try:
        rows = asyncio.run(_told(arguments))
    except KeyturnError as error:
        print_labelled("keyturn runs", str(error))
        return 1
    for row in rows:
        print_row(row, sys.stdout)
    return 0


async def _told(arguments: argparse.Namespace) -> list[str]:
    must_be_there(arguments.url)
    whole: Any = open_journal(arguments.url)
    try:
        store = whole.of(arguments.tenant)
        if arguments.run is not None:
            return await _of_one(store, arguments.run)
        wanted = Query(state=arguments.status, agent=arguments.agent, limit=max(arguments.limit, 1), newest=True)
        found = await store.runs(wanted)
        return [_line(row) for row in found] or ["no runs"]
    finally:
        if hasattr(whole, "close"):
            await whole.close()


async def _of_one(store: Store, run_id: str) -> list[str]:
    found = await store.runs(Query(run=run_id))
    if not found:
        raise RunMissing(run_id)
    row = found[0]
    if row.status == "erased":
        return [_line(row)]
    log = await log_in(store, run_id)
    if row.status == "damaged":  # the log says what it was
        row = (await rows_in(store, run_id)).run
    return [_line(row), *(f"  | {escape(line, keep='')}" for line in log.run.traceback.splitlines())]


def _line(row: RunRow) -> str:
    return " ".join(_parts(row))


def _parts(row: RunRow) -> Iterator[str]:
    yield f"run {escape(row.run, keep='')}"
    yield datetime.fromtimestamp(row.started_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    yield row.status
    if row.status == "damaged":
        yield "its row was altered: keyturn check says more, and naming the run shows what its log says"
        return
    yield f"agent {quote(row.agent)}"
    yield f"turns {row.turns}"
    if row.waiting:
        yield f"waiting calls {row.waiting}"
    if row.error:
        yield f"because {escape(row.error, keep='')}"
