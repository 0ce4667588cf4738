"""MCP servers, hosted and local: which of their calls ask, and what comes of a decision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    HostedMCPTool,
    MCPServerStdio,
    MCPToolApprovalFunctionResult,
    MCPToolApprovalRequest,
    OpenAIResponsesModel,
)
from keyturn.testing import ScriptedModel, function_call
from keyturn.testing.loopback.responses import ResponsesServer
from tests import forked
from tests.playing import Run
from tests.seeds.conftest import outputs


def request_of(name: str, label: str) -> dict[str, Any]:
    about = {"server_label": "archive", "name": name, "arguments": json.dumps({"play": "Hamlet"})}
    return {"type": "mcp_approval_request", "id": label, **about}


def archive(required: Any, on_approval_request: Any = None) -> HostedMCPTool:
    return HostedMCPTool(
        tool_config={
            "type": "mcp",
            "server_label": "archive",
            "server_url": "https://archive.example.com/sse",
            "require_approval": required,
        },
        on_approval_request=on_approval_request,
    )


@pytest.mark.parametrize("required", ["always", "never", {"always": {"tool_names": ["lend", "burn"]}}], ids=str)
async def test_a_hosted_server_asks(run: Run, required: Any) -> None:
    """What asks is the provider's affair; what it asks about waits."""
    replies = ["There are twelve."] if required == "never" else [[request_of("lend", "m1"), request_of("burn", "m2")]]
    with ResponsesServer([*replies, "The prompt book of Hamlet is yours."]) as server:
        model = OpenAIResponsesModel("gpt-test", api_key="sk-test", base_url=server.base_url)
        agent = Agent(name="Archivist", instructions="You know all plays.", model=model, tools=[archive(required)])
        result = await run(agent, "The prompt book of Hamlet, please")
        sent: Any = server.requests[0].json
        assert sent["tools"][0]["require_approval"] == required
        if required == "never":
            assert (result.interruptions, result.final_output) == ([], "There are twelve.")
            return
        state = result.to_state()
        for interruption in result.interruptions:
            if interruption.name == "lend":
                state.approve(interruption)
            else:
                state.reject(interruption, rejection_message="It is the only copy.")
        result = await run(agent, state)
        assert result.final_output == "The prompt book of Hamlet is yours."
        told: Any = server.requests[1].json
    answers = {
        item["approval_request_id"]: item for item in told["input"] if item.get("type") == "mcp_approval_response"
    }
    assert answers["m1"]["approve"] is True
    assert (answers["m2"]["approve"], answers["m2"]["reason"]) == (False, "It is the only copy.")


async def test_a_hosted_server_is_answered_in_line(run: Run) -> None:
    def decide(request: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
        if request.data.name == "lend":
            return {"approve": True}
        return {"approve": False, "reason": "not in this house"}

    model = ScriptedModel([[request_of("lend", "m1"), request_of("burn", "m2")], "Done."])
    agent = Agent(name="Archivist", model=model, tools=[archive("always", decide)])
    result = await run(agent, "Lend me Hamlet and burn it")
    assert (result.interruptions, result.final_output) == ([], "Done.")
    assert [item["approve"] for item in model.calls[-1].input[-2:]] == [True, False]


STAGE = """
import sys
from pathlib import Path
from mcp.server import MCPServer

server = MCPServer("stage", log_level="ERROR")

@server.tool()
def light(brightness: int) -> str:
    "Sets the light."
    return f"light at {brightness}"

@server.tool()
def curtain(up: bool) -> str:
    "Moves the curtain."
    Path(sys.argv[1]).write_text(str(up))
    return "up" if up else "down"

server.run("stdio")
"""


async def test_a_local_server_asks(run: Run, tmp_path: Path) -> None:
    moved = tmp_path / "curtain"
    calls = [
        function_call("light", {"brightness": 3}, call_id="l"),
        function_call("curtain", {"up": True}, call_id="c"),
    ]
    program, *words = forked.launcher("-c", STAGE, str(moved))
    model = ScriptedModel([calls, "Enjoy the play."])
    async with MCPServerStdio(
        params=dict(zip(("command", "args"), (program, words), strict=True)),
        name="stage",
        client_session_timeout_seconds=30,
        require_approval={"always": {"tool_names": ["curtain"]}},
    ) as server:
        agent = Agent(name="Stage manager", model=model, mcp_servers=[server])
        result = await run(agent, "Begin")
        assert [interruption.name for interruption in result.interruptions] == ["curtain"]
        assert not moved.exists()
        state = result.to_state()
        state.approve(result.interruptions[0])
        assert (await run(agent, state)).final_output == "Enjoy the play."
    assert outputs(model) == {"l": "light at 3", "c": "up"}
    assert moved.read_text() == "True"
