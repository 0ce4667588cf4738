"""Workers that are killed and that stand still, under each engine: no call runs twice, and others take over."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import App
from keyturn.audit.checker import check
from keyturn.fleet import engine_named
from keyturn.journal.postgres import PostgresJournal
from keyturn.support.lazy import is_installed
from tests import forked
from tests.waiting import until, until_status

from .temporal_server import lacks, temporal_server

pytestmark = [pytest.mark.trial, pytest.mark.timeout(180)]

PROGRAM = '''
import asyncio, os
from pathlib import Path
from keyturn import Agent, App, function_tool
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
'''


@pytest.fixture(params=["journal", "dbos", "temporal"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[tuple[str, str]]:
    """The name of an engine, and the URL of its server."""
    package = {"journal": "keyturn", "dbos": "dbos", "temporal": "temporalio"}[request.param]
    if not is_installed(package):
        pytest.skip(f"{package} is not installed: pip install 'keyturn[{request.param}]'")
    if request.param != "temporal":
        yield request.param, ""
        return
    if missing := lacks():
        pytest.skip(missing)
    async with temporal_server(tmp_path) as url:
        yield request.param, url


class _Fleet:
    """Starts workers as processes, and is the app of those who start runs and decide."""

    def __init__(self, here: Path, url: str, engine: tuple[str, str]) -> None:
        (here / "program.py").write_text(PROGRAM)
        self.here, self.url = here, url
        self._engine, self._server = engine
        space: dict[str, Any] = {"__file__": str(here / "program.py")}
        os.environ["FLEET_JOURNAL"] = url
        exec(PROGRAM, space)
        made: App = space["app"]
        named = engine_named(self._engine, url, self._server)
        self.app = App(list(made.agents.values()), PostgresJournal(url), worker=False, engine=named)
        self.app.lease = 3

    def worker(self) -> forked.Program:
        words = ["-m", "keyturn.cli.main", "worker", "program:app", "--engine", self._engine]
        words += ["--engine-url", self._server] if self._server else []
        return forked.Program(
            words, cwd=self.here, env={**os.environ, "FLEET_JOURNAL": self.url}, stderr=forked.DEVNULL
        )

    def paid(self) -> list[str]:
        file = self.here / "paid"
        return file.read_text().split() if file.exists() else []

    async def kept(self) -> None:
        report = await check(self.app.journal)
        assert report.ok, report.violations


async def test_a_worker_that_is_killed_in_a_tool_leaves_a_doubt_and_others_go_on(
    engine: tuple[str, str], tmp_path: Path, new_database: Callable[[], str]
) -> None:
    fleet = _Fleet(tmp_path, new_database(), engine)
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
