"""The demo's agent: what cannot be taken back waits, and its model reads nothing but the conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import Runner, RunState
from keyturn.cli.demo_agent import TASK, World, demo_agent
from keyturn.cli.demo_player import Player
from keyturn.cli.demo_stages import scripted
from keyturn.testing import Answer, decide


def paused(tmp_path: Path) -> tuple[Any, Any]:
    agent = demo_agent(Player.chosen(scripted=True).model())
    return agent, Runner.run_sync(agent, TASK, context={"world": str(tmp_path / "world.json")})


def test_it_looks_without_asking_and_asks_before_it_acts(tmp_path: Path) -> None:
    _, result = paused(tmp_path)
    assert [item.name for item in result.interruptions] == ["rotate_key", "delete_backups", "restart_service"]
    assert not World(tmp_path / "world.json").path.exists()


@pytest.mark.parametrize("how", [True, False, Answer("by hand")])
async def test_it_comes_to_an_end_whatever_is_decided(tmp_path: Path, how: Any) -> None:
    """In a new process after every pause, as far as the model can tell."""
    _, result = paused(tmp_path)
    for _ in range(5):
        if not result.interruptions:
            break
        agent = demo_agent(Player.chosen(scripted=True).model())
        state = await RunState.from_string(agent, decide(result, lambda item: how).to_string())
        result = await Runner.run(agent, state)
    effects = World(tmp_path / "world.json").read()["effects"]
    assert result.final_output.startswith("This is what became of it.")
    assert len(effects) == (5 if how is True else 0)


def test_the_script_answers_what_waits_and_then_ends(tmp_path: Path) -> None:
    shown: list[str] = []
    _, result = paused(tmp_path)
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    ask = scripted(state, shown.append)
    assert [ask("> "), ask("> ")] == ["e", "names=all of them"]
    assert shown == ["> e", "> names=all of them"]
    for _ in range(4):
        ask("> ")
    with pytest.raises(EOFError):
        ask("> ")
