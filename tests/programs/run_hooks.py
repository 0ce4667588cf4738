"""Hooks of a run hear of agents, tools and handoffs.

Prints:

    start First
    model asked 1
    tool double
    tool ended double 84
    model asked 3
    handoff First Second
    start Second
    model asked 5
    end Second 84
"""

import asyncio
from typing import Any

from agents import Agent, RunContextWrapper, RunHooks, Runner, Tool, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


class Printing(RunHooks):
    async def on_agent_start(self, context: RunContextWrapper, agent: Agent) -> None:
        print("start", agent.name)

    async def on_agent_end(self, context: RunContextWrapper, agent: Agent, output: Any) -> None:
        print("end", agent.name, output)

    async def on_tool_start(self, context: RunContextWrapper, agent: Agent, tool: Tool) -> None:
        print("tool", tool.name)

    async def on_tool_end(self, context: RunContextWrapper, agent: Agent, tool: Tool, result: object) -> None:
        print("tool ended", tool.name, result)

    async def on_handoff(self, context: RunContextWrapper, from_agent: Agent, to_agent: Agent) -> None:
        print("handoff", from_agent.name, to_agent.name)

    async def on_llm_start(
        self, context: RunContextWrapper, agent: Agent, system_prompt: str | None, input_items: list
    ) -> None:
        print("model asked", len(input_items))


@function_tool
def double(number: int) -> int:
    return number * 2


async def main() -> None:
    second = Agent(name="Second", model=ScriptedModel([[assistant_message("84")]]))
    steps = [
        [function_call("double", {"number": 42}, call_id="d1")],
        [function_call("transfer_to_second", {}, call_id="h1")],
    ]
    first = Agent(name="First", model=ScriptedModel(steps), tools=[double], handoffs=[second])
    await Runner.run(first, "Double 42", hooks=Printing())


asyncio.run(main())
