"""What a fleet carries on this machine, and what a cycle costs, as workers, approvers, open requests and streams grow.

    python -m trials.load [--runs N] [--workers N ...] [--approvers N ...] [--pending N ...] [--streams N ...]
                          [--elsewhere N ...] [--into PAGE]

Each row is a fleet of its own on an empty, durable PostgreSQL: `keyturn worker` processes, and one process in which
approvers start runs, decide and wait for the end (`trials/load_desk.py`). One number grows at a time, the others stand
at their base. Processor times are of the processes themselves, so that they say the same on a busy machine; seconds do
not, and the load average stands beside them. The last table has the constants of `trials/fleet_plan.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from msgspec.structs import replace as replaced

from keyturn import Agent, MemoryJournal, Runner
from keyturn.core.seal import body_of
from keyturn.engine.run.open_run import chain_of
from keyturn.journal.base import Lease
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import Changes, RunRow
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.testing.postgres import Postgres, throwaway_postgres

from .fleet_plan import Constants
from .pace import percentile
from .pile import one_waiting, pay, sealed
from .table import grid, put_between

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- written by `make load` -->", "<!-- end of what `make load` writes -->"
_TICK = os.sysconf("SC_CLK_TCK")
_TOGETHER = 500  # so many rows are appended at once
# The files by which the desk is begun, and says what it measured.
BEGUN, GO, TOOK = "begun", "go", "took"


@dataclass(frozen=True)
class Scene:
    """A fleet: how many workers, approvers with a run each, open requests of other runs, and watched runs.

    `elsewhere` are runs that are due, of an agent that none of the workers has.
    """

    workers: int = 2
    approvers: int = 16
    pending: int = 0
    streams: int = 0
    elsewhere: int = 0


#: What is measured where nothing else is asked for.
SERIES = {
    "workers": [1, 2, 4],
    "approvers": [1, 4, 16, 64],
    "pending": [0, 1_000, 10_000, 50_000],
    "streams": [0, 50],
    "elsewhere": [0, 1_000, 10_000],
}


@dataclass(frozen=True)
class Usage:
    """What was used until now: milliseconds of processors, bytes of the WAL, commits, bytes on the disk."""

    postgres: float
    workers: float
    desk: float
    wal: int
    commits: int
    size: int

    def since(self, before: Usage, runs: int) -> Usage:
        """Return what a cycle used."""
        return Usage(*(
            (now - then) / runs if name in ("postgres", "workers", "desk") else (now - then) // runs
            for (name, now), then in zip(vars(self).items(), vars(before).values(), strict=True)
        ))  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A scene, the seconds that its cycles took, and what each used."""

    scene: Scene
    runs: int
    seconds: float
    cycle: Usage
    connections: int
    load: float
    took: dict[str, list[float]]
    bytes_of_one: int

    @property
    def cores(self) -> float:
        """How many processors were at work on average."""
        return (self.cycle.postgres + self.cycle.workers + self.cycle.desk) * self.runs / self.seconds / 1_000

    def row(self) -> list[str]:
        """Return the row of the table."""
        scene, used = self.scene, self.cycle
        times = [f"{percentile(sorted(self.took['tool']), part):,.0f}" for part in (0.5, 0.95)]
        page = f"{percentile(sorted(self.took['page']), 0.5):,.0f}"
        cost = [f"{each:.1f}" for each in (used.postgres, used.workers, used.desk)]
        where = [str(scene.workers), str(scene.approvers), f"{scene.pending:,}", str(scene.streams)]
        where.append(f"{scene.elsewhere:,}")
        rest = [f"{used.commits}", f"{used.wal / 1e3:.1f}", str(self.connections), f"{self.cores:.1f}"]
        return [*where, f"{self.runs / self.seconds:.0f}", *times, page, *cost, *rest, f"{self.load:.0f}"]


HEAD = [
    "workers", "approvers", "open requests", "streams", "due elsewhere", "cycles/s",
    "decision to tool p50, ms", "p95", "page p50, ms",
    "PostgreSQL, ms", "workers, ms", "desk, ms", "transactions", "WAL, kB", "connections", "cores", "load",
]  # fmt: skip


def processor(pid: int, *, ended: bool = False) -> float:
    """Return the milliseconds of processors that a process used, and with `ended` its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:  # it just ended, and its parent counts it
        return 0.0
    return sum(map(int, fields[11 : 15 if ended else 13])) * 1_000 / _TICK


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


class Fleet:
    """The processes of a scene, on a database of their own."""

    def __init__(self, server: Postgres, folder: Path, scene: Scene, runs: int) -> None:
        self.url = server.database()
        self.folder, self.scene, self.runs = folder, scene, runs
        self._server = int((server.directory / "data" / "postmaster.pid").read_text(encoding="ascii").split()[0])
        self._env = {**os.environ, "LOAD_JOURNAL": self.url, "LOAD_FOLDER": str(folder)}
        self._db: Any = psycopg.connect(self.url, autocommit=True)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.desk: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the processes, and end them."""
        worker = ["keyturn.cli.main", "worker", "trials.load_desk:app"]
        self.workers = [self._process(worker) for _ in range(self.scene.workers)]
        desk = ["trials.load_desk", *map(str, (self.runs, self.scene.approvers, self.scene.streams))]
        self.desk = self._process(desk)
        try:
            yield
        finally:
            for each in [*self.workers, self.desk]:
                each.send_signal(signal.SIGTERM)
            for each in [*self.workers, self.desk]:
                each.wait(60)
            self._db.close()

    def _process(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-m", *words], cwd=ROOT, env=self._env, stdout=subprocess.DEVNULL)

    def usage(self) -> Usage:
        """Return what was used until now."""
        assert self.desk is not None
        self._db.execute("SELECT pg_stat_clear_snapshot()")
        facts = self._db.execute(
            "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, xact_commit, "
            "pg_database_size(datname) FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
        postgres = processor(self._server, ended=True) + sum(map(processor, children(self._server)))
        workers = sum(processor(each.pid) for each in self.workers)
        return Usage(postgres, workers, processor(self.desk.pid), *facts)

    def connections(self) -> int:
        """Return how many connections workers and desk have."""
        [count] = self._db.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        ).fetchone()
        return int(count)

    def until(self, there: Callable[[], bool]) -> None:
        """Wait until something is there, which the desk says."""
        assert self.desk is not None
        while not there():
            if self.desk.poll():
                raise SystemExit("the approvers' process failed")
            time.sleep(0.1)

    def piled(self) -> int:
        """Make the open requests of other runs; return how many bytes each has on the disk."""
        count = self.scene.pending + self.scene.elsewhere
        if not count:
            return 0
        asyncio.run(fill(self.url, 1))  # which makes the tables
        before = self._size()
        asyncio.run(fill(self.url, count + 1, due=bool(self.scene.elsewhere)))
        self._db.execute("VACUUM ANALYZE")  # as autovacuum does by and by
        return (self._size() - before) // count

    def _size(self) -> int:
        return int(self._db.execute("SELECT pg_database_size(current_database())").fetchone()[0])


async def fill(url: str, count: int, *, due: bool = False) -> None:
    """Add so many runs that wait for a decision, with the lines and rows that the engine writes.

    Or that are `due`, of an agent that no worker here has.
    """
    store, memory = PostgresJournal(url), MemoryJournal()
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {"to": "ada"})]]), tools=[pay])
    run = (await Runner.run(agent, "go", journal=memory)).run_id
    told = [body_of(line) for line in await memory.read(run)]
    request = await one_waiting(memory)

    def row(number: int) -> tuple[str, Changes]:
        name, at = f"{number:032x}", 1_000_000 + number
        opened = replaced(request, id=f"{number:032x}", run=name, asked_at=at)
        return name, Changes(RunRow(name, "desk", "waiting", at, at, 1), opened=[opened])

    async def write(name: str, changes: Changes) -> None:
        held = None if due else Lease("filler", 60_000, ends=True)  # without one it is due at once
        await store.append(name, 0, list(sealed(chain_of(store, name), told)), None, changes, held)

    begin = 1 if count > 1 else 0
    for first in range(begin, count, _TOGETHER):
        rows = [row(number) for number in range(first, min(first + _TOGETHER, count))]
        await asyncio.gather(*(write(name, changes) for name, changes in rows))
    await store.close()


def measured(server: Postgres, scene: Scene, runs: int) -> Measured:
    """Run a scene."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyturn-load-")))
        fleet = Fleet(server, folder, scene, runs)
        bytes_of_one = fleet.piled()
        stack.enter_context(fleet.running())
        fleet.until((folder / BEGUN).exists)
        time.sleep(2.0)  # workers have begun, and the database has counted what they did for that
        before = fleet.usage()
        (folder / GO).touch()
        connections = [fleet.connections()]
        fleet.until(lambda: connections.append(fleet.connections()) or (folder / TOOK).exists())
        load = os.getloadavg()[0]
        time.sleep(1.5)  # a session counts its commits a second later
        found = json.loads((folder / TOOK).read_bytes())
        used = fleet.usage().since(before, runs)
        return Measured(scene, runs, found.pop("seconds"), used, max(connections), load, found, bytes_of_one)


def scenes(varied: dict[str, list[int]]) -> Iterator[tuple[str, Scene]]:
    """Yield each scene once, with the name of what grows in it."""
    seen = set[Scene]()
    for name, numbers in varied.items():
        for number in numbers:
            scene = replace(Scene(), **{name: number})
            if scene not in seen:
                seen.add(scene)
                yield name, scene


def constants(found: Sequence[Measured]) -> Constants:
    """Return what the plan of larger fleets is computed from: of the scene at the base, and of the largest pile."""
    base = next((each for each in found if each.scene == Scene()), found[0])
    pile = max(found, key=lambda each: each.scene.pending)
    used = base.cycle
    return Constants(
        waiting_bytes=pile.bytes_of_one,
        finished_bytes=used.size,
        wal_bytes=used.wal,
        postgres_ms=round(used.postgres, 1),
        worker_ms=round(used.workers, 1),
        desk_ms=round(used.desk, 1),
    )


def main() -> int:
    """Measure, and print or write the tables."""
    parser = argparse.ArgumentParser(prog="python -m trials.load", description=__doc__)
    parser.add_argument("--runs", type=int, default=400, help="cycles of each fleet (default %(default)s)")
    for name, numbers in SERIES.items():
        parser.add_argument(f"--{name}", type=int, nargs="+", help=f"default: {numbers}, if none of the five is given")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write the tables into this page of the manual")
    given = parser.parse_args()
    chosen = {name: numbers for name in SERIES if (numbers := getattr(given, name))} or SERIES
    found = list[Measured]()
    with throwaway_postgres(durable=True) as server:
        for name, scene in scenes(chosen):
            print(f"{name}: {scene}", file=sys.stderr, flush=True)
            found.append(measured(server, scene, given.runs))
    head = f"By `make load`, {given.runs} cycles of each fleet, on {os.cpu_count()} cores:"
    text = "\n".join([BEGIN, head, "", grid(HEAD, [each.row() for each in found]), END])
    print(text)
    print(constants(found))
    if given.into is not None:
        put_between(given.into, BEGIN, END, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
