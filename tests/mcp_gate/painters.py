"""A server that asks before it paints, a gate before it, and a user who answers. No test is here."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import Server

from keyturn.client.client import AsyncClient
from keyturn.mcp_gate.changes import ListChanges
from keyturn.mcp_gate.exchanges import Exchanges
from keyturn.mcp_gate.holding import Holding
from keyturn.mcp_gate.pins import Pins
from keyturn.mcp_gate.proxy import McpGate
from keyturn.mcp_gate.records import GateRecords
from tests.mcp_gate.shops import Shop

COLOR = {"type": "object", "properties": {"color": {"type": "string"}}}
ASKED = types.ElicitRequestFormParams(message="Which color?", requested_schema=COLOR)
RED = types.ElicitResult(action="accept", content={"color": "red"})
TOOL = types.Tool(name="paint", description="Paint it.", input_schema={"type": "object"})


def painter(done: list[str]) -> Server[Any]:
    """Make a server that asks for a color before it paints, in the words of the version of whoever calls."""

    async def tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[TOOL])

    async def call(context: Any, params: types.CallToolRequestParams) -> Any:
        if params.arguments == {"wall": "fallen"}:
            raise RuntimeError("there is no such wall")
        if context.protocol_version < "2026":
            answer: Any = await context.session.elicit_form(ASKED.message, COLOR, related_request_id=context.request_id)
        elif params.input_responses is None:
            asked = {"color": types.ElicitRequest(params=ASKED)}
            return types.InputRequiredResult(input_requests={**asked}, request_state="the server's own")
        else:
            assert params.request_state == "the server's own"
            answer = params.input_responses["color"]
        words = answer.content["color"] if answer.action == "accept" else answer.action
        done.append(words)
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"painted {words}")])

    return Server("painter", on_list_tools=tools, on_call_tool=call)


async def red(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Answer as the user of a client."""
    del context
    assert params.message == "Which color?"
    return RED


@asynccontextmanager
async def gate_of(
    shop: Shop, done: list[str], era: str, *ungated: str, records: GateRecords | None = None
) -> AsyncGenerator[Server[Any]]:
    """Put a gate before the server, whose version is given; at its end held calls are told to call again."""
    async with gate_before(shop, painter(done), era, *ungated, records=records) as server:
        yield server


@asynccontextmanager
async def gate_before(
    shop: Shop, behind: Server[Any], era: str, *ungated: str, records: GateRecords | None = None
) -> AsyncGenerator[Server[Any]]:
    """Put a gate before any server."""
    exchanges, changes = Exchanges(), ListChanges()
    async with (
        AsyncClient(shop.port.url, shop.token) as keyturn,
        Client(behind, mode=era, elicitation_callback=exchanges.elicited, message_handler=changes.received) as up,
    ):
        holding = Holding(keyturn.asks, 30, records)
        gate = McpGate(up, exchanges, changes, Pins(GateRecords()), holding, ungated=ungated)
        await gate.begin()
        yield gate.server()
        holding.stop()
        await gate.end()
