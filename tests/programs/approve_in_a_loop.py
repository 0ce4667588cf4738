"""Asks about each call until none waits, as the human-in-the-loop pattern does.

Prints:

    Weather get_temperature {"city":"Oslo"}
    Weather get_temperature {"city":"Rome"}
    Oslo is cool.
    It is 20 degrees in Oslo
    Tool execution was not approved.
"""

import asyncio

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
async def get_temperature(city: str) -> str:
    """Get the temperature of a city."""
    return f"It is 20 degrees in {city}"


async def main() -> None:
    calls = [function_call("get_temperature", {"city": city}, call_id=city) for city in ("Oslo", "Rome")]
    model = ScriptedModel([calls, [assistant_message("Oslo is cool.")]])
    agent = Agent(name="Weather", instructions="Help.", model=model, tools=[get_temperature])
    result = await Runner.run(agent, "How warm is it?")
    while len(result.interruptions) > 0:
        state = result.to_state()
        for interruption in result.interruptions:
            print(interruption.agent.name, interruption.name, interruption.arguments)
            if "Oslo" in interruption.arguments:
                state.approve(interruption)
            else:
                state.reject(interruption)
        result = await Runner.run(agent, state)
    print(result.final_output)
    for item in result.new_items:
        if item.type == "tool_call_output_item":
            print(item.output)


asyncio.run(main())
