"""What a server asks within a call goes to the user of the client that called, whichever version each of them has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from keyturn import ExternalAgent
from keyturn.client.client import AsyncClient
from keyturn.mcp_gate.exchanges import Exchanges
from keyturn.mcp_gate.holding import Holding
from keyturn.mcp_gate.pins import Pins
from keyturn.mcp_gate.proxy import McpGate
from keyturn.mcp_gate.records import GateRecords
from tests.mcp_gate.shops import Shop, text_of
from tests.server.programs import Port

COLOR = {"type": "object", "properties": {"color": {"type": "string"}}}
ASKED = types.ElicitRequestFormParams(message="Which color?", requested_schema=COLOR)
TOOL = types.Tool(name="paint", description="Paint it.", input_schema={"type": "object"})
ERAS = ("auto", "legacy")


def painter(done: list[str]) -> Server[Any]:
    """Make a server that asks for a color before it paints, in the words of the version of whoever calls."""

    async def tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[TOOL])

    async def call(context: Any, params: types.CallToolRequestParams) -> Any:
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


async def red(_context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Answer as the user of a client."""
    assert params.message == "Which color?"
    return types.ElicitResult(action="accept", content={"color": "red"})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        yield Shop(port, tmp_path_factory.mktemp("shop"))


@asynccontextmanager
async def gate_of(shop: Shop, done: list[str], era: str, *ungated: str) -> AsyncGenerator[Server[Any]]:
    exchanges = Exchanges()
    async with (
        AsyncClient(shop.port.url, shop.token) as keyturn,
        Client(painter(done), mode=era, elicitation_callback=exchanges.elicited) as up,
    ):
        gate = McpGate(up, exchanges, Pins(GateRecords()), Holding(keyturn.asks, 30), ungated=ungated)
        await gate.begin()
        yield gate.server()


@pytest.mark.parametrize("era", ERAS)
async def test_the_user_of_the_client_is_asked_what_the_server_asks(shop: Shop, era: str) -> None:
    for own in ERAS:
        done: list[str] = []
        async with gate_of(shop, done, era) as server:
            async with Client(server, mode=own, elicitation_callback=red) as client:
                painting = asyncio.ensure_future(client.call_tool("paint", {}))
                row = await shop.decided("approve")
                assert text_of(await painting) == "painted red", (era, own)
                assert done == ["red"]
                state = await shop.there(shop.port.app.asks.get(row.run, account="editor"))
                assert state.status == "succeeded"
            async with Client(server, mode=own) as mute:  # which declares that it can ask no user
                painting = asyncio.ensure_future(mute.call_tool("paint", {}))
                await shop.decided("approve")
                assert text_of(await painting) == "painted decline", (era, own)


@pytest.mark.parametrize("era", ERAS)
async def test_a_state_answers_the_question_of_its_own_call_once(shop: Shop, era: str) -> None:
    done: list[str] = []
    answers: Any = {
        name: types.ElicitResult(action="accept", content={"color": "red"}) for name in ("color", "question")
    }

    async with gate_of(shop, done, era) as server, Client(server, elicitation_callback=red) as client:

        async def called(arguments: dict[str, Any], state: str | None = None, tool: str = "paint") -> Any:
            return await client.session.call_tool(
                tool, arguments, input_responses=answers if state else None, request_state=state,
                allow_input_required=True,
            )  # fmt: skip

        for forged in ("forged", "the server's own"):
            assert "answers no question" in text_of(await called({}, forged))
        assert await shop.there(shop.port.app.inbox.list()) == []
        painting = asyncio.ensure_future(called({"wall": "north"}))
        await shop.decided("approve")
        asked = await painting
        assert isinstance(asked, types.InputRequiredResult)
        assert asked.request_state != "the server's own"
        assert "answers no question" in text_of(await called({"wall": "south"}, asked.request_state))
        assert "answers no question" in text_of(await called({"wall": "north"}, asked.request_state, "burn"))
        assert done == []
        assert text_of(await called({"wall": "north"}, asked.request_state)) == "painted red"
        assert "answers no question" in text_of(await called({"wall": "north"}, asked.request_state))
        assert done == ["red"]


async def test_a_server_that_asks_while_two_calls_are_at_work_is_declined() -> None:
    exchanges = Exchanges()
    at_work = [asyncio.Event() for _ in range(2)]

    async def working(event: asyncio.Event, _exchange: Any) -> types.CallToolResult:
        await event.wait()
        return types.CallToolResult(content=[])

    calls = [
        asyncio.ensure_future(exchanges.begun(None, str(number), lambda each, event=event: working(event, each)))
        for number, event in enumerate(at_work)
    ]
    await asyncio.wait(calls, timeout=0)
    assert (await exchanges.elicited(None, ASKED)).action == "decline"
    for event in at_work:
        event.set()
    await asyncio.gather(*calls)
