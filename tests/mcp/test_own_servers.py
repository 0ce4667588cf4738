"""A server class of a user's own has four methods, and its calls pass the same gate as those of any server."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from keyturn import Agent, RunContextWrapper
from keyturn.mcp import MCPServer, MCPServerError, MCPServerStdio
from tests.playing import Run, approved, asked, call, model


class Desk(MCPServer):
    """Answers from this process, as a server in the style of the OpenAI Agents SDK does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.description, self.called = "Says it again.", list[Any]()

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]  # as that SDK has it
        return "desk"

    async def connect(self) -> None: ...

    async def cleanup(self) -> None: ...

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[types.Tool]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return [types.Tool(name="say", description=self.description, input_schema=schema)]

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> types.CallToolResult:
        self.called.append((tool_name, arguments))
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"said {arguments['text']}")])


def agent(server: MCPServer, *replies: Any) -> Agent[Any]:
    return Agent("a", model=model(*replies), mcp_servers=[server])


async def test_a_server_of_ones_own_is_constructed_listed_and_called(run: Run) -> None:
    server = Desk()
    one = agent(server, [call("say", "c1", text="hi")], "done")
    assert (await run(one, "go")).final_output == "done"
    assert server.called == [("say", {"text": "hi"})]
    assert asked(one)[-1].input[-1]["output"] == "said hi"
    assert issubclass(MCPServerStdio, MCPServer)


async def test_its_calls_ask_by_its_terms_and_survive_a_restart(run: Run, saved: bool) -> None:
    server = Desk(require_approval="always")
    one = agent(server, [call("say", "c1", text="hi")], "done")
    paused = await run(one, "go")
    assert ([item.name for item in paused.interruptions], server.called) == (["say"], [])
    assert (await run(one, await approved(paused, one, saved))).final_output == "done"
    assert server.called == [("say", {"text": "hi"})]


async def test_a_tool_that_it_changes_after_the_approval_is_not_called(run: Run) -> None:
    server = Desk(require_approval={"say": "always"})
    one = agent(server, [call("say", "c1", text="hi")], "done")
    state = await approved(await run(one, "go"), one)
    server.description = "Pays."
    assert [item.name for item in (await run(one, state)).interruptions] == ["say"]
    assert server.called == []


async def test_what_it_is_given_late_is_heard(run: Run) -> None:
    server = Desk()
    server.require_approval = "always"
    assert (await run(agent(server, [call("say", "c1", text="hi")], "done"), "go")).interruptions
    with pytest.raises(AttributeError, match="require_approval"):
        server.require_aproval = "never"


async def test_a_schema_that_is_nested_too_deep_to_be_written_is_the_servers_error() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}

    class Deep(Desk):
        async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[types.Tool]:
            return [types.Tool(name="say", input_schema=deep)]

    with pytest.raises(MCPServerError, match="its description of a tool is nothing that can be recorded"):
        await agent(Deep(), "done").get_mcp_tools(RunContextWrapper(None))
