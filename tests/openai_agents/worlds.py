"""The agents whose paused states are in `states/`: one SDK makes the states, the other loads them, for the same agents.

`done` is what the tools did. Nothing here imports an SDK: the module to build with is an argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from tests import forked

World = Callable[[ModuleType, Callable[[str], Any], list[str]], Any]


def tools(sdk: ModuleType, done: list[str]) -> tuple[Any, Any, Any]:
    """Make a tool that asks, one that does not, and one that asks and then fails."""

    @sdk.function_tool(needs_approval=True)
    def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        done.append(f"pay {to} {amount}")
        return f"paid {amount} to {to}"

    @sdk.function_tool
    def look(name: str) -> str:
        """Look somebody up."""
        done.append(f"look {name}")
        return f"{name} is known"

    @sdk.function_tool(needs_approval=True, failure_error_function=None)
    def wire(to: str) -> str:
        """Wire money to somebody."""
        done.append(f"wire {to}")
        raise RuntimeError("the line went dead")

    return pay, look, wire


def desk(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """One agent with function tools."""
    return sdk.Agent(name="desk", model=model("desk"), tools=list(tools(sdk, done)))


def nested(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent that asks an agent that asks an agent; the innermost pays."""
    pay, look, _wire = tools(sdk, done)
    payer = sdk.Agent(name="payer", model=model("payer"), tools=[pay, look])
    clerk = sdk.Agent(
        name="clerk", model=model("clerk"), tools=[payer.as_tool("ask_payer", "Asks the payer."), pay, look]
    )
    return sdk.Agent(name="desk", model=model("desk"), tools=[clerk.as_tool("ask_clerk", "Asks the clerk."), look])


def gated_agent(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent whose agent tool asks before it is used at all."""
    pay, look, _wire = tools(sdk, done)
    payer = sdk.Agent(name="payer", model=model("payer"), tools=[pay])
    asked = payer.as_tool("ask_payer", "Asks the payer.", needs_approval=True)
    return sdk.Agent(name="desk", model=model("desk"), tools=[asked, look])


def handing_over(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent that hands over to one that pays and hands back."""
    pay, look, _wire = tools(sdk, done)
    payer = sdk.Agent(name="payer", model=model("payer"), tools=[pay])
    front = sdk.Agent(name="front", model=model("front"), tools=[look], handoffs=[payer])
    payer.handoffs.append(front)
    return front


def filtering(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent that hands over without the calls that it made."""
    pay, look, _wire = tools(sdk, done)
    payer = sdk.Agent(name="payer", model=model("payer"), tools=[pay])
    without = import_module(f"{sdk.__name__}.extensions.handoff_filters").remove_all_tools
    return sdk.Agent(
        name="front", model=model("front"), tools=[look], handoffs=[sdk.handoff(payer, input_filter=without)]
    )


def hosted(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent with an MCP server that the provider calls."""
    config = {"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp"}
    tool = sdk.HostedMCPTool(tool_config={**config, "require_approval": "always"})
    return sdk.Agent(name="desk", model=model("desk"), tools=[tool, *tools(sdk, done)])


def commands(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent with a shell, patches and a tool that takes free text."""

    class Editor:
        def create_file(self, operation: Any) -> Any:
            done.append(f"create {operation.path}")
            return sdk.ApplyPatchResult(status="completed", output="created")

        update_file = delete_file = create_file

    def execute(request: Any) -> str:
        done.append("shell " + " ; ".join(request.data.action.commands))
        return "ok"

    async def query(context: Any, text: str) -> str:
        done.append(f"query {text}")
        return "one row"

    return sdk.Agent(
        name="desk",
        model=model("desk"),
        tools=[
            sdk.ShellTool(executor=execute, needs_approval=True),
            sdk.ApplyPatchTool(editor=Editor(), needs_approval=True),
            sdk.CustomTool(name="query", description="Queries.", on_invoke_tool=query, needs_approval=True),
        ],
    )


def guarded(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent with guardrails on its input and on its tools."""
    pay, look, _wire = tools(sdk, done)

    @sdk.input_guardrail
    def polite(context: Any, agent: Any, given: Any) -> Any:
        done.append("polite")
        return sdk.GuardrailFunctionOutput(output_info={"polite": True}, tripwire_triggered=False)

    @sdk.tool_input_guardrail
    def small(data: Any) -> Any:
        done.append("small")
        return sdk.ToolGuardrailFunctionOutput.allow(output_info="small")

    @sdk.tool_output_guardrail
    def clean(data: Any) -> Any:
        return sdk.ToolGuardrailFunctionOutput.allow(output_info="clean")

    look.tool_input_guardrails, look.tool_output_guardrails = [small], [clean]
    return sdk.Agent(name="desk", model=model("desk"), tools=[pay, look], input_guardrails=[polite])


def twins(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """Two agents of one name behind a third."""
    pay, look, _wire = tools(sdk, done)
    one = sdk.Agent(name="payer", model=model("payer"), tools=[pay], instructions="one")
    two = sdk.Agent(name="payer", model=model("payer"), tools=[pay, look], instructions="two")
    return sdk.Agent(
        name="desk",
        model=model("desk"),
        tools=[one.as_tool("ask_one", "Asks one."), two.as_tool("ask_two", "Asks two.")],
    )


_NOTES = """
from mcp.server import MCPServer

server = MCPServer("notes", log_level="ERROR")

@server.tool()
def delete_note(name: str) -> str:
    "Deletes a note."
    return f"deleted {name}"

server.run("stdio")
"""


def served(sdk: ModuleType, model: Callable[[str], Any], done: list[str]) -> Any:
    """An agent with an MCP server of its own, which its runner connects."""
    program, *words = forked.launcher("-c", _NOTES)
    server = import_module(f"{sdk.__name__}.mcp").MCPServerStdio(
        {"command": program, "args": words},
        name="notes",
        client_session_timeout_seconds=30,
        require_approval="always",
    )
    return sdk.Agent(name="desk", model=model("desk"), mcp_servers=[server])


@dataclass
class Account:
    """A context that is no mapping."""

    owner: str
    limit: int = 5


WORLDS: dict[str, World] = {
    "desk": desk,
    "nested": nested,
    "gated_agent": gated_agent,
    "handing_over": handing_over,
    "filtering": filtering,
    "hosted": hosted,
    "commands": commands,
    "guarded": guarded,
    "twins": twins,
    "served": served,
}
