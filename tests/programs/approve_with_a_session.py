"""The session holds each item once when a run paused in between.

Prints:

    Booked B2.
    You have B2.
    ['user', 'function_call', 'function_call_output', 'message', 'user', 'message']
"""

import asyncio

from agents import Agent, Runner, SQLiteSession, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def book(seat: str) -> str:
    return f"{seat} is booked"


async def main() -> None:
    session = SQLiteSession("talk")
    model = ScriptedModel(
        [
            [function_call("book", {"seat": "B2"}, call_id="c1")],
            [assistant_message("Booked B2.")],
            [assistant_message("You have B2.")],
        ]
    )
    agent = Agent(name="Box office", model=model, tools=[book])
    result = await Runner.run(agent, "Book B2", session=session)
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await Runner.run(agent, state, session=session)
    print(result.final_output)
    result = await Runner.run(agent, "Which seat do I have?", session=session)
    print(result.final_output)
    print([item.get("type") or item["role"] for item in await session.get_items()])


asyncio.run(main())
