"""A list that changes behind the gate: clients of both versions hear of it, and of nothing that was not declared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from keyturn import ExternalAgent
from keyturn.directory.login import Login
from keyturn.mcp_gate.changes import PassingServer
from tests.mcp_gate.painters import gate_before
from tests.mcp_gate.shops import Shop, text_of
from tests.server.programs import Port


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


def _tool(name: str) -> types.Tool:
    return types.Tool(name=name, description=f"The tool {name}.", input_schema={"type": "object"})


def growing() -> Server[Any]:
    """Make a server that has one more tool once its first one was called, and notifies as both versions do."""
    tools, bus = [_tool("grow")], InMemorySubscriptionBus()

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "grow":
            tools.append(_tool("sell"))
            await bus.publish(ToolsListChanged())
            await context.session.send_tool_list_changed()
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} ran")])

    made = PassingServer("growing", on_list_tools=listed, on_call_tool=called)
    made.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus))
    made.changes = type(made.changes)(tools_changed=True)
    return made


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("client_era", ["auto", "legacy"])
async def test_a_client_hears_that_the_tools_changed_and_the_new_one_requires_a_person(
    shop: Shop, era: str, client_era: Any
) -> None:
    heard = asyncio.Event()

    async def hears(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            heard.set()

    async with (
        gate_before(shop, growing(), era, "*") as server,
        Client(server, mode=client_era, message_handler=hears) as client,
    ):
        declared = client.server_capabilities.tools
        assert declared is not None
        assert declared.list_changed
        assert client.server_capabilities.prompts is None
        stream = client.listen(tools_list_changed=True) if client_era == "auto" else nullcontext()
        async with stream, asyncio.timeout(60):
            assert text_of(await client.call_tool("grow", {})) == "grow ran"
            await heard.wait()
        assert [tool.name for tool in (await client.list_tools()).tools] == ["grow", "sell"]
        selling = asyncio.ensure_future(client.call_tool("sell", {}))
        row = await shop.decided("reject", by=Login("ada"), message="Not this one.")
        assert (row.tool, row.params["tool"]) == ("accept_tool_definition", "sell")
        assert "Not this one." in text_of(await selling)


async def test_of_a_server_that_declares_no_changes_none_are_declared(shop: Shop) -> None:
    plain = Server[Any]("plain", on_list_tools=lambda *_: _none())
    async with gate_before(shop, plain, "legacy") as server, Client(server, mode="legacy") as client:
        declared = client.server_capabilities.tools
        assert declared is not None
        assert not declared.list_changed


async def _none() -> types.ListToolsResult:
    return types.ListToolsResult(tools=[])
