"""`keyturn worker`: a process that moves runs, and ends well however it is told to."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from urllib.request import urlopen

import apsw
import pytest

from keyturn import App, UnsafeStore
from keyturn.audit.checker import check
from keyturn.cli.loading import found
from keyturn.cli.logs import JSONFormatter
from keyturn.cli.main import main
from tests import forked
from tests.waiting import until_now

PROGRAM = '''
import asyncio
from pathlib import Path
from keyturn import Agent, App, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, last_user_text, tool_outputs

here = Path(__file__).parent

@function_tool
async def act(name: str) -> str:
    """Act."""
    (here / f"begun-{name}").touch()
    while "slow" in name and not (here / "go").exists():
        await asyncio.sleep(0.01)
    with (here / "acted").open("a") as acted:
        acted.write(name + "\\n")
    return f"acted for {name}"

def reply(items):
    name = last_user_text(items)
    return "done" if tool_outputs(items) else [function_call("act", {"name": name}, call_id="c1")]

app = App([Agent("ops", model=ScriptedModel(reply), tools=[act])], f"sqlite:///{here}/runs.db", grace=20)
'''


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("program", None)


def worker(here: Path) -> forked.Program:
    command = ["-m", "keyturn.cli.main", "worker", "program:app"]
    return forked.Program(command, cwd=here, stderr=forked.PIPE, text=True, env={**os.environ})


def wait_for(*paths: Path) -> None:
    until_now(lambda: all(path.exists() for path in paths), 40)


def app_of(here: Path) -> App:
    assert here.exists()
    app: App = import_module("program").app
    return app


async def start(here: Path, *names: str) -> list[str]:
    app = App(list(app_of(here).agents.values()), f"sqlite:///{here}/runs.db", worker=False)
    return [(await app.start("ops", name)).id for name in names]


async def over(here: Path, runs: list[str]) -> list[str]:
    app = App(list(app_of(here).agents.values()), f"sqlite:///{here}/runs.db", worker=False)
    statuses = [(await app.wait(run, 30)).status for run in runs]
    report = await check(app.journal)
    assert report.ok, report.violations
    return statuses


def test_told_to_end_it_finishes_what_it_began(here: Path) -> None:
    """Three runs are inside their tools, the others have not begun; nothing is lost, doubled or in doubt."""
    slow = asyncio.run(start(here, "slow1", "slow2", "slow3"))
    with worker(here) as running:
        wait_for(*(here / f"begun-slow{number}" for number in (1, 2, 3)))
        running.send_signal(signal.SIGTERM)
        assert running.stderr is not None
        assert running.stderr.readline() == "worker started for: ops\n"
        assert "shutting down after the current steps" in running.stderr.readline()
        later = asyncio.run(start(here, *(f"quick{number}" for number in range(7))))
        (here / "go").touch()
        assert running.wait(40) == 0
    assert sorted((here / "acted").read_text().split()) == ["slow1", "slow2", "slow3"]
    with worker(here) as running:
        assert asyncio.run(over(here, [*slow, *later])) == ["finished"] * 10
        running.terminate()
        assert running.wait(40) == 0
    acted = sorted((here / "acted").read_text().split())
    assert acted == [*(f"quick{number}" for number in range(7)), "slow1", "slow2", "slow3"]


def test_told_twice_it_ends_at_once_and_leaves_a_doubt(here: Path) -> None:
    [run] = asyncio.run(start(here, "slow"))
    with worker(here) as running:
        wait_for(here / "begun-slow")
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        while "shutting down" not in running.stderr.readline():
            pass
        running.send_signal(signal.SIGINT)
        assert running.wait(40) == 0
    assert asyncio.run(over(here, [run])) == ["waiting"]
    assert not (here / "acted").exists()


@pytest.mark.each
@pytest.mark.parametrize(
    ("where", "why"),
    [("nothing:app", "there is no app"), ("program:other", "there is no app"), ("program:here", "name a keyturn.App")],
)
def test_an_app_that_is_none_is_said(here: Path, where: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.exists()
    assert main(["worker", where]) == 2
    assert why in capsys.readouterr().err


def test_a_strict_worker_refuses_a_store_that_may_not_be_safe(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker that is not strict says so, loudly, and works."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    assert main(["worker", "program:app", "--strict"]) == 2
    assert "WAL-reset" in capsys.readouterr().err
    assert not (here / "runs.db").exists()
    with pytest.warns(UnsafeStore, match="WAL-reset"):
        assert found("program:app").agents


def test_its_log_is_json_where_that_is_wanted_and_it_answers_health_checks(here: Path) -> None:
    command = ["-m", "keyturn.cli.main", "worker", "program:app"]
    options = ["--log-format", "json", "--log-level", "debug", "--slots", "2", "--health", "0"]
    with forked.Program([*command, *options], cwd=here, stderr=forked.PIPE, text=True) as running:
        assert running.stderr is not None
        url = running.stderr.readline().removeprefix("health checks: ").strip()
        with urlopen(url, timeout=20) as answer:
            assert (answer.status, json.load(answer)) == (
                200,
                {"ok": True, "busy": 0, "oldest_due_seconds": 0, "error": None},
            )
        [run] = asyncio.run(start(here, "quick"))
        assert asyncio.run(over(here, [run])) == ["finished"]
        running.terminate()
        assert running.wait(40) == 0
        lines = [line for line in running.stderr.read().splitlines() if line.startswith("{")]
    assert all({"time", "level", "logger", "message"} <= json.loads(line).keys() for line in lines)


def test_no_slot_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert here.exists()
    assert main(["worker", "program:app", "--slots", "0"]) == 2
    assert "--slots must be 1 or more" in capsys.readouterr().err


def test_a_line_of_a_json_log_has_the_traceback() -> None:
    try:
        raise ValueError("no\nmore")
    except ValueError as error:
        record = logging.LogRecord(
            "keyturn.tools", logging.WARNING, "", 1, "said %s", ("so",), (ValueError, error, error.__traceback__)
        )
    line = JSONFormatter().format(record)
    assert "\n" not in line
    made = json.loads(line)
    assert (made["level"], made["message"]) == ("warning", "said so")
    assert made["exception"].endswith("ValueError: no\nmore")
