"""Servers that list what nobody could approve: each is a typed error, soon, and nothing was called."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, MCPServerError, function_tool
from keyturn.core.errors import UserError
from tests.mcp.conftest import calling, liar
from tests.playing import play
from tests.table import each


@each(
    ("how", "says"),
    [
        ("twins", "it lists two tools named 'say'"),
        ("10k tools", "its listing is longer than 1000 tools"),
        ("endless", "its listing did not end after 100 pages"),
        ("circle", "its listing repeats a page without end"),
        ("deep", "its description of a tool is nested deeper than 40 levels"),
        ("hang in list", "its tools could not be read: it did not answer within 0.5 s"),
    ],
)
async def test_a_listing_that_is_none_is_an_error(how: str, says: str) -> None:
    async with liar(how, seconds=0.5 if "hang" in how else 5) as server:
        with pytest.raises(MCPServerError, match=f"MCP server 'liar': {says}"):
            await play(calling(server, calls=("say", {})))


async def test_pages_may_be_bounded_further() -> None:
    async with liar("endless", max_list_pages=3) as server:
        with pytest.raises(MCPServerError, match="did not end after 3 pages"):
            await server.list_tools()


async def test_two_servers_with_one_tool_are_told_apart_or_refused(streamed: bool) -> None:
    async with liar("plain") as one, liar("plain") as other:
        other.name = "other"
        agent = calling(one, other, calls=("say", {}))
        with pytest.raises(UserError, match=r"named 'say': .* of server 'liar'.* of server 'other'.*include_server"):
            await play(agent, streamed=streamed)
        agent = calling(one, other, calls=("mcp_liar__say", {}), mcp_config={"include_server_in_tool_names": True})
        assert [tool.name for tool in await agent.get_all_tools(None)] == ["mcp_liar__say", "mcp_other__say"]  # type: ignore[arg-type]  # no filter looks at the context
        assert (await play(agent, streamed=streamed)).final_output == "said by say"


async def test_a_tool_named_as_a_function_is_refused() -> None:
    @function_tool
    def say() -> str:
        return "mine"

    async with liar("plain") as server:
        agent: Agent[Any] = calling(server, calls=("say", {}), tools=[say])
        with pytest.raises(UserError, match=r"named 'say': a function tool and a mcp tool of server 'liar'"):
            await play(agent)
