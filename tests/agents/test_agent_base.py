"""Which tools an agent offers now, and that no two of them share a name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keyturn.agents.agent import Agent
from keyturn.agents.agent_base import check_names, snake_name, takes
from keyturn.agents.context import RunContextWrapper
from keyturn.agents.handoff import handoff
from keyturn.core.errors import UserError
from keyturn.tools.function import FunctionTool

CONTEXT = RunContextWrapper("ctx")


def tool(name: str, **options: Any) -> FunctionTool:
    async def run(context: Any, arguments: str) -> str:
        return name

    return FunctionTool(name, f"does {name}", {}, run, **options)


class Server:
    def __init__(self, *tools: FunctionTool) -> None:
        self.tools = list(tools)
        self.asked: list[Any] = []

    async def tools_for(self, context: Any, agent: Any) -> list[Any]:
        self.asked.append((context, agent))
        return self.tools


def names(tools: list[Any]) -> list[str]:
    return [each.name for each in tools]


async def test_switches_need_no_waiting() -> None:
    agent: Agent[Any] = Agent(name="a", tools=[tool("on"), tool("off", is_enabled=False), SimpleNamespace(name="web")])
    assert names(agent.static_tools() or []) == ["on", "web"]
    assert names(await agent.get_all_tools(CONTEXT)) == ["on", "web"]
    assert agent.static_tools() is not agent.tools


async def test_functions_decide_sync_and_async() -> None:
    async def later(context: Any, agent: Any) -> bool:
        return context is CONTEXT and agent.name == "a"

    tools = [tool("x", is_enabled=later), tool("y", is_enabled=lambda context, agent: False), tool("z")]
    agent: Agent[Any] = Agent(name="a", tools=tools)
    assert agent.static_tools() is None
    assert names(await agent.get_all_tools(CONTEXT)) == ["x", "z"]


async def test_servers_bring_tools_of_their_own() -> None:
    server = Server(tool("remote"), tool("hidden", is_enabled=False))
    agent: Agent[Any] = Agent(name="a", tools=[tool("own")], mcp_servers=[server])
    assert names(await agent.get_all_tools(CONTEXT)) == ["own", "remote"]
    assert names(await agent.get_mcp_tools(CONTEXT)) == ["remote"]
    assert server.asked == [(CONTEXT, agent), (CONTEXT, agent)]


async def test_a_server_that_brings_no_tools_is_named() -> None:
    agent: Agent[Any] = Agent(name="a", mcp_servers=["http://localhost"])
    with pytest.raises(UserError, match=r"mcp_servers of agent 'a': str brings no tools; .*tools_for"):
        await agent.get_all_tools(CONTEXT)


async def test_a_switch_that_raises_is_not_taken_for_yes() -> None:
    def broken(context: Any, agent: Any) -> bool:
        raise LookupError("flags are down")

    with pytest.raises(LookupError):
        await Agent(name="a", tools=[tool("x", is_enabled=broken)]).get_all_tools(CONTEXT)


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    check_names([tool("a"), tool("b")])
    same = tool("a")
    check_names([same, same])
    with pytest.raises(UserError, match=r"two tools of one agent are named 'transfer_to_b': .*does transfer_to_b.*"):
        check_names([tool("transfer_to_b"), handoff(Agent(name="B"))])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Refund Agent", "refund_agent"),
        ("a-b.c/d", "a_b_c_d"),
        ("Été", "_t_"),
        ("plain", "plain"),
    ],
)
def test_a_tools_name_is_made_of_safe_letters(text: str, name: str) -> None:
    assert snake_name(text) == name


def test_callables_are_counted_by_what_they_accept() -> None:
    assert takes(lambda a, b: None, 2)
    assert takes(lambda *all: None, 2)
    assert takes(lambda a, b=1: None, 1)
    assert not takes(lambda a: None, 2)
    assert not takes(lambda a, *, b: None, 1)
    assert takes(dict, 2)  # a builtin without a signature: the call will tell
