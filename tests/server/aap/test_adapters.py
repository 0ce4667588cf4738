"""The real adapters of `agentapprovalprotocol`, each in a process of its own, against a real server on the loopback."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from keyturn import ExternalAgent
from keyturn.models.scripted.items import function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.server import HttpRequest
from tests.server.programs import Port

PYTHON = Path(sys.prefix) / "aap" / "bin" / "python"
CREWAI = Path(sys.prefix) / "aap-crewai" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "adapters"
pytestmark = [
    pytest.mark.trial,
    pytest.mark.timeout(600),
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


def _model(request: HttpRequest) -> Any:
    """Answer as the model of the Claude Agent SDK: it calls for each order of its prompt, and is done then."""
    tools = [tool["name"] for tool in request.json.get("tools", [])]
    said = json.dumps(request.json)
    orders = re.findall(r"Pay: ([a-z0-9 -]+)", said)
    if "mcp__desk__pay" not in tools or "tool_result" in said or not orders:
        return "Done."
    return [function_call("mcp__desk__pay", {"order": each}, call_id=f"toolu_{each}") for each in orders[0].split()]


class Messages(MessagesServer):
    """Anthropic's API as the agent of the SDK asks it."""

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        return None if (request.method, request.path.partition("?")[0]) == ("POST", "/v1/messages") else (404, "no")


def _ran(framework: str, desk: Port, home: Path) -> Any:
    """Run the program of a framework, while people decide, and return what it tells."""
    python = CREWAI if framework == "crewai" else PYTHON
    if not python.exists():
        pytest.skip(f"needs the environment of {framework} (make aap-adapters)")
    token = desk.does(_people(desk))
    deciding = asyncio.run_coroutine_threadsafe(_decide(desk), desk.loop)
    environment = {
        "HOME": str(home), "PATH": "/usr/bin:/bin", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true",
    }  # fmt: skip
    try:
        with Messages(_model) as model:
            program: list[Any] = [python, PROGRAMS / f"by_{framework}.py", f"{desk.url}/aap", token, model.base_url]
            made = subprocess.run(
                program, capture_output=True, text=True, timeout=300, env=environment, cwd=home, check=False
            )
    finally:
        deciding.cancel()
    assert made.returncode == 0, made.stderr
    [told] = [line for line in made.stdout.splitlines() if line.startswith('{"waits"')]
    return json.loads(told)


@pytest.mark.parametrize(
    "framework", ["openai_agents", "pydantic_ai", "langgraph", "adk", "claude_agent_sdk", "crewai"]
)
def test_an_adapter_runs_what_was_approved_once_and_nothing_else(framework: str, desk: Port, tmp_path: Path) -> None:
    told = _ran(framework, desk, tmp_path)
    waits = told["waits"]
    assert waits["ran"] == ["ok-1"]
    assert any("paid ok-1" in text for text in waits["outputs"])
    assert any("Denied by ben. Too much." in text for text in waits["outputs"])
    rows = desk.does(desk.app.runs())
    ends = sorted(desk.does(desk.app.asks.get(row.run, account="desk")).status for row in rows)
    more = {"crewai": [], "adk": ["rejected", "succeeded", "withdrawn"]}.get(framework, ["rejected", "succeeded"])
    assert ends == sorted(["rejected", "succeeded", "withdrawn", *more])
    if framework == "crewai":  # which cannot pause
        return
    pauses = told["pauses"]
    assert (pauses["paused"], bool(pauses["refused"]), pauses["after_forged"]) == (1, True, [])
    assert pauses["ran"] == ["async-1"]
