"""The real adapters of `agentapprovalprotocol`, each in a process of its own, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from keyturn import ExternalAgent
from tests.server.programs import Port

PYTHON = Path(sys.prefix) / "aap" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "adapters"
pytestmark = [
    pytest.mark.trial,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="needs the adapters of AAP (make aap-adapters)"),
]


async def _people(port: Port) -> str:
    """Add the account that asks, and return its token."""
    await port.app.people.add("desk", kind="machine", by="ada")
    return await port.app.people.issue_token("desk", ["ask"], by="ada")


async def _decide(port: Port) -> None:
    """Decide each request by the name of its order: what is paused once it may go on, and one that waits never."""
    inbox, goes = port.app.inbox, False
    async with aclosing(port.app.journal.watch_all()) as told:
        async for _ in told:
            rows = await inbox.list()
            goes = goes or any(row.request.params["order"] == "go-1" for row in rows)
            for row in rows:
                word = row.request.params["order"].partition("-")[0]
                if word == "ok" or (word == "async" and goes):
                    await inbox.approve(row, by="ben")
                elif word in ("no", "go"):
                    await inbox.reject(row, by="ben", message="Too much.")


@pytest.fixture
def desk() -> Generator[Port]:
    with Port(more=[ExternalAgent()]) as port:
        yield port


@pytest.mark.parametrize("framework", ["openai_agents", "pydantic_ai", "langgraph"])
def test_an_adapter_runs_what_was_approved_once_and_nothing_else(framework: str, desk: Port, tmp_path: Path) -> None:
    token = desk.does(_people(desk))
    deciding = asyncio.run_coroutine_threadsafe(_decide(desk), desk.loop)
    program: list[Any] = [PYTHON, PROGRAMS / f"by_{framework}.py", f"{desk.url}/aap", token]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    try:
        made = subprocess.run(program, capture_output=True, text=True, timeout=300, env=environment, check=False)
    finally:
        deciding.cancel()
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout.splitlines()[-1])
    waits, pauses = told["waits"], told["pauses"]
    assert waits["ran"] == ["ok-1"]
    assert any("paid ok-1" in text for text in waits["outputs"])
    assert any("Denied by ben. Too much." in text for text in waits["outputs"])
    assert (pauses["paused"], bool(pauses["refused"]), pauses["after_forged"]) == (1, True, [])
    assert pauses["ran"] == ["async-1"]
    rows = desk.does(desk.app.runs())
    ends = sorted(desk.does(desk.app.asks.get(row.run, account="desk")).status for row in rows)
    assert ends == ["rejected", "rejected", "succeeded", "succeeded", "withdrawn"]


@pytest.mark.parametrize("module", ["adk", "crewai", "claude_agent_sdk"])
def test_an_adapter_that_is_only_read_is_there_under_its_name(module: str) -> None:
    names = {"adk": "ApprovalPlugin", "crewai": "ApprovalHooks", "claude_agent_sdk": "ApprovalHooks"}
    line = f"from agentapprovalprotocol.{module} import {names[module]} as door; door('http://localhost:1/aap', 'kt')"
    made = subprocess.run([PYTHON, "-c", line], capture_output=True, text=True, timeout=300, check=False)
    if "ModuleNotFoundError" in made.stderr:
        pytest.skip(f"needs the framework of {module} (make aap-adapters)")
    assert made.returncode == 0, made.stderr
