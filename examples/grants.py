"""A standing approval as data: calls like this one, so many, for so long. All else still asks.

A grant is for one tool of one agent, and ends when that tool's schema or description changes.

Prints:

    asks: ada 30
    paid: [('ada', 30), ('ada', 80)]
    asks: ada 500
    asks: bob 5
"""

import asyncio

from keyturn import Agent, Grant, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call

paid: list[tuple[str, int]] = []


@function_tool(needs_approval=True)
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    paid.append((to, amount))
    return "paid"


async def main() -> None:
    paid.clear()
    rounds = [[("ada", 30)], [("ada", 80), ("ada", 500), ("bob", 5)]]
    model = ScriptedModel([[function_call("pay", {"to": to, "amount": n}) for to, n in made] for made in rounds])
    agent = Agent(name="Accounts", model=model, tools=[pay])

    result = await Runner.run(agent, "Pay the bills.")
    state, (call,) = result.to_state(), result.interruptions
    print("asks:", call.params["to"], call.params["amount"])
    # Values are compared by type: "100" is not at most 100, and a missing argument matches nothing.
    small = Grant(where={"to": "ada", "amount": {"gt": 0, "le": 100}}, expires="2h", uses=10)
    state.approve(call, grant=small, by="bob")

    result = await Runner.run(agent, state)
    print("paid:", paid)
    for call in result.interruptions:
        print("asks:", call.params["to"], call.params["amount"])


if __name__ == "__main__":
    asyncio.run(main())
