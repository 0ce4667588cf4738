"""A saved state that is resumed twice: there the tool runs twice, here once.

Prints:

    [5, 5]

Prints with keyturn, on purpose:

    this state is stale: its run already continued from here, and what it approved may have run
    [5]
"""

import asyncio

from agents import Agent, Runner, RunState, function_tool
from agents.exceptions import AgentsException
from agents.testing import ScriptedModel, assistant_message, function_call

paid: list[int] = []


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    paid.append(amount)
    return "paid"


async def main() -> None:
    model = ScriptedModel(
        [[function_call("pay", {"amount": 5}, call_id="p")], [assistant_message("Paid.")], [assistant_message("Paid.")]]
    )
    agent = Agent(name="Payer", model=model, tools=[pay])
    text = (await Runner.run(agent, "Pay 5")).to_state().to_string()
    for _again in range(2):
        state = await RunState.from_string(agent, text)
        state.approve(state.get_interruptions()[0])
        try:
            await Runner.run(agent, state)
        except AgentsException as error:
            print(str(error).partition(";")[0])
    print(paid)


asyncio.run(main())
