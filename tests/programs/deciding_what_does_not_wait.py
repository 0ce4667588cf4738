"""A decision on a call that does not wait: silent there, an error here.

Prints:

    decided again

Prints with keyturn, on purpose:

    no pending call of this state matches that decision; pass an item of get_interruptions()
"""

import asyncio

from agents import Agent, Runner, function_tool
from agents.exceptions import UserError
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def drop(table: str) -> str:
    return f"dropped {table}"


async def main() -> None:
    steps = [[function_call("drop", {"table": name}, call_id=name)] for name in ("a", "b")]
    agent = Agent(name="DBA", model=ScriptedModel([*steps, [assistant_message("Done.")]]), tools=[drop])
    first = await Runner.run(agent, "Drop a and b")
    state = first.to_state()
    state.approve(first.interruptions[0])
    second = await Runner.run(agent, state)
    state = second.to_state()
    try:
        state.approve(first.interruptions[0])
        print("decided again")
    except UserError as error:
        print(error)


asyncio.run(main())
