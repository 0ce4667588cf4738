"""The real Claude Code, from npm, behind the gate: its model is on the loopback, and its call waits in the inbox."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyturn import ExternalAgent
from keyturn.models.scripted.items import function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.server import HttpRequest
from tests import forked
from tests.mcp_gate.shops import Shop, none_pending
from tests.server.programs import Port

CLAUDE = Path(sys.prefix) / "agents" / "node_modules" / ".bin" / "claude"
pytestmark = [
    pytest.mark.trial,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not CLAUDE.exists(), reason="needs coding agents (make coding-agents)"),
]


class Messages(MessagesServer):
    """Anthropic's API as Claude Code asks it; `read` is what its model read of each call."""

    def refuse(self, request: HttpRequest) -> tuple[int, str] | None:
        return None if (request.method, request.path.partition("?")[0]) == ("POST", "/v1/messages") else (404, "no")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


async def bought(shop: Shop, home: Path, *options: str, calls: int = 1, **more: str) -> str:
    """Let Claude Code buy something through the gate, and return what its model read of the last call."""
    read = list[str]()

    def model(request: HttpRequest) -> Any:
        if "mcp__shop__buy" not in [tool["name"] for tool in request.json.get("tools", [])]:
            return "Done."
        results = [
            block
            for message in request.json["messages"]
            for block in (message["content"] if isinstance(message["content"], list) else [])
            if block.get("type") == "tool_result"
        ]
        read[:] = [json.dumps(each["content"]) for each in results]
        if len(results) == calls:
            return "Done."
        return [function_call("mcp__shop__buy", {"item": "tea", "count": 2}, call_id=f"toolu_{len(results)}")]

    environment = shop.environment(**more)
    gate = {"command": forked.python(), "args": shop.program(*options), "env": environment}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": gate}}))
    program = [str(CLAUDE), "-p", "Buy tea.", "--mcp-config", str(home / "mcp.json"), "--strict-mcp-config"]
    with Messages(model) as server:
        places = {
            "HOME": str(home), "PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": server.base_url,
            "ANTHROPIC_API_KEY": "sk-none", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
        made = await asyncio.to_thread(
            subprocess.run, [*program, "--allowedTools", "mcp__shop__buy"], cwd=home, env=places,
            capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    assert len(read) == calls, (made.stdout[-1_000:], made.stderr[-1_000:])
    return read[-1]


@pytest.mark.parametrize("verdict", ["approve", "reject", "edit", "away", "again"])
async def test_claude_code_behind_the_gate_runs_what_was_approved_and_nothing_else(
    shop: Shop, verdict: str, tmp_path: Path
) -> None:
    if verdict == "away":
        read = await bought(shop, tmp_path, KEYTURN_SERVER="http://localhost:1")
        assert ("no approval could be asked for" in read, shop.bought) == (True, [])
        return
    again = verdict == "again"  # the gate answers "call again", and the second call joins the request
    buying = asyncio.ensure_future(
        bought(shop, tmp_path, *(("--hold", "0.1") if again else ()), calls=2 if again else 1)
    )
    words: dict[str, Any] = {
        "reject": {"message": "Once is enough."}, "edit": {"edit": {"item": "tea", "count": 1}},
    }.get(verdict, {})  # fmt: skip
    await shop.decided("reject" if verdict == "reject" else "approve", **words)
    read = await buying
    ran = {"approve": ["2 tea"], "edit": ["1 tea"]}.get(verdict, [])
    if again:  # whichever came first: the decision, or the second call
        assert shop.bought in ([], ["2 tea"])
        assert re.search("bought 2 tea|Pending approval", read)
        return
    assert shop.bought == ran
    assert ("Once is enough." in read) == (verdict == "reject")
    assert await none_pending(shop)
