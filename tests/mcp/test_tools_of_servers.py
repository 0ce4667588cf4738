"""`MCPUtil`: the tools of several servers as an agent would have them, for code that wants them by itself."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer as Served

from keyturn import Agent, MCPUtil, UserError
from tests.mcp.conftest import Inside


def shop(name: str) -> Inside:
    served = Served(name)

    @served.tool()
    def add(a: int, b: int) -> str:
        """Add."""
        return f"{name}: {a + b}"

    return Inside(served, name, require_approval="always")


async def test_tools_are_gated_as_their_server_says_and_named_as_asked() -> None:
    agent: Agent[Any] = Agent("a", mcp_config={"convert_schemas_to_strict": True})
    async with shop("one") as one, shop("two") as two:
        [tool] = await MCPUtil.get_function_tools(one, agent=agent)
        assert tool.needs_approval is True
        assert tool.strict_json_schema
        [loose] = await MCPUtil.get_function_tools(one, False, agent=agent)
        assert not loose.strict_json_schema
        with pytest.raises(UserError, match="both have a tool 'add'"):
            await MCPUtil.get_all_function_tools([one, two], agent=agent)
        both = await MCPUtil.get_all_function_tools([one, two], agent=agent, include_server_in_tool_names=True)
        assert [tool.name for tool in both] == ["mcp_one__add", "mcp_two__add"]


async def test_a_tool_can_be_called_at_once() -> None:
    async with shop("one") as one:
        [tool] = await one.list_tools()
        assert await MCPUtil.invoke_mcp_tool(one, tool, None, '{"a": 2, "b": 3}') == "one: 5"
        with pytest.raises(UserError, match="must be a JSON object"):
            await MCPUtil.invoke_mcp_tool(one, tool, None, "[]")
        with pytest.raises(UserError, match="arguments of add are"):
            await MCPUtil.invoke_mcp_tool(one, tool, None, '{"a": 1, "a": 2}')
