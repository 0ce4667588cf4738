"""A tool call waits for a person; an approval lets exactly that call run.

Prints:

    waiting: refund {'order': 'A-17', 'amount': 40}
    Refunded 40 for order A-17.
"""

import asyncio

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Send money back."""
    return f"refunded {amount} for {order}"


async def main() -> None:
    model = ScriptedModel([[function_call("refund", {"order": "A-17", "amount": 40})], "Refunded 40 for order A-17."])
    agent = Agent(name="Support", instructions="Help politely.", model=model, tools=[refund])

    result = await Runner.run(agent, "Order A-17 arrived broken.")
    while result.interruptions:  # the run returned normally; it waits
        state = result.to_state()
        for call in state.get_interruptions():
            print("waiting:", call.name, call.params)
            state.approve(call, by="ada")
        result = await Runner.run(agent, state)
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
