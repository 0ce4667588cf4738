"""The command `keyturn fleet` shows the workers of a journal, the runs that are due, and the engine between them.

Nothing is written to the journal.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from ..core.encodable import moment
from ..engine.backlog import LATE_MS, LOOKED_AT, DueGroup, due_groups
from ..journal.optional import ListsWorkers, WorkerRow
from ..presenting.clock import here
from ..render.escape import escape
from ..render.plural import plural
from .doctor_checks import due_words
from .engine import EngineReport, engine_report
from .loading import describe_engine
from .with_journal import Told, describe_journal, describe_url, run_with_journal, url_of

#: How a worker is named: what it is, its process and machine, and an id.
_NAME = re.compile(r"[a-z]+-\d+@(?P<host>.+)-[0-9a-f]{8}(-watched)?")
_ALIVE = {True: "alive", False: "dead", None: "not known to be alive"}


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    describe_url(parser)
    describe_journal(parser)
    describe_engine(parser, "KEYTURN_ENGINE, else journal")


def run(arguments: argparse.Namespace) -> int:
    """Show the fleet; return 1 where the journal cannot be read."""

    async def work(store: Any) -> Told:
        listed = isinstance(store, ListsWorkers)
        workers = await store.workers() if listed else []
        due, now = await due_groups(store), await store.now()
        engine = await engine_report(arguments, url_of(arguments))
        rows = [*_workers(workers, now, listed=listed), *_due(due, workers), engine.row]
        return Told(rows, _data(workers, due, engine, now))

    return run_with_journal(arguments, "fleet", work)


def _workers(workers: list[WorkerRow], now: int, *, listed: bool) -> Iterator[str]:
    if not listed:
        yield "workers: this journal does not list them"
    elif not workers:
        yield "workers: none holds a run or shows that it is alive: keyturn worker module:app"
    for each in workers:
        yield ", ".join(_parts(each, now))


def _parts(worker: WorkerRow, now: int) -> Iterator[str]:
    """Yield what is known of a worker; the name of one has its process and its machine."""
    yield f"worker {escape(worker.name, keep='') or '(name unknown)'}: {_ALIVE[worker.alive]}"
    if not worker.name and worker.host:
        yield f"connected from {escape(worker.host, keep='')}"
    if worker.since is not None:
        yield f"since {here(worker.since)}"
    yield f"holds {plural(worker.runs, 'run')}" if worker.name else "holds no runs of this tenant"
    if worker.until is not None:
        left = (worker.until - now) / 1_000
        yield f"the first lease expires in {left:.0f} s" if left >= 0 else f"its lease expired {-left:.0f} s ago"


def _due(groups: list[DueGroup], workers: list[WorkerRow]) -> Iterator[str]:
    """Yield what is due; of what no worker executes, how it is executed."""
    alive = any(each.alive is not False for each in workers)
    for each in groups:
        late = not alive or each.seconds * 1_000 >= LATE_MS
        yield f"runs: {escape(due_words(each), keep='')}" + (f": {escape(each.remedy, keep='')}" if late else "")
    if not groups:
        yield "runs: none is due"
    elif sum(each.runs for each in groups) >= LOOKED_AT:
        yield f"runs: more may be due; the first {LOOKED_AT} are shown"


def _data(workers: list[WorkerRow], due: list[DueGroup], engine: EngineReport, now: int) -> dict[str, Any]:
    return {
        "workers": [_worker(each, now) for each in workers],
        "due": {
            "runs": sum(each.runs for each in due),
            "oldest_seconds": max((each.seconds for each in due), default=0.0),
            "groups": [each._asdict() | {"remedy": each.remedy} for each in due],
        },
        "engine": engine._asdict(),
    }


def _worker(worker: WorkerRow, now: int) -> dict[str, Any]:
    named = _NAME.fullmatch(worker.name)
    return {
        "name": worker.name,
        "host": named["host"] if named else worker.host,
        "alive": worker.alive,
        "since": None if worker.since is None else f"{moment(worker.since):%Y-%m-%dT%H:%M:%SZ}",
        "runs": worker.runs,
        "lease_seconds": None if worker.until is None else (worker.until - now) / 1_000,
    }
