"""How long a new worker takes to classify what a killed one had in flight.

    python -m trials.recovery [--runs 1000]

A process has all the runs in flight at once, and is ended with SIGKILL. Of ten runs, six are inside a tool that acted,
two inside an idempotent one that acted, and two wait for their model. Another process takes over, timed until the
first are in doubt and in the inbox, the second were run again with the same key, the third have acted, and all of these
are over. A dead worker's claims run out after a minute: its successor's clock is ahead by that minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from keyturn import Agent, App, ToolContext, function_tool
from keyturn.audit.checker import check
from keyturn.engine.driving.lease import TTL_MS
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text, tool_outputs

from .table import grid

KINDS = ("act", "act", "act", "again", "think", "act", "act", "act", "again", "think")
PATIENCE = 300.0


class Recovered(NamedTuple):
    """What a successor came to: seconds of its worker, and how many runs ended how."""

    seconds: float
    doubts: int
    finished: int


class Life:
    """One process's agents: in the first life everything that is begun hangs, in the second nothing does."""

    def __init__(self, folder: Path, *, first: bool, runs: int = 0) -> None:
        self.first, self._left, self.all_in_flight = first, runs, asyncio.Event()
        self._effects = os.open(folder / "effects", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        ahead = 0 if first else TTL_MS + 1_000
        self.journal = SQLiteJournal(folder / "runs.db", clock=lambda: time.time_ns() // 1_000_000 + ahead)
        agents = [self._agent(kind) for kind in set(KINDS)]
        # All are moved at once where they are to be in flight, and as many as by default where they are timed.
        self.app = App(agents, self.journal, slots=runs) if first else App(agents, self.journal, worker=False)

    def _agent(self, kind: str) -> Agent[Any]:
        @function_tool(idempotent=kind == "again")
        async def act(context: ToolContext[Any]) -> str:
            """Act, and say so in one write."""
            os.write(self._effects, f"{kind} {context.run_id} {context.idempotency_key}\n".encode())
            await self._begun()
            return "acted"

        async def reply(items: Any) -> Any:
            if tool_outputs(items):
                return "done"
            if last_user_text(items) == "think":
                await self._begun()
            return [function_call("act", {})]

        return Agent(kind, model=ScriptedModel(reply), tools=[act])

    async def _begun(self) -> None:
        if not self.first:
            return
        self._left -= 1
        if self._left == 0:
            self.all_in_flight.set()
        await asyncio.Event().wait()


async def live(folder: Path, runs: int) -> None:
    """Have all of them in flight, say so, and wait to be killed."""
    life = Life(folder, first=True, runs=runs)
    kinds = [KINDS[number % len(KINDS)] for number in range(runs)]
    await asyncio.gather(*(life.app.start(kind, kind) for kind in kinds))
    await life.all_in_flight.wait()
    print("all in flight", flush=True)
    await asyncio.Event().wait()


async def recover(folder: Path, runs: int) -> Recovered:
    """Take over what another process left, until each run is over or in the inbox."""
    life, begun = Life(folder, first=False), time.perf_counter()
    working = asyncio.ensure_future(life.app.work())
    while True:
        await asyncio.sleep(0.01)
        if life.app.busy:
            continue
        doubts = await life.app.inbox.list(Query(state="open", kind="in_doubt", limit=runs))
        finished = await life.app.runs(Query(state="finished", limit=runs))
        if len(doubts) + len(finished) >= runs:
            break
        assert time.perf_counter() - begun < PATIENCE, f"{len(doubts)} in doubt, {len(finished)} over, of {runs}"
    seconds = time.perf_counter() - begun
    await life.app.stop()
    await working
    await life.journal.close()
    return Recovered(seconds, len(doubts), len(finished))


def command(what: str, folder: Path, runs: int) -> list[str]:
    """This program as another process."""
    return [sys.executable, "-m", "trials.recovery", what, str(folder), "--runs", str(runs)]


def killed(folder: Path, runs: int) -> None:
    """A process that is ended while it has all of them in flight."""
    with subprocess.Popen(command("--live", folder, runs), stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout is not None
        try:
            assert living.stdout.readline() == "all in flight\n"
        finally:
            living.kill()


def judged(folder: Path, runs: int, recovered: Recovered) -> None:
    """All are classified, each rightly, and nothing acted twice but what may."""
    kinds = Counter(KINDS[number % len(KINDS)] for number in range(runs))
    assert (recovered.doubts, recovered.finished) == (kinds["act"], kinds["again"] + kinds["think"]), recovered
    acted = Counter((folder / "effects").read_text(encoding="ascii").splitlines())
    times = Counter((line.partition(" ")[0], count) for line, count in acted.items())
    due = Counter({("act", 1): kinds["act"], ("again", 2): kinds["again"], ("think", 1): kinds["think"]})
    assert times == due, times
    report = asyncio.run(check(SQLiteJournal(folder / "runs.db")))
    assert report.ok, report.violations


def measure(runs: int) -> list[str]:
    """One row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        killed(folder, runs)
        begun = time.perf_counter()
        said = subprocess.run(command("--recover", folder, runs), stdout=subprocess.PIPE, text=True, check=True)
        whole = time.perf_counter() - begun
        recovered = Recovered(*json.loads(said.stdout))
        judged(folder, runs, recovered)
    counts = [runs, recovered.doubts, recovered.finished]
    return [*(f"{count:,}" for count in counts), f"{recovered.seconds:.2f}", f"{whole:.2f}"]


def main() -> None:
    """Kill, take over, print."""
    parser = argparse.ArgumentParser(description="How long a new worker takes to classify what a killed one left.")
    parser.add_argument("--runs", type=int, default=1000, help="how many runs are in flight (default: %(default)s)")
    parser.add_argument("--live", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--recover", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live is not None:
        asyncio.run(live(options.live, options.runs))
    elif options.recover is not None:
        print(json.dumps(asyncio.run(recover(options.recover, options.runs))))
    else:
        head = ["in flight", "in doubt, shown", "gone on to the end", "worker, s", "its process, s"]
        print(grid(head, [measure(options.runs)]))


if __name__ == "__main__":
    main()
