"""How fast the durable parts are on this machine: cycles a second, and how long a decision takes to reach its tool.

    python -m trials.pace [--runs 500] [--samples 200]

A cycle is a run that starts, asks, is approved through the inbox and ends, with every step durable. A decision's way is
from the call of `approve` to the first line of the tool, with the worker in this process and with one in another.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keyturn import Agent, App, function_tool
from keyturn.journal import open_journal
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from keyturn.testing.postgres import PostgresMissing, throwaway_postgres

from .table import grid

reached: list[float] = []


@function_tool(needs_approval=True)
async def act(stamp: str) -> str:
    """Say when the tool began; the clock is the machine's, so that two processes can compare."""
    reached.append(time.monotonic())
    if stamp:
        with Path(stamp).open("a", encoding="ascii") as stamps:
            stamps.write(f"{time.monotonic()}\n")
    return "acted"


def app(url: str, stamp: str = "", **options: Any) -> App:
    """An app whose runs ask once."""

    def reply(items: Any) -> Any:
        return "done" if tool_outputs(items) else [function_call("act", {"stamp": stamp})]

    return App([Agent("pace", model=ScriptedModel(reply), tools=[act])], open_journal(url), **options)


async def cycles(url: str, runs: int) -> float:
    """Whole cycles a second, many runs at once, everything in one process."""
    async with app(url) as office:
        begun = time.perf_counter()
        started = await asyncio.gather(*(office.start("pace", "go") for _ in range(runs)))
        waiting: list[Any] = []
        while len(waiting) < runs:
            await asyncio.sleep(0.005)
            waiting = list(await office.inbox.list(limit=runs))
        await asyncio.gather(*(office.inbox.approve(row, by="ann") for row in waiting))
        for run in started:
            assert (await run.result(120)).final_output == "done"
        return runs / (time.perf_counter() - begun)


async def ways(url: str, samples: int, stamps: Path | None) -> list[float]:
    """Seconds from a decision to its tool, one at a time; `stamps` is where another process's worker writes."""
    office = app(url, "" if stamps is None else str(stamps), worker=stamps is None)
    taken: list[float] = []
    for _ in range(samples):
        reached.clear()
        run = await office.start("pace", "go")
        assert (await run.wait(60)).status == "waiting"
        [row] = await office.inbox.list()
        begun = time.monotonic()
        await office.inbox.approve(row, by="ann")
        assert (await run.result(60)).final_output == "done"
        taken.append((reached[0] if stamps is None else _last(stamps)) - begun)
    await office.stop()
    return sorted(taken)


def _last(stamps: Path) -> float:
    return float(stamps.read_text(encoding="ascii").split()[-1])


@contextmanager
def worker(url: str, stamps: Path) -> Iterator[None]:
    """A worker in a process of its own."""
    command = [sys.executable, "-m", "trials.pace", "--work", url, "--stamps", str(stamps)]
    with subprocess.Popen(command) as working:
        try:
            yield
        finally:
            working.terminate()


def percentile(sorted_times: list[float], share: float) -> float:
    """The time within which that share of all was done, in milliseconds."""
    return sorted_times[min(int(len(sorted_times) * share), len(sorted_times) - 1)] * 1e3


def measured(name: str, url: Any, options: argparse.Namespace, folder: Path) -> list[str]:
    """One row: cycles a second, and how long a decision takes, here and elsewhere."""
    pace = asyncio.run(cycles(url("cycles"), options.runs))
    here = asyncio.run(ways(url("here"), options.samples, None))
    stamps, place = folder / f"{name}.stamps", url("elsewhere")
    with worker(place, stamps):
        elsewhere = asyncio.run(ways(place, options.samples, stamps))
    times = [f"{percentile(each, share):.1f}" for each in (here, elsewhere) for share in (0.5, 0.99)]
    return [name, f"{pace:,.0f}", *times]


def main() -> None:
    """Measure both stores and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500, help="how many runs are cycled")
    parser.add_argument("--samples", type=int, default=200, help="how many decisions are timed")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--stamps", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        asyncio.run(app(options.work, options.stamps or "").work())
        return
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines.append(measured("SQLite", lambda what: f"sqlite:///{folder}/{what}.db", options, folder))
        try:
            with throwaway_postgres(durable=True) as postgres:
                lines.append(measured("PostgreSQL", lambda _what: postgres.database(), options, folder))
        except PostgresMissing as error:
            print(f"no PostgreSQL here: {error}", file=sys.stderr)
    head = ["store", "cycles a second", "decision to tool p50, ms", "p99, ms", "in another process p50, ms", "p99, ms"]
    print(grid(head, lines))


if __name__ == "__main__":
    main()
