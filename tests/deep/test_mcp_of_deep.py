"""Real MCP servers over stdio and streamable HTTP: `interrupt_on` gates their tools, at every depth of subagents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import App, Approval, MCPServerStdio, MCPServerStreamableHttp, UserError
from keyturn.deep import DeepAgent, create_deep_agent
from keyturn.testing import function_call
from tests import forked
from tests.deep.playing_deep import Play, answered, asked, delegates, model, told
from tests.mcp.conftest import Program

SHOP = Path(__file__).parents[1] / "mcp" / "servers" / "shop.py"
PAY = function_call("pay", {"to": "ada", "amount": 5}, call_id="p1")
WEATHER = function_call("weather", {"city": "Rome"}, call_id="w1")


@contextmanager
def over_http(shop: Path) -> Iterator[MCPServerStreamableHttp]:
    """The shop in a process of its own, on the loopback."""
    with Program("streamable-http", shop) as program:
        yield MCPServerStreamableHttp({"url": program.url}, name="shop", client_session_timeout_seconds=20)


@contextmanager
def over_stdio(shop: Path) -> Iterator[MCPServerStdio]:
    """The shop as a program that the server object starts."""
    program, *words = forked.launcher(str(SHOP), "stdio")
    command: Any = {"command": program, "args": words, "env": {"SHOP": str(shop)}}
    yield MCPServerStdio(command, name="shop", client_session_timeout_seconds=20)


@pytest.fixture(params=[over_stdio, over_http], ids=["stdio", "http"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "log").touch()
    with request.param(tmp_path) as made:
        yield made


def log(shop: Path) -> list[str]:
    return (shop / "log").read_text().splitlines()


def paid(shop: Path) -> list[str]:
    return [line for line in log(shop) if line.startswith("pay")]


async def test_a_tool_of_a_real_server_asks(play: Play, server: Any, tmp_path: Path) -> None:
    scripted = model([PAY, WEATHER], "Done.")
    async with server:
        agent = create_deep_agent(scripted, mcp_servers=[server], interrupt_on={"pay": True})
        waits = await play(agent)
        assert (asked(waits), paid(tmp_path)) == (["pay"], [])
        assert waits.output.approvals[0].args == {"to": "ada", "amount": 5}
        done = await answered(play, agent, waits)
    assert (done.output, paid(tmp_path)) == ("Done.", ["pay ada 5"])
    assert "paid 5 to ada" in told(scripted)[0]


async def test_it_asks_in_subagents_of_subagents(play: Play, server: Any, tmp_path: Path) -> None:
    depth = 2
    scripted = model(*[delegates()] * depth, PAY, *["ok"] * depth, "Done.")
    async with server:
        agent = create_deep_agent(scripted, mcp_servers=[server], interrupt_on={"pay": True}, max_depth=depth)
        waits = await play(agent)
        assert (asked(waits), paid(tmp_path)) == (["pay"], [])
        assert waits.output.approvals[0].agent.count("task") == depth
        done = await answered(play, agent, waits, approvals={waits.output.approvals[0].tool_call_id: False})
    assert (done.output, paid(tmp_path)) == ("Done.", [])


async def test_a_callable_says_which_calls_of_it_ask(play: Play, server: Any, tmp_path: Path) -> None:
    def much(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return params["amount"] > 100

    calls = [PAY, function_call("pay", {"to": "bob", "amount": 500}, call_id="p2")]
    async with server:
        agent = create_deep_agent(model(delegates(), calls, "ok", "Done."), mcp_servers=[server],
                                  interrupt_on={"pay": much})  # fmt: skip
        waits = await play(agent)
        assert [part.args["to"] for part in waits.output.approvals] == ["bob"]
        assert paid(tmp_path) == ["pay ada 5"]


async def test_a_name_that_no_real_server_brings_is_refused_before_the_first_turn(play: Play, server: Any) -> None:
    scripted = model(PAY, "Done.")
    async with server:
        agent = create_deep_agent(scripted, mcp_servers=[server], interrupt_on={"pya": True})
        with pytest.raises(UserError, match=r"interrupt_on names 'pya', and there is no such tool; there are .*pay"):
            await play(agent)
    assert scripted.calls == []


async def test_an_app_opens_the_server_and_its_inbox_decides(server: Any, tmp_path: Path) -> None:
    rules = {"pay": Approval(expires="4h")}
    made: DeepAgent = create_deep_agent(
        model(delegates(), PAY, "ok", "Done."), mcp_servers=[server], interrupt_on=rules, name="ops"
    )
    async with App([made], "memory://") as app:
        run = await app.start("ops", "Pay Ada.")
        assert (await run.wait(20)).status == "waiting"
        [request] = await app.inbox.list()
        assert (request.tool, request.params, paid(tmp_path)) == ("pay", {"to": "ada", "amount": 5}, [])
        assert request.expires_at is not None
        await app.inbox.approve(request, by="ann")
        assert (await run.result()).final_output == "Done."
    assert paid(tmp_path) == ["pay ada 5"]
