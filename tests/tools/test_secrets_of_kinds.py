"""What a tool of any kind marks as secret: nothing of it is in what people are shown of its calls."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest.mock import Mock

import msgspec
import pytest

from keyturn import (
    Agent,
    ApplyPatchEditor,
    ApplyPatchTool,
    Computer,
    ComputerTool,
    CustomTool,
    HostedMCPTool,
    LocalShellTool,
    Runner,
    ShellTool,
    function_tool,
)
from keyturn.core.preview import Preview, Text
from keyturn.core.request import request_of
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.base import Prepared, Tool

PASSWORD = "hunter2-4242"


class _Radio(Tool):
    kind: ClassVar[str] = "radio"

    def __init__(self) -> None:
        self.name = "radio"
        self.needs_approval = True

    def spec(self) -> dict[str, Any]:
        return {"name": self.name}

    def prepare(self, item: Any) -> Prepared:
        return Prepared(item["arguments"])

    async def invoke(self, context: Any, prepared: Prepared) -> str:
        return prepared.text

    def output(self, item: Any, value: Any) -> Any:
        return {"type": "function_call_output", "call_id": item["call_id"], "output": value}

    def preview(self, params: Any) -> Preview:
        return Preview((Text(f"tune with {params['key']}"),), summary=params["key"])


def _ran(_request: Any) -> str:
    return "ran"


async def _echo(_context: Any, text: str) -> str:
    return text


@function_tool(needs_approval=True)
def pay(user: str, password: str) -> str:
    """Pay."""
    return user + password


def _computer() -> ComputerTool[Any]:
    desk = Mock(spec=Computer, environment="browser", dimensions=(10, 10))
    return ComputerTool(desk, needs_approval=True)


def _agent() -> Tool:
    return Agent("sub", model=ScriptedModel([])).as_tool("sub", "Ask.", needs_approval=True)


def _call(kind: str, **said: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "c", **said}


_REQUEST = {"type": "mcp_approval_request", "id": "m", "server_label": "docs", "name": "log_in"}
_SERVER: Any = {"type": "mcp", "server_label": "docs", "server_url": "https://d.example"}
_TYPED: Any = {"actions": [{"type": "type", "text": PASSWORD}], "pending_safety_checks": []}
_SHELL: Any = {"type": "exec", "command": ["ls"], "env": {"TOKEN": PASSWORD}}
_PATCH = {"type": "create_file", "path": "a", "diff": f"+{PASSWORD}"}
KINDS: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "function": (lambda: pay, "password", function_call("pay", {"user": "a", "password": PASSWORD}, call_id="c")),
    "agent": (_agent, "input", function_call("sub", {"input": PASSWORD}, call_id="c")),
    "one's own": (_Radio, "key", function_call("radio", {"key": PASSWORD}, call_id="c")),
    "hosted": (lambda: HostedMCPTool(_SERVER), "key", _REQUEST | {"arguments": f'{{"key": "{PASSWORD}"}}'}),
    "computer": (_computer, "actions.text", _call("computer_call", **_TYPED)),
    "local shell": (lambda: LocalShellTool(_ran), "env", _call("local_shell_call", action=_SHELL)),
    "shell": (lambda: ShellTool(_ran), "commands", _call("shell_call", action={"commands": [f"echo {PASSWORD}"]})),
    "patch": (lambda: ApplyPatchTool(Mock(spec=ApplyPatchEditor)), "diff", _call("apply_patch_call", operation=_PATCH)),
    "text": (
        lambda: CustomTool(name="q", description="", on_invoke_tool=_echo, needs_approval=True),
        "input",
        _call("custom_tool_call", name="q", input=PASSWORD),
    ),
}


@pytest.mark.each
@pytest.mark.parametrize("kind", KINDS)
async def test_no_secret_is_in_a_request_of_a_tool_of_any_kind(kind: str) -> None:
    made, secret, call = KINDS[kind]
    tool = made()
    tool.secrets = (secret,)
    paused = await Runner.run(Agent("desk", model=ScriptedModel([[call]]), tools=[tool]), "go")
    [item] = paused.interruptions
    run = paused.to_state().live.run
    request = request_of(run, run.calls["r/1.0"])
    assert request.secrets == (secret,)
    assert PASSWORD not in msgspec.json.encode(request).decode()
    assert "[redacted]" in msgspec.json.encode(request.preview).decode()
    assert PASSWORD not in str(item.raw_item)
