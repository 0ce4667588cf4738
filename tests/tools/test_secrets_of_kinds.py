"""What `secrets` names is shown to nobody, and a kind that shows all of what it does refuses to name any."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from keyturn import (
    Agent,
    App,
    ApplyPatchTool,
    Computer,
    ComputerTool,
    CustomTool,
    HostedMCPTool,
    LocalShellTool,
    ShellTool,
    function_tool,
)
from keyturn.testing import ScriptedModel, function_call

SECRET = "hunter2-4242"


@function_tool(needs_approval=True)
def login(password: str) -> str:
    return "in"


def hosted(url: str) -> HostedMCPTool:
    return HostedMCPTool({"type": "mcp", "server_label": "docs", "server_url": url})


def mcp_request(arguments: str) -> Any:
    return {"type": "mcp_approval_request", "id": "m", "server_label": "docs", "name": "login", "arguments": arguments}


def nested() -> Any:
    return Agent("sub", model=ScriptedModel(["x"])).as_tool("sub", "Answers.", needs_approval=True)


@pytest.mark.parametrize(
    ("tool", "secrets", "call"),
    [
        (login, "password", function_call("login", {"password": SECRET})),
        (hosted("https://d.example"), "password", mcp_request(f'{{"password":"{SECRET}"}}')),
        (nested(), "input", function_call("sub", {"input": SECRET})),
        (hosted(f"https://ann:{SECRET}@d.example/mcp?key={SECRET}"), "", mcp_request("{}")),
    ],
    ids=["a function", "a hosted server", "an agent as a tool", "the address of a hosted server"],
)
async def test_a_secret_of_a_tool_is_in_no_row_of_its_request(
    tool: Any, secrets: str, call: Any, tmp_path: Path
) -> None:
    tool.secrets = (secrets,) if secrets else ()
    async with App([Agent("a", model=ScriptedModel([[call], "d"]), tools=[tool])], "memory://") as app:
        run = await app.start("a", "go")
        await run.wait()
        [row] = await app.inbox.list()
        await app.audit.export(tmp_path / "record.jsonl")
        text = (tmp_path / "record.jsonl").read_text(encoding="utf-8")
    assert SECRET not in row.body
    assert SECRET not in text


async def custom(_context: Any, text: str) -> str:
    return text


SHOWN: list[Any] = [
    ComputerTool(Mock(spec=Computer)),
    ShellTool(lambda _request: "ok"),
    LocalShellTool(lambda _request: "ok"),
    ApplyPatchTool(Mock()),
    CustomTool("query", "Runs it.", custom),
]


@pytest.mark.parametrize("tool", SHOWN, ids=lambda tool: tool.kind)
def test_a_kind_that_shows_all_of_what_it_does_refuses_to_withhold_a_part(tool: Any) -> None:
    with pytest.raises(AttributeError, match=r"'secrets' of tool .* cannot be set: people decide by all of what it"):
        tool.secrets = ("input",)


def test_servers_that_differ_in_what_an_address_hides_are_different_servers() -> None:
    plain = hosted("https://d.example/mcp")
    first, second = (hosted(f"https://d.example/mcp?tenant={name}") for name in ("staging", "prod"))
    assert "origin" not in plain.spec()
    assert first.spec()["config"] == second.spec()["config"] == plain.spec()["config"]
    assert first.spec()["origin"] != second.spec()["origin"]
