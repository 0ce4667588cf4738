"""Tools that servers bring are gated by name as well; a name that none brings is refused before the first turn."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import UserError, function_tool
from keyturn.deep import create_deep_agent
from keyturn.testing import function_call
from tests.deep.playing_deep import Play, answered, asked, delegates, model


class Server:
    """Brings one tool, as an MCP server does."""

    def __init__(self, done: list[str]) -> None:
        self.done = done

    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        @function_tool
        def deploy(to: str) -> str:
            """Deploy."""
            self.done.append(to)
            return "deployed"

        return [deploy]


async def test_a_tool_of_a_server_is_gated(play: Play) -> None:
    done: list[str] = []
    scripted = model(function_call("deploy", {"to": "prod"}), "Done.")
    agent = create_deep_agent(scripted, mcp_servers=[Server(done)], interrupt_on={"deploy": True})
    waits = await play(agent)
    assert (asked(waits), done) == (["deploy"], [])
    assert (await answered(play, agent, waits)).output == "Done."
    assert done == ["prod"]


async def test_a_tool_of_a_server_is_gated_in_a_subagent(play: Play) -> None:
    done: list[str] = []
    scripted = model(delegates(), function_call("deploy", {"to": "prod"}), "It is done.", "Done.")
    agent = create_deep_agent(scripted, mcp_servers=[Server(done)], interrupt_on={"deploy": True})
    waits = await play(agent)
    assert (asked(waits), done) == (["deploy"], [])


async def test_a_name_that_no_server_brings_is_refused_before_the_first_turn(play: Play) -> None:
    done: list[str] = []
    scripted = model(function_call("deploy", {"to": "prod"}), "Done.")
    agent = create_deep_agent(scripted, mcp_servers=[Server(done)], interrupt_on={"deplyo": True})
    with pytest.raises(UserError, match=r"interrupt_on names 'deplyo', and there is no such tool; there are .*deploy"):
        await play(agent)
    assert (scripted.calls, done) == ([], [])


async def test_a_subagents_own_tools_leave_its_parents_servers_behind(play: Play) -> None:
    done: list[str] = []
    spec: Any = {"name": "writer", "description": "Writes.", "instructions": "Write.", "tools": []}
    inner = model("ok")
    agent = create_deep_agent(
        model(delegates(to="writer"), "Done."), mcp_servers=[Server(done)], subagents=[{**spec, "model": inner}]
    )
    assert (await play(agent)).output == "Done."
    assert "deploy" not in {tool.name for tool in inner.calls[0].tools}
