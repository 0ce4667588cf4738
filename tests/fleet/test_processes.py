"""Workers that are killed and that stand still, under each engine: no call runs twice, and others take over."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, KeyturnError, Tenants
from keyturn.audit.checker import check
from keyturn.fleet import engine_named
from keyturn.journal.postgres import PostgresJournal
from keyturn.testing.postgres import throwaway_postgres
from tests import forked
from tests.waiting import until, until_status

pytestmark = [pytest.mark.trial, pytest.mark.timeout(180)]

PROGRAM = '''
import asyncio, os
from pathlib import Path
from keyturn import Agent, App, Tenants, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs

here = Path(__file__).parent

@function_tool
async def pay(to: str) -> str:
    """Pay."""
    with (here / "paid").open("a") as paid:
        paid.write(f"{os.getpid()}\\n")
    while not (here / "go").exists():
        await asyncio.sleep(0.01)
    return f"paid {to}"

def reply(items):
    return "done" if tool_outputs(items) else [function_call("pay", {"to": "ann"}, call_id="c1")]

app = App([Agent("desk", model=ScriptedModel(reply), tools=[pay])], os.environ["FLEET_JOURNAL"], lease=3)
tenants = Tenants(
    os.environ["FLEET_JOURNAL"], lambda name: App(app.agents, tenants.journal.of(name), lease=3), lease=3
)
'''


#: Where a process of the fleet ends as if by SIGKILL, each the function before or after which it does.
PLACES = {
    "after the claim": "keyturn.engine.mover.Mover.accept",
    "after its first commit": "keyturn.journal.sql_journal.SQLJournal.append",
    "after the commit, before the hook": "keyturn.engine.engine_line.EngineLine._hand_over",
    "in the hook": "keyturn.engine.engine_line.EngineLine.wake",
}
#: Sits in front of the program of a process, and of nothing else.
DIES = """
import os, pkgutil, signal
owner, _, name = os.environ["FLEET_DIES"].rpartition(".")
owner = pkgutil.resolve_name(owner)
async def dies(self, run, *given, **named):
    done = await before(self, run, *given, **named) if name == "append" else None
    if not str(getattr(run, "run", run)).startswith("@"):
        os.kill(os.getpid(), signal.SIGKILL)
    return done
before = getattr(owner, name)
setattr(owner, name, dies)
"""
STARTS = (
    DIES
    + """
import asyncio, time
from program import app
app.embedded = False
async def main():
    async with app:
        await app.start("desk", "go")
        await asyncio.sleep(60)
asyncio.run(main())
"""
)


class _Fleet:
    """Starts workers as processes, and is the app of those who start runs and decide."""

    def __init__(self, here: Path, url: str, engine: tuple[str, str], program: str = "program:app") -> None:
        (here / "program.py").write_text(PROGRAM)
        self.here, self.url = here, url
        self._engine, self._server = engine
        self._program = program
        space: dict[str, Any] = {"__file__": str(here / "program.py")}
        os.environ["FLEET_JOURNAL"] = url
        exec(PROGRAM, space)
        made: App = space["app"]
        named = engine_named(self._engine, url, self._server)
        if program == "program:tenants":
            tenants: Tenants = space["tenants"]
            tenants.engine, self.app = named, tenants.app("acme")
        else:
            self.app = App(list(made.agents.values()), PostgresJournal(url), worker=False, engine=named)
        self.app.lease = 3

    def worker(self, program: str = "", **env: str) -> forked.Program:
        words = ["-m", "keyturn.cli.main", "worker", program or self._program, "--engine", self._engine]
        return self._process(words + (["--engine-url", self._server] if self._server else []), env)

    def dying_worker(self, place: str) -> forked.Program:
        (self.here / "dying.py").write_text(DIES + "from program import app\n")
        return self.worker("dying:app", FLEET_DIES=PLACES[place])

    def dying_starter(self, place: str) -> forked.Program:
        (self.here / "starts.py").write_text(STARTS)
        env = {"FLEET_DIES": PLACES[place], "KEYTURN_ENGINE": self._engine, "KEYTURN_ENGINE_URL": self._server}
        return self._process(["starts.py"], env)

    def _process(self, words: list[str], env: dict[str, str]) -> forked.Program:
        given = {**os.environ, "FLEET_JOURNAL": self.url, **{name: value for name, value in env.items() if value}}
        return forked.Program(words, cwd=self.here, env=given, stderr=forked.DEVNULL)

    def paid(self) -> list[str]:
        file = self.here / "paid"
        return file.read_text().split() if file.exists() else []

    async def kept(self) -> None:
        report = await check(self.app.journal)
        assert report.ok, report.violations


@pytest.mark.parametrize("program", ["program:app", "program:tenants"])
async def test_a_worker_that_is_killed_in_a_tool_leaves_a_doubt_and_others_go_on(
    program: str, engine: tuple[str, str], tmp_path: Path, new_database: Callable[[], str]
) -> None:
    fleet = _Fleet(tmp_path, new_database(), engine, program)
    async with fleet.app as app:
        with fleet.worker() as first:
            run = await app.start("desk", "go")
            await until(lambda: len(fleet.paid()) == 1, 60)
            first.kill()
            first.wait(30)
        with fleet.worker() as second:
            await until_status(app, run.id, "waiting")
            (tmp_path / "go").touch()
            other = await app.start("desk", "go")
            await until_status(app, other.id, "finished")
            [row] = await app.inbox.list()
            assert (row.run, row.kind) == (run.id, "in_doubt")
            await app.inbox.resolve(row, "ran", by="ann")
            await until_status(app, run.id, "finished")
            second.send_signal(signal.SIGTERM)
            assert second.wait(60) == 0
        assert len(fleet.paid()) == 2
        await fleet.kept()


async def test_a_process_that_dies_around_its_commits_leaves_nothing_undone_and_nothing_done_twice(
    engine: tuple[str, str], tmp_path: Path, new_database: Callable[[], str]
) -> None:
    """A worker after it claimed and after it wrote; whoever starts a run before it woke, and as it does."""
    fleet = _Fleet(tmp_path, new_database(), engine)
    (tmp_path / "go").touch()
    async with fleet.app as app:
        for place in ("after the claim", "after its first commit"):
            run = await app.start("desk", "go")
            with fleet.dying_worker(place) as dying:
                assert await asyncio.to_thread(dying.wait, 60) == -signal.SIGKILL
            with fleet.worker() as other:
                await until_status(app, run.id, "finished")
                other.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(other.wait, 60) == 0
        for place in ("after the commit, before the hook", "in the hook") if engine[0] != "journal" else ():
            with fleet.dying_starter(place) as dying:
                assert await asyncio.to_thread(dying.wait, 60) == -signal.SIGKILL
        runs = [row.run for row in await app.runs()]
        with fleet.worker() as last:
            for each in runs:
                await until_status(app, each, "finished")
            last.send_signal(signal.SIGTERM)
            ended = await asyncio.to_thread(last.wait, 60)
            assert ended in (0, -signal.SIGTERM)  # by the signal, where it had just begun
        assert len(fleet.paid()) == len(runs) == (2 if engine[0] == "journal" else 4)
        assert not await app.inbox.list()
        await fleet.kept()


async def test_a_worker_that_stood_still_past_its_lease_writes_nothing(
    engine: tuple[str, str], tmp_path: Path, new_database: Callable[[], str]
) -> None:
    """It wakes inside the tool, whose call others have long decided about: its result is refused."""
    fleet = _Fleet(tmp_path, new_database(), engine)
    async with fleet.app as app:
        with fleet.worker() as first, fleet.worker() as second:
            run = await app.start("desk", "go")
            await until(lambda: len(fleet.paid()) == 1, 60)
            [pid] = fleet.paid()
            still, other = (first, second) if str(first.pid) == pid else (second, first)
            still.send_signal(signal.SIGSTOP)
            await until_status(app, run.id, "waiting")
            [row] = await app.inbox.list()
            await app.inbox.resolve(row, "ran", by="ann")
            await until_status(app, run.id, "finished")
            (tmp_path / "go").touch()
            still.send_signal(signal.SIGCONT)
            for each in (still, other):
                each.send_signal(signal.SIGTERM)
            assert [each.wait(60) for each in (still, other)] == [0, 0]
        assert len(fleet.paid()) == 1
        await fleet.kept()


async def test_a_database_that_is_stopped_five_times_loses_and_doubles_nothing(
    engine: tuple[str, str], tmp_path: Path
) -> None:
    """Each time at once (`pg_ctl -m immediate`), as calls are at work, whose effects are then in doubt or recorded."""
    with throwaway_postgres(durable=True) as server:
        fleet = _Fleet(tmp_path, server.database(), engine)
        async with fleet.app as app:
            with fleet.worker() as first, fleet.worker() as second:
                runs = list[str]()
                for paid in range(3, 18, 3):
                    (tmp_path / "go").unlink(missing_ok=True)
                    while len(runs) < paid:
                        with suppress(KeyturnError):  # a start whose commit was not answered may have been made
                            runs.append((await app.start("desk", "go")).id)
                    await until(lambda paid=paid: len(fleet.paid()) >= paid, 120)
                    await asyncio.to_thread(server.crash)
                    (tmp_path / "go").touch()
                    await until(lambda: _ended(app, runs), 120)
                for each in (first, second):
                    each.send_signal(signal.SIGTERM)
                assert [await asyncio.to_thread(each.wait, 60) for each in (first, second)] == [0, 0]
            assert len(fleet.paid()) == len(runs) == 15
            await fleet.kept()


async def _ended(app: App, runs: list[str]) -> bool:
    """Say of calls in doubt that they ran, and return whether all runs are finished."""
    with suppress(KeyturnError):  # the database is away
        for row in await app.inbox.list():
            await app.inbox.resolve(row, "ran", by="ann")
        return {(await app.get(run)).status for run in runs} == {"finished"}
    return False
