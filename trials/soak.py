"""A fleet under faults for some minutes: three workers, two processes that start runs and decide, one PostgreSQL.

    python -m trials.soak [--minutes 10] [--engine journal|dbos|temporal] [--seed N] [--rate N] [--pooled]

One of the starters is a client of two `keyturn serve`. All reach the database through a relay, with `--pooled` through
pgbouncer as well. Every few seconds, drawn by the seed: a worker, a starter or a server is ended with SIGKILL and
started again, a worker stands still past its lease (SIGSTOP) and continues, the database is stopped with `pg_ctl -m
immediate` and started, a standby is promoted, with and without the last commits, all connections are cut, answers to
COMMIT are lost, or Temporal's server is started anew without what it had. What was committed in the last moments before
a promotion with lag may be lost; who decides then looks whether a call has had its effect. Then the faults end, and
what is open has two minutes to end. Violations: what `keyturn check` finds, a run that was started and is lost or does
not end, and a call that had its effect twice. Takeover is from the fault until no run is held by that worker. Exit code
1 where there is a violation.
"""
# pyright: reportPrivateUsage=false
# A free port, as the server of tests finds one.

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from keyturn import App, KeyturnError
from keyturn.audit.checker import check
from keyturn.fleet import engine_named
from keyturn.journal.postgres import PostgresJournal
from keyturn.journal.rows import RunRow
from keyturn.testing.postgres import _free_port, throwaway_postgres

from .soak_found import Found, table
from .soak_net import Relay, pooled, port_of, served, through
from .soak_standby import Cluster

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("journal", "dbos", "temporal")
WORKERS, STARTERS, SERVERS = 3, 2, 2
PATIENCE = 120.0
PAUSE = (2.0, 5.0)
_HELD = "SELECT count(*) FROM runs WHERE holder LIKE %s AND left(run, 1) <> '@'"


class Fleet:
    """The processes of a soak: each is started again under its place when it ended."""

    def __init__(self, folder: Path, database: Cluster, url: str, engine: tuple[str, str], rate: float) -> None:
        self.folder, self.database = folder, database
        self.engine, self._rate = engine, rate
        self.servers: list[subprocess.Popen[bytes]] = []
        self._ports = [_free_port() for _ in range(SERVERS)]
        self.workers: list[subprocess.Popen[bytes]] = []
        self.starters: list[subprocess.Popen[bytes]] = []
        name, address = engine
        self._env = {**os.environ, "SOAK_JOURNAL": url, "SOAK_FOLDER": str(folder), "KEYTURN_ENGINE": name}
        self._env |= {"KEYTURN_ENGINE_URL": address} if address else {}
        self._log = (folder / "log").open("ab")

    async def begin(self) -> None:
        app = App([], PostgresJournal(self.url), worker=False)
        await app.people.start("ada")
        await app.people.add("bot", kind="machine", by="ada")
        tokens = [await app.people.issue_token("bot", ["run", "read"], by="ada")]
        tokens.append(await app.people.issue_token("ada", ["decide", "read"], by="ada"))
        await app.journal.close()
        self._env["SOAK_TOKENS"] = " ".join(tokens)
        self.servers = [self._serving(place) for place in range(SERVERS)]
        self.workers = [self._worker() for _ in range(WORKERS)]
        self.starters = [self._starter(place) for place in range(STARTERS)]

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._process("keyturn.cli.main", "worker", "trials.soak_desk:app")

    def _starter(self, place: int) -> subprocess.Popen[bytes]:
        url = [f"http://127.0.0.1:{self._ports[place % SERVERS]}"] if place else []
        return self._process("trials.soak_desk", f"starter{place}", str(self._rate / STARTERS), *url)

    def _serving(self, place: int) -> subprocess.Popen[bytes]:
        port = str(self._ports[place])
        return self._process("keyturn.cli.main", "serve", "trials.soak_desk:app", "--no-worker", "--port", port)

    def _process(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", *words], cwd=ROOT, env=self._env, stdout=subprocess.DEVNULL, stderr=self._log
        )

    def revive(self) -> int:
        """Start again, as an init system does, what could not begin without its database; return how many."""
        gone = [place for place, worker in enumerate(self.workers) if worker.poll() is not None]
        for place in gone:
            self.workers[place] = self._worker()
        lost = [place for place, starter in enumerate(self.starters) if starter.poll() is not None]
        for place in lost:
            self.starters[place] = self._starter(place)
        down = [place for place, server in enumerate(self.servers) if server.poll() is not None]
        for place in down:
            self.servers[place] = self._serving(place)
        return len(gone) + len(lost) + len(down)

    def kill_worker(self, place: int) -> int:
        """End a worker with SIGKILL, and start another one; return the process id of the dead one."""
        dead = self.workers[place]
        dead.kill()
        dead.wait()
        self.workers[place] = self._worker()
        return dead.pid

    def kill_starter(self, place: int) -> None:
        self.starters[place].kill()
        self.starters[place].wait()
        self.starters[place] = self._starter(place)

    def kill_server(self, place: int) -> None:
        self.servers[place].kill()
        self.servers[place].wait()
        self.servers[place] = self._serving(place)

    @property
    def url(self) -> str:
        """Return the database's own address, where it is now."""
        return self.database.url

    def cut_connections(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def end(self) -> list[int]:
        """Let all end as an operator does; return the exit codes of those that did not end well."""
        every = [each for each in (*self.starters, *self.servers, *self.workers) if each.poll() is None]
        for process in every:
            process.send_signal(signal.SIGTERM)
        codes = list[int]()
        for process in every:
            try:
                codes.append(process.wait(60))
            except subprocess.TimeoutExpired:
                process.kill()
                codes.append(process.wait())
        self._log.close()
        return [code for code in codes if code not in (0, -signal.SIGTERM)]  # one that just began ends by the signal

    def held_by(self, process: int) -> int:
        """How many runs a worker's process holds."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=5) as db:
            row = db.execute(_HELD, [f"worker-{process}@%"]).fetchone()
            return 0 if row is None else int(row[0])


class Soak:
    """Draws faults, one after another, and measures how long takeovers take."""

    def __init__(self, fleet: Fleet, relay: Relay, anew: Callable[[], Any] | None, seed: int) -> None:
        self.fleet, self.found = fleet, Found()
        self._relay, self._anew = relay, anew
        self._draw = random.Random(seed)
        self._lost_runs = set[str]()
        self._measuring: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        """Do faults for so long, from the first effect on."""
        while not (self.fleet.folder / "paid").exists():
            await asyncio.sleep(0.1)
        faults: list[Callable[[], Any]] = [self._killed, self._killed, self._starter, self._still, self._stopped]
        faults += [
            self._promoted,
            self._behind,
            self._cut,
            self._server,
            self._lost,
            *([] if self._anew is None else [self._engine_anew]),
        ]
        ends = time.monotonic() + seconds
        todo = list[Callable[[], Any]]()
        while time.monotonic() < ends:
            await asyncio.sleep(self._draw.uniform(*PAUSE))
            self.found.revived += self.fleet.revive()
            if not todo:  # each kind comes as often, in an order that is drawn
                todo = self._draw.sample(faults, len(faults))
            await todo.pop()()
        if self._measuring:
            await asyncio.wait(self._measuring)

    async def _killed(self) -> None:
        place = self._draw.randrange(WORKERS)
        held = await self._held(self.fleet.workers[place].pid)
        self._measure("worker killed", self.fleet.kill_worker(place), held)

    async def _starter(self) -> None:
        self.found.faults["starter killed"] += 1
        self.fleet.kill_starter(self._draw.randrange(STARTERS))

    async def _server(self) -> None:
        self.found.faults["server killed"] += 1
        self.fleet.kill_server(self._draw.randrange(SERVERS))

    async def _lost(self) -> None:
        """Lose the answers to the next commits of whoever comes first."""
        before = self._relay.lost
        self._relay.lose_commits(3)
        await asyncio.sleep(1.0)
        self.found.faults["answer to COMMIT lost"] += self._relay.lost - before

    async def _engine_anew(self) -> None:
        self.found.faults["engine's server lost"] += 1
        assert self._anew is not None
        await self._anew()

    async def _still(self) -> None:
        worker = self.fleet.workers[self._draw.randrange(WORKERS)]
        held = await self._held(worker.pid)
        worker.send_signal(signal.SIGSTOP)
        self._measure("worker stood still", worker.pid, held)
        await asyncio.sleep(8.0)  # longer than its lease
        worker.send_signal(signal.SIGCONT)

    async def _stopped(self) -> None:
        self.found.faults["database stopped"] += 1
        await asyncio.to_thread(self.fleet.database.crash)

    async def _promoted(self) -> None:
        self.found.faults["standby promoted"] += 1
        await self._switch(lag=False)

    async def _behind(self) -> None:
        """Promote a standby that lacks the last commits: what was started in them is lost with them."""
        self.found.faults["standby promoted, with lag"] += 1
        await self._switch(lag=True)
        await asyncio.sleep(0.5)  # until who was answered has noted it
        started = {*_lines(self.fleet.folder, "started")}
        async with self._app() as app:
            self._lost_runs |= started - {*await _every(app)}

    async def _switch(self, *, lag: bool) -> None:
        if self._measuring:
            await asyncio.wait(self._measuring)
        (self.fleet.folder / "quiet").touch()
        await asyncio.to_thread(self.fleet.database.promote, lag=lag)
        self._relay.target = self.fleet.database.port
        (self.fleet.folder / "quiet").touch()

    async def _cut(self) -> None:
        self.found.faults["connections cut"] += 1
        with suppress(psycopg.Error):
            await asyncio.to_thread(self.fleet.cut_connections)

    def _measure(self, what: str, process: int, held: int) -> None:
        self.found.faults[what] += 1
        if held:
            task = asyncio.ensure_future(self._taken_over(what, process, time.monotonic()))
            self._measuring.add(task)
            task.add_done_callback(self._measuring.discard)

    async def _taken_over(self, what: str, process: int, since: float) -> None:
        while await self._held(process):
            if time.monotonic() - since > PATIENCE:
                self.found.violations.append(f"runs of a {what} were not taken over in {PATIENCE:.0f} s")
                return
            await asyncio.sleep(0.1)
        self.found.takeovers.setdefault(what, []).append(time.monotonic() - since)

    async def _held(self, process: int) -> int:
        while True:
            try:
                return await asyncio.to_thread(self.fleet.held_by, process)
            except psycopg.Error:  # it was just stopped, or this connection cut
                await asyncio.sleep(0.1)

    async def settle(self) -> None:
        """Decide what waits until nothing is open, and look what became of every run."""
        from . import soak_desk

        ends = time.monotonic() + PATIENCE
        async with self._app() as app:
            while True:
                with suppress(KeyturnError):
                    await soak_desk.decide(app)
                    open_runs = [row for state in _OPEN for row in await app.runs(state=state, limit=1_000)]
                    open_runs += await soak_desk.stopped(app)
                    if not open_runs or time.monotonic() > ends:
                        break
                await asyncio.sleep(0.1)
            self.found.violations += [f"run {row.run} is {row.status} and did not end" for row in open_runs]
            await self._looked(app)

    @asynccontextmanager
    async def _app(self) -> AsyncGenerator[App]:
        """Open an app on the database, to decide and to look."""
        from . import soak_desk

        journal = PostgresJournal(self.fleet.url)
        async with App([soak_desk.agent], journal, worker=False, engine=_engine(self.fleet)) as app:
            yield app
        await journal.close()

    async def _looked(self, app: App) -> None:
        found = self.found
        rows = await _every(app)
        failed = [row for row in rows.values() if row.status == "failed"]
        started, paid = _lines(self.fleet.folder, "started"), Counter(_lines(self.fleet.folder, "paid"))
        found.started, found.ended = len(rows), Counter(row.status for row in rows.values())
        found.served = len({*_lines(self.fleet.folder, "served")})
        found.lost = len(self._lost_runs)
        found.doubts = len({*_lines(self.fleet.folder, "doubts")})
        found.violations += [
            f"run {run} was started and is lost" for run in started if run not in {*rows, *self._lost_runs}
        ]
        found.violations += [f"the call of run {run} had its effect {n} times" for run, n in paid.items() if n > 1]
        found.violations += [f"run {row.run} failed: {row.error}" for row in failed]
        report = await check(app.journal)
        found.violations += [str(each) for each in report.violations]


_OPEN = ("running", "waiting", "queued")


async def _every(app: App) -> dict[str, RunRow]:
    """Return the row of each run."""
    rows, after = dict[str, RunRow](), None
    while page := await app.runs(limit=1_000, after=after):
        rows |= {row.run: row for row in page}
        after = (page[-1].started_at, page[-1].run)
    return rows


def _engine(fleet: Fleet) -> Any:
    name, address = fleet.engine
    return engine_named(name, fleet.url, address)


def _lines(folder: Path, name: str) -> list[str]:
    file = folder / name
    return file.read_text().split() if file.exists() else []


async def soak(engine: str, minutes: float, seed: int, rate: float, *, by_pooler: bool = False) -> Found:
    """Run a fleet under faults."""
    async with AsyncExitStack() as stack:
        server = stack.enter_context(throwaway_postgres(durable=True))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyturn-soak-")))
        address, anew = await stack.enter_async_context(served(engine, folder))
        direct = server.database()
        database = stack.enter_context(Cluster(server, direct).kept())
        relay = Relay(port_of(direct))
        port = stack.enter_context(relay.open())
        url = through(direct, port)
        if by_pooler:
            url = through(direct, stack.enter_context(pooled(direct, folder, port))) + "?pooled=1"
        os.environ |= {"SOAK_FOLDER": str(folder), "SOAK_JOURNAL": url}
        fleet = Fleet(folder, database, url, (engine, address), rate)
        await fleet.begin()
        trial = Soak(fleet, relay, anew, seed)
        try:
            await trial.run(60 * minutes)
            for starter in fleet.starters:
                starter.send_signal(signal.SIGTERM)
            await trial.settle()
        finally:
            wrong = await asyncio.to_thread(fleet.end)
        said = (folder / "log").read_text(errors="replace").splitlines()[-40:]
        trial.found.violations += ["\n".join([f"a process ended with {code} after SIGTERM", *said]) for code in wrong]
        return trial.found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trials.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--engine", choices=ENGINES, default="journal")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--rate", type=float, default=4.0, help="how many runs are started a second")
    parser.add_argument("--pooled", action="store_true", help="reach the database through pgbouncer")
    given = parser.parse_args()
    seed = random.randrange(1 << 30) if given.seed is None else given.seed
    print(f"soak: {given.engine}, {given.minutes:g} minutes, seed {seed}", flush=True)
    found = asyncio.run(soak(given.engine, given.minutes, seed, given.rate, by_pooler=given.pooled))
    print(table(found))
    ended = ", ".join(f"{count} {state}" for state, count in sorted(found.ended.items()))
    print(f"\n{found.started} runs, {found.served} of them started by servers: {ended}")
    print(f"{found.lost} runs were lost with the last commits before a promotion")
    print(f"{found.doubts} calls were in doubt; {len(found.violations)} violations")
    print(f"{found.revived} processes could not begin, since the database was away, and were started again")
    for each in found.violations[:20]:
        print(f"broken: {each}")
    return 1 if found.violations else 0


if __name__ == "__main__":
    sys.exit(main())
