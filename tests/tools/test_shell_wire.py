"""The shell over real wires: the Responses API's own calls, and a function for everybody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from keyturn import Agent, AnthropicModel, LocalExecutor, LocalShellTool, ShellTool, UserError
from keyturn.core.items import Item
from keyturn.testing import ModelStep, function_call
from keyturn.testing.loopback.anthropic import MessagesServer
from keyturn.testing.loopback.chat import ChatServer
from keyturn.testing.loopback.responses import ResponsesServer
from tests.models.openai.serving import served
from tests.playing import play
from tests.tools.wire import bodies, decided

pytestmark = pytest.mark.usefixtures("own_key")

CALL: Item = {
    "type": "shell_call",
    "call_id": "c1",
    "status": "completed",
    "action": {"commands": ["echo hello"], "timeout_ms": 9000, "max_output_length": 100},
}
AS_FUNCTION = function_call("shell", {"commands": ["echo hello"]}, call_id="c1")
PARTS = [{"stdout": "hello\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]


def approve(state: Any, item: Any) -> None:
    assert item.preview.blocks[0].command == "echo hello"
    state.approve(item)


@pytest.mark.parametrize("kept", [False, True], ids=["whole", "previous"])
async def test_responses(streamed: bool, kept: bool, tmp_path: Any) -> None:
    script = [ModelStep([CALL], response_id="resp_1"), "done"]
    options = {"auto_previous_response_id": True} if kept else {}
    async with served(server := ResponsesServer(script)) as model:
        agent = Agent("a", model=model, tools=[ShellTool(LocalExecutor(tmp_path))])
        assert (await decided(agent, streamed, approve, **options)).final_output == "done"
    first, second = bodies(server)
    assert first["tools"] == [{"type": "shell", "environment": {"type": "local"}}]
    output = {"type": "shell_call_output", "call_id": "c1", "output": PARTS, "max_output_length": 100}
    assert second["input"][-1] == output
    assert len(second["input"]) == (1 if kept else 3)
    assert second.get("previous_response_id") == ("resp_1" if kept else None)


async def test_chat_completions_calls_it_as_a_function(streamed: bool, tmp_path: Any) -> None:
    async with served(server := ChatServer([[AS_FUNCTION], "done"])) as model:
        agent = Agent("a", model=model, tools=[tool := ShellTool(LocalExecutor(tmp_path))])
        assert (await decided(agent, streamed, approve)).final_output == "done"
    first, second = bodies(server)
    [offered] = first["tools"]
    assert (offered["type"], offered["function"]["name"]) == ("function", "shell")
    assert offered["function"]["parameters"] == tool.params_json_schema
    assert json.loads(second["messages"][-1]["content"]) == PARTS


async def test_anthropic_calls_it_as_a_function(streamed: bool, tmp_path: Any) -> None:
    async with MessagesServer([[AS_FUNCTION], "done"]) as server:
        model = AnthropicModel("m", api_key="k", base_url=server.base_url)
        agent = Agent("a", model=model, tools=[ShellTool(LocalExecutor(tmp_path))])
        assert (await decided(agent, streamed, approve)).final_output == "done"
    [told] = bodies(server)[1]["messages"][-1]["content"]
    assert json.loads(told["content"]) == PARTS


async def test_a_local_shell_call(streamed: bool, tmp_path: Any) -> None:
    action = {"type": "exec", "command": ["echo", "hello"], "env": {}}
    call = {"type": "local_shell_call", "call_id": "c1", "status": "completed", "action": action}
    async with served(server := ResponsesServer([[call], "done"])) as model:
        agent = Agent("a", model=model, tools=[LocalShellTool(LocalExecutor(tmp_path))])
        assert (await decided(agent, streamed, approve)).final_output == "done"
    first, second = bodies(server)
    assert first["tools"] == [{"type": "local_shell"}]
    assert json.loads(second["input"][-1]["output"]) == PARTS


async def test_what_only_openai_has_is_offered_to_nobody_else() -> None:
    for tool in (ShellTool(environment={"type": "container_auto"}), LocalShellTool(lambda _request: "")):
        async with MessagesServer(["done"]) as server:
            model = AnthropicModel("m", api_key="k", base_url=server.base_url)
            with pytest.raises(UserError, match="Responses API"):
                await play(Agent("a", model=model, tools=[tool]), "go")
        assert bodies(server) == []
