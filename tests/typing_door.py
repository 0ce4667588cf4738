"""What type checkers say of programs: nothing of the good ones, and a report at each line that ends in `# wrong`.

`tests/test_typing_door.py` runs the checkers. Nothing here is run. A line that only strict checking can find wrong ends
in `# wrong in strict`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal, assert_type

from keyturn import (
    Agent,
    AgentHooks,
    App,
    GuardrailFunctionOutput,
    ItemHelpers,
    MessageOutputItem,
    RunConfig,
    RunContextWrapper,
    RunErrorHandlers,
    RunHooks,
    RunItem,
    Runner,
    RunResult,
    RunState,
    SQLiteSession,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    WebSearchTool,
    function_tool,
    input_guardrail,
)
from keyturn.testing import ModelStep, ScriptedModel


@dataclass
class Account:
    """A context."""

    owner: str


@function_tool(needs_approval=True)
def pay(context: RunContextWrapper[Account], to: str, amount: int) -> str:
    """Pay."""
    return f"{context.context.owner} paid {amount} to {to}"


@function_tool
async def look(at: Literal["sky", "sea"]) -> str:
    """Look."""
    return at


@input_guardrail
async def short(context: RunContextWrapper[Any], agent: Agent[Any], given: str | list[Any]) -> GuardrailFunctionOutput:
    """Let short inputs pass."""
    return GuardrailFunctionOutput(None, tripwire_triggered=len(given) > 100)


def instructions(context: RunContextWrapper[Account], agent: Agent[Account]) -> str:
    """Tell who is served."""
    return f"You are {agent.name} and serve {context.context.owner}."


class Watch(RunHooks[Account]):
    """Hooks of a run."""

    async def on_agent_start(self, context: RunContextWrapper[Account], agent: Agent[Account]) -> None:
        print(context.context.owner, agent.name)


class Greet(AgentHooks[Account]):
    """Hooks of an agent."""


model = ScriptedModel(["done", ModelStep.raise_error(OSError("gone"))])
other = Agent[Account](name="other", model=model)
desk = Agent[Account](
    name="desk",
    instructions=instructions,
    model=model,
    tools=[pay, look, WebSearchTool(), other.as_tool("ask_other", "Ask the other.")],
    handoffs=[other],
    hooks=Greet(),
    input_guardrails=[short],
)
plain = Agent(name="plain", instructions="Be plain.", tools=[look])
handlers: RunErrorHandlers = {"max_turns": lambda data: f"stopped: {data.error}"}


# ------------------------------------------------------------------------------------------------------- what is good


async def runs() -> None:
    """Run in every way."""
    result = await Runner.run(desk, "go", context=Account("ann"), hooks=Watch(), error_handlers=handlers)
    assert_type(result, RunResult)
    await Runner.run(plain, "go")
    await Runner.run(plain, "go", context={"anything": "goes"}, session=SQLiteSession("ann"))
    await Runner.run(plain, result.to_input_list(), run_config=RunConfig(workflow_name="pay"))
    await Runner.run(desk, "go", context=Account("ann"), policy=lambda call, context: "ask")
    streamed = Runner.run_streamed(desk, "go", context=Account("ann"))
    async for event in streamed.stream_events():
        if event.type == "raw_response_event":
            print(event.data)
        elif event.type == "agent_updated_stream_event":
            print(event.new_agent.name)
        elif event.type == "approval_requested_stream_event":
            print(event.item.params)
        elif event.name == "tool_called":
            print(event.item.type)
        elif event.item.type == "tool_call_output_item":
            print(event.item.output)
    assert_type(streamed.interruptions, list[ToolApprovalItem])
    state = streamed.to_state()
    for item in state.get_interruptions():
        state.approve(item, always_approve=True, by="ann")
    await Runner.run(desk, state)
    await Runner.run(desk, streamed)
    await Runner.run(desk, result)


def reads(result: RunResult) -> None:
    """Read items of every kind."""
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            assert_type(item, ToolCallOutputItem)
            print(item.output, item.call_id)
        elif item.type == "tool_call_item":
            assert_type(item, ToolCallItem)
            print(item.tool_name)
        elif item.type == "handoff_output_item":
            print(item.source_agent.name, item.target_agent.name)
        elif isinstance(item, MessageOutputItem):
            print(ItemHelpers.text_message_output(item))
        else:
            print(item.agent.name, item.raw_item, item.to_input_item())
    assert_type(result.final_output_as(Account), Account)


def tells(item: RunItem) -> str:
    """Take any item."""
    return item.type


async def resumes(text: str) -> RunState[Account, Agent[Account]]:
    """Take up a state."""
    state: RunState[Account, Agent[Account]] = await RunState.from_string(desk, text)
    [item] = state.get_interruptions()
    state.reject(item, rejection_message="not today")
    assert_type(state.context.context, Account)
    return state


async def one_parameter(state: RunState[Account]) -> AsyncIterator[ToolApprovalItem]:
    """Take a state without saying of which agents."""
    for item in state.get_interruptions():
        yield item
    fresh = RunState(context=Account("ann"), original_input="go", starting_agent=desk)
    print(fresh.run_id)


async def serves() -> None:
    """Serve an app."""
    async with App([desk, plain], "memory://", policy=lambda call, context: None) as app:
        run = await app.start("desk", "go", context=Account("ann"))
        for request in await app.inbox.list(run=run.id):
            await app.inbox.approve(request, by="ann")


# ------------------------------------------------------------------------------------------------------ what is wrong


async def mistakes(result: RunResult, state: RunState[Account]) -> None:
    """Make each plain mistake."""
    Agent(name="x", tools=[3])  # wrong
    Agent(name="x", handoffs=["other"])  # wrong
    Agent(name="x", input_guardrails=[len])  # wrong
    Agent(name="x", tool_use_behavior="stop_at_first_tool")  # wrong
    Agent[int](name="x", instructions=instructions)  # wrong
    await Runner.run(desk, "go", context=5)  # wrong
    await Runner.run(desk, "go", context="ann")  # wrong
    await Runner.run(desk, "go", session=5)  # wrong
    await Runner.run(desk, "go", policy="ask")  # wrong
    await Runner.run(desk, "go", error_handlers=7)  # wrong
    await Runner.run(desk, "go", error_handlers={"max_turn": str})  # wrong
    await Runner.run(desk, "go", hooks=Greet())  # wrong
    await Runner.run(desk, "go", max_turn=3)  # wrong
    Runner.run_sync(desk, "go", context=5)  # wrong
    Runner.run_sync(desk, 5)  # wrong
    Runner.run_streamed(desk, "go", context=5)  # wrong
    streamed = Runner.run_streamed(desk, "go")
    print(streamed.final_ouput)  # wrong
    print(streamed.interuptions)  # wrong
    print(result.final_ouput)  # wrong
    async for event in streamed.stream_events():
        if event.type == "run_item_stream":  # wrong in strict
            print(event)
        if event.type == "run_item_stream_event" and event.name == "tool_caled":  # wrong in strict
            print(event)
    for item in result.new_items:
        print(item.output)  # wrong
        if item.type == "tool_call_item":
            print(item.output)  # wrong
    state.approve("yes")  # wrong
    state.approve(result.new_items[0])  # wrong
    state.reject(5)  # wrong
    state.answer("c1", 5)  # wrong
    state.resolve(state.get_interruptions()[0], "maybe")  # wrong
    state.context.approve_tool("yes")  # wrong
    print(state.context.context.owner_name)  # wrong
    function_tool(needs_aproval=True)  # wrong
