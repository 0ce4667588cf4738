"""What the model reads of a tool that raised, and in a tool's own words.

Prints:

    An error occurred while running the tool. Please try again.
    it broke: no such user
"""

import asyncio
from typing import Any

from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


def own_words(ctx: RunContextWrapper[Any], error: Exception) -> str:
    return f"it broke: {error}"


@function_tool
def plain() -> str:
    raise ValueError("no such user")


@function_tool(failure_error_function=own_words)
def worded() -> str:
    raise ValueError("no such user")


async def main() -> None:
    calls = [function_call(name, {}, call_id=name) for name in ("plain", "worded")]
    agent = Agent(name="A", model=ScriptedModel([calls, [assistant_message("Both broke.")]]), tools=[plain, worded])
    result = await Runner.run(agent, "Try")
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            print(item.output)


asyncio.run(main())
