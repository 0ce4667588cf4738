"""What an attack found in what an approval is bound to, held since: the environment, and whose code acts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, ApplyPatchTool, LocalExecutor, LocalShellTool, Runner, ShellTool
from keyturn.testing import ScriptedModel, approve_all
from keyturn.tools.base import tool_digest


@pytest.mark.parametrize("way", ["env", "inherit"])
def test_an_approval_is_for_the_values_of_the_environment(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M2: approved with TARGET=staging, it does not run with production."""
    monkeypatch.setenv("TARGET", "staging")
    executor = LocalExecutor(tmp_path, env={"TARGET": "staging"} if way == "env" else None, inherit=("TARGET",))
    call = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["echo deploy to $TARGET"]}}
    model = ScriptedModel([[call], "done"])
    agent: Agent[Any] = Agent(name="A", model=model, tools=[ShellTool(executor)])
    paused = Runner.run_sync(agent, "go")
    monkeypatch.setenv("TARGET", "production")
    if way == "env":
        executor.env["TARGET"] = "production"
    assert Runner.run_sync(agent, approve_all(paused)).interruptions
    assert len(model.calls) == 1


def test_values_are_not_said(tmp_path: Path) -> None:
    """M2: they may be secrets, and what an executor says of itself is shown."""
    told = str(LocalExecutor(tmp_path, env={"TOKEN": "hunter2"}).about())
    assert "TOKEN" in told
    assert "hunter2" not in told


class Staging:
    def __call__(self, request: Any) -> str:
        return "staging"

    def create_file(self, operation: Any) -> None: ...
    def update_file(self, operation: Any) -> None: ...
    def delete_file(self, operation: Any) -> None: ...


class Production(Staging):
    pass


class Says(Staging):
    def __init__(self, where: str) -> None:
        self.where = where

    def about(self) -> dict[str, Any]:
        return {"in": self.where}


def staging(request: Any) -> str:
    return "staging"


def production(request: Any) -> str:
    return "production"


def test_other_code_is_another_tool() -> None:
    """M2: an executor or an editor that says nothing of itself goes by the name of its function or class."""
    for make in (ShellTool, LocalShellTool, ApplyPatchTool):
        tools: Any = [make(each) for each in (Staging(), Production(), Says("a"), Says("b"))]
        if make is not ApplyPatchTool:
            tools += [make(each) for each in (staging, partial(production))]
        assert len({tool_digest(tool) for tool in tools}) == len(tools)
        assert tool_digest(make(Staging())) == tool_digest(make(Staging()))
