"""What a notebook's cells do: top-level `await` and blocking calls, in one event loop that runs all the time."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, Runner, RunState
from keyturn.journal.sqlite import SQLiteJournal
from tests.playing import World, asking, call

README = Path(__file__).parents[2] / "README.md"
PROGRAM = re.search(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def own_world(own_key: None) -> None:
    """A key of the test's own."""


async def cell(source: str, names: dict[str, Any]) -> None:
    """Run a cell as IPython does: its code is compiled with top-level await, and awaited in the loop that runs."""
    code = compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    made = eval(code, names)
    if inspect.iscoroutine(made):
        await made


@pytest.mark.parametrize("split", [False, True])
async def test_the_readmes_program_runs_in_a_notebook(split: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert PROGRAM is not None
    names: dict[str, Any] = {"__name__": "__main__"}
    for part in PROGRAM[1].split("\n\n") if split else [PROGRAM[1]]:
        await cell(part, names)
    assert capsys.readouterr().out == "The old backup is gone.\n"


@pytest.mark.trial
def test_it_runs_as_a_script(tmp_path: Path) -> None:
    assert PROGRAM is not None
    (tmp_path / "program.py").write_text(PROGRAM[1])
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True
    )
    assert (done.stdout, done.stderr) == ("The old backup is gone.\n", "")


async def test_awaited_and_blocking_cells_may_be_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    names: dict[str, Any] = {
        "agent": asking(world, [call("ask", "c1")], "done"),
        "Runner": Runner,
        "RunState": RunState,
    }
    await cell("result = await Runner.run(agent, 'x')", names)
    await cell("state = RunState.from_json_sync(agent, result.to_state().to_json())", names)
    await cell("state.approve(state.get_interruptions()[0])", names)
    await cell("print((await Runner.run(agent, state)).final_output)", names)
    assert (capsys.readouterr().out, world.done) == ("done\n", ["ask(0)"])


def waiting() -> tuple[World, Agent[Any]]:
    world = World()
    return world, asking(world, [call("ask", "c1")], "done")


def test_states_are_loaded_without_await_in_a_script(tmp_path: Path) -> None:
    world, agent = waiting()
    paused = Runner.run_sync(agent, "x", journal=(url := f"sqlite:///{tmp_path}/runs.db"))
    for load in (
        lambda: RunState.from_string_sync(agent, paused.to_state().to_string(), max_bytes=1 << 20),
        lambda: RunState.from_json_sync(agent, paused.to_state().to_json()),
        lambda: RunState.load_sync(url, paused.run_id, agent),
    ):
        assert [item.name for item in load().get_interruptions()] == ["ask"]
    state = RunState.load_sync(url, paused.run_id, agent, context={"a": 1})
    assert state.context.context == {"a": 1}
    state.approve(state.get_interruptions()[0])
    assert Runner.run_sync(agent, state).final_output == "done"
    assert world.done == ["ask(0)"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_is_loaded_without_await_where_a_loop_runs(kind: str, tmp_path: Path) -> None:
    world, agent = waiting()
    journal = MemoryJournal() if kind == "memory" else SQLiteJournal(tmp_path / "runs.db")
    paused = await Runner.run(agent, "x", journal=journal)
    state = RunState.load_sync(journal, paused.run_id, agent)
    state.approve(state.get_interruptions()[0])
    assert Runner.run_sync(agent, state).final_output == "done"
    assert asyncio.get_running_loop().is_running()
    assert world.done == ["ask(0)"]


async def test_what_a_blocking_load_refuses_is_raised_as_it_is() -> None:
    from keyturn import RunMissing, StateRejected

    _world, agent = waiting()
    with pytest.raises(StateRejected):
        RunState.from_string_sync(agent, "{}")
    with pytest.raises(RunMissing):
        RunState.load_sync(MemoryJournal(), "5e1f", agent)
