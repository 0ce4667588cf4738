"""What a server answers to a call reaches the client as it is, and its request says what came of the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from keyturn import ExternalAgent
from keyturn.policies.rules import Policy, allow
from tests.mcp_gate.painters import gate_before
from tests.mcp_gate.shops import Shop
from tests.server.programs import Port

NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with Port(more=[ExternalAgent()]) as port:
        port.app.policy = Policy(allow())
        yield Shop(port, tmp_path_factory.mktemp("shop"))


def counter(answers: list[Any]) -> Server[Any]:
    """Make a server whose tool answers these, one after another; it says that it answers a number."""

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        tool = types.Tool(name="count", description="Count.", input_schema={"type": "object"}, output_schema=NUMBER)
        return types.ListToolsResult(tools=[tool])

    async def called(_context: Any, _params: types.CallToolRequestParams) -> types.CallToolResult:
        made = answers.pop(0)
        if isinstance(made, Exception):
            raise made
        text = types.TextContent(type="text", text="counted")
        return types.CallToolResult(content=[text], structured_content=made)

    return Server("counter", on_list_tools=listed, on_call_tool=called)


async def test_a_result_that_does_not_fit_its_schema_is_for_the_client_to_refuse_and_is_not_in_doubt(
    shop: Shop,
) -> None:
    behind = counter([{"number": 1}, {"number": "one"}, None])
    async with gate_before(shop, behind, "auto") as server, Client(server) as client:
        assert (await client.call_tool("count", {"at": 1})).structured_content == {"number": 1}
        for at in (2, 3):
            with pytest.raises(RuntimeError, match="structured content"):  # as the client itself says it
                await client.call_tool("count", {"at": at})
    found = await statuses(shop)
    assert [found[at] for at in "123"] == ["succeeded"] * 3


async def test_a_call_that_its_server_refuses_by_the_protocol_failed_and_is_not_in_doubt(shop: Shop) -> None:
    codes = {4: types.INVALID_PARAMS, 5: types.METHOD_NOT_FOUND, 6: types.INVALID_REQUEST, 7: types.INTERNAL_ERROR}
    errors = [MCPError(code=code, message="not so") for code in codes.values()]
    async with gate_before(shop, counter([*errors]), "auto") as server, Client(server) as client:
        for at, code in codes.items():
            with pytest.raises(MCPError, match="not so") as raised:
                await client.call_tool("count", {"at": at})
            assert raised.value.code == code
    found = await statuses(shop)
    assert [found[at] for at in "456"] == ["failed"] * 3
    assert found["7"] == "in_doubt", "what was done before is not known"


async def statuses(shop: Shop) -> dict[str, str]:
    """Return how each request stands, by its argument."""
    app, found = shop.port.app, dict[str, str]()
    for row in await shop.there(app.runs()):
        state = await shop.there(app.asks.get(row.run, account="editor"))
        found["".join(filter(str.isdigit, state.arguments))] = state.status
    return found
