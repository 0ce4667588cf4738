"""`keyturn takeover` takes a paused state of openai-agents over, as a state of ours or into an app's journal."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from keyturn import RunState
from keyturn.cli.main import main
from keyturn.journal import open_journal
from keyturn.journal.rows import Query

STATES = Path(__file__).parents[1] / "openai_agents" / "states"
PROGRAM = """
import keyturn
from keyturn.testing import ScriptedModel
from tests.openai_agents.worlds import WORLDS

agent = WORLDS["desk"](keyturn, lambda name: ScriptedModel(["done"]), [])
app = keyturn.App([agent], "sqlite:///runs.db")
"""


@pytest.fixture
def state(tmp_path: Path, own_key: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    kept = json.loads((STATES / "decided.json").read_text(encoding="utf-8"))
    (tmp_path / "state.json").write_text(json.dumps(kept["state"]))
    (tmp_path / "desk_of_test.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "desk_of_test", raising=False)
    return tmp_path / "state.json"


async def test_as_a_state_of_ours(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    def command(*more: str) -> int:
        return main(["takeover", str(state), "--agent", "desk_of_test:agent", *more])

    assert await asyncio.to_thread(command) == 1
    assert "trust=True" in capsys.readouterr().err
    assert await asyncio.to_thread(command, "--trust", "--output", "ours.json") == 0
    made = state.with_name("ours.json")
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    from desk_of_test import agent  # type: ignore[import-not-found]  # the program of this test

    loaded = await RunState.from_string(agent, made.read_text())
    assert [decision.verdict for decision in loaded.undelivered.decisions.values()] == ["approve", "reject"]


def test_into_a_journal(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    command = ["takeover", str(state), "--app", "desk_of_test:app", "--agent", "desk", "--trust"]
    assert main(command) == 0
    run = capsys.readouterr().out.strip()

    async def rows() -> list[str]:
        journal = open_journal("sqlite:///runs.db")
        try:
            return [row.run for row in await journal.of("default").runs(Query())]  # type: ignore[attr-defined]  # a store
        finally:
            await journal.close()  # type: ignore[attr-defined]  # it has a file

    assert asyncio.run(rows()) == [run]
    del sys.modules["desk_of_test"]  # it is another process
    assert main(command) == 1
    assert run in capsys.readouterr().err


def test_bad_use(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["takeover", "nowhere.json", "--agent", "desk_of_test:agent", "--trust"]) == 1
    assert main(["takeover", str(state), "--agent", "desk_of_test:nobody", "--trust"]) == 1
    assert main(["takeover", str(state), "--agent", "desk_of_test:app", "--trust"]) == 1
    said = capsys.readouterr().err
    assert "nowhere.json" in said
    assert "there is no agent at 'desk_of_test:nobody'" in said
    assert "name a keyturn.Agent" in said
