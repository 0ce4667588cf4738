"""`keyturn fleet` shows workers, due runs and the engine; `keyturn engine` opens the engine alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, function_tool
from keyturn.cli import engine as engine_command
from keyturn.cli.main import main
from keyturn.fleet.base import EngineHealth
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call
from tests.table import each

Said = pytest.CaptureFixture[str]


@pytest.fixture
def url(tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch) -> str:
    for variable in ("KEYTURN_ENGINE", "KEYTURN_ENGINE_URL", "KEYTURN_JOURNAL"):
        monkeypatch.delenv(variable, raising=False)
    return f"sqlite:///{tmp_path}/keyturn.db"


def shown(capsys: Said, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    return main(list(words)), capsys.readouterr().out


async def test_a_fleet_is_shown_with_what_its_workers_execute_and_what_is_due(url: str, capsys: Said) -> None:
    """A run that is due, and then one that a worker executes, whose process lives and holds a lease."""
    began, ends = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Wait."""
        began.set()
        await ends.wait()
        return "done"

    store = SQLiteJournal(url.removeprefix("sqlite:///"))
    app = App(
        [Agent("desk\x1b[2J", model=ScriptedModel([function_call("slow", {}), "done"]), tools=[slow])],
        store,
        worker=False,
    )
    await app.start("desk\x1b[2J", "go")
    code, rows = await asyncio.to_thread(shown, capsys, "fleet", url)
    first, second, third = rows.splitlines()
    assert code == 0
    assert first == "workers: none holds a run or shows that it is alive: keyturn worker module:app"
    assert second.startswith("runs: 1 run of agent desk\\u{1b}[2J due, the first for ")
    assert second.endswith(": keyturn worker module:app")
    assert third == "engine journal: workers ask the journal, and nothing else is needed"

    working = asyncio.ensure_future(app.work())
    await asyncio.wait_for(began.wait(), 20)
    code, text = await asyncio.to_thread(shown, capsys, "fleet", url, "--json")
    found: dict[str, Any] = json.loads(text)
    [worker] = found["workers"]
    assert (worker["alive"], worker["runs"], bool(worker["host"])) == (True, 1, True)
    assert 0 < worker["lease_seconds"] <= 60
    assert found["due"] == {"runs": 0, "oldest_seconds": 0.0, "groups": []}
    _, rows = await asyncio.to_thread(shown, capsys, "fleet", url)
    assert rows.startswith(f"worker {worker['name']}: alive, since ")
    assert "holds 1 run, the first lease expires in " in rows

    ends.set()
    await app.stop()
    await working
    assert [row.runs for row in await store.workers()] == []
    await store.close()


class _Engine:
    """An engine that is as it is told to be, and has so much to delete."""

    def __init__(self, health: EngineHealth | None, done: int = 0) -> None:
        self._health, self._done = health, done
        self.before: list[int] = []

    @asynccontextmanager
    async def open(self, _tenant: str | None) -> AsyncGenerator[None]:
        if self._health is None:
            raise OSError("no route to it\nrun forged")
        yield

    async def health(self) -> EngineHealth:
        assert self._health is not None
        return self._health

    async def tidy(self, before: int) -> int:
        self.before.append(before)
        done, self._done = min(self._done, 1_000), max(self._done - 1_000, 0)
        return done


@each(
    "health, code, row",
    [
        (EngineHealth(), 0, "answers; it does not report how many wakes it holds"),
        (EngineHealth(0, 0.0), 0, "answers, and holds no wakes"),
        (EngineHealth(1, 9.4), 0, "answers, and holds 1 wake, the oldest for 9 s"),
        (
            *(EngineHealth(3, 10.0), 1),
            "holds 3 wakes, the oldest for 10 s: no worker of this engine is running, or all their slots are in use",
        ),
        (EngineHealth(error="UNAVAILABLE"), 1, "cannot be used: UNAVAILABLE"),
        (None, 1, "cannot be used: the engine own failed: OSError: no route to it"),
    ],
)
def test_a_check_says_whether_an_engine_answers_and_whether_its_wakes_are_late(
    health: EngineHealth | None, code: int, row: str, url: str, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(*_named: str) -> _Engine:
        return _Engine(health)

    monkeypatch.setattr(engine_command, "engine_named", named)
    assert shown(capsys, "engine", "check", url, "--engine", "own") == (code, f"engine own: {row}\n")


def test_an_engine_is_tidied_until_nothing_is_left(url: str, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[tuple[str, ...]] = []
    made = _Engine(EngineHealth(), 2_500)

    def choose(*given: str) -> _Engine:
        named.append(given)
        return made

    monkeypatch.setattr(engine_command, "engine_named", choose)
    monkeypatch.setenv("KEYTURN_ENGINE", "temporal")
    monkeypatch.setenv("KEYTURN_ENGINE_URL", "temporal://here")
    assert shown(capsys, "engine", "tidy", url) == (0, "engine temporal: deleted 2,500 wakes\n")
    assert shown(capsys, "engine", "tidy", url, "--engine", "dbos", "--older-than", "2h", "--json")[0] == 0
    assert named == [("temporal", url, "temporal://here"), ("dbos", url, "")], "the URL is that engine's alone"
    assert made.before[-1] < made.before[0] - 3_000_000


def test_an_engine_that_needs_another_journal_is_refused_and_the_fleet_is_shown(url: str, capsys: Said) -> None:
    asyncio.run(SQLiteJournal(url.removeprefix("sqlite:///")).close())
    why = "engine dbos: cannot be used: --engine dbos needs a journal that processes on several machines share"
    code, rows = shown(capsys, "engine", "check", url, "--engine", "dbos")
    assert (code, rows.startswith(why)) == (1, True)
    code, rows = shown(capsys, "fleet", url, "--engine", "dbos")
    assert (code, rows.splitlines()[2].startswith(why)) == (0, True)
    code, _ = shown(capsys, "engine", "check", url, "--engine-url", "postgresql://db/engine")
    assert code == 1
