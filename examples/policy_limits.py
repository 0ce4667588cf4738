"""Small payments run until a hundred is spent; then somebody is asked. What was refused once is not asked again.

The limits count what the run has recorded, so they hold after a pause and in another process too.

Prints:

    paid: [60, 40]
    asks: 60, over the budget of 100 for 'amount' in this run
    the model is told: this call was rejected once and is now denied; do not make it again
"""

import asyncio

from keyturn import Agent, Budget, Policy, Rejections, Rule, Runner, RunState, function_tool
from keyturn.testing import ScriptedModel, function_call

paid: list[int] = []


@function_tool
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    paid.append(amount)
    return f"paid {amount} to {to}"


policy = Policy(
    Rule("deny", over=Rejections(1)),
    Rule("ask", tool="pay", over=Budget("amount", 100)),
    Rule("allow", tool="pay", where={"amount": {"gt": 0}}),
    default="ask",
)


def accounts() -> Agent:
    """Pays Ada, then Bob, and Bob again when it is told no."""
    ada, bob = ({"to": to, "amount": amount} for to, amount in (("ada", 60), ("bob", 60)))
    rounds = [[("pay", ada), ("pay", bob), ("pay", {**ada, "amount": 40})], [("pay", bob)]]
    replies = [[function_call(name, arguments) for name, arguments in made] for made in rounds]
    return Agent(name="Accounts", model=ScriptedModel([*replies, "Bob was not paid."]), tools=[pay])


async def main() -> None:
    paid.clear()
    agent = accounts()
    result = await Runner.run(agent, "Pay the bills.", policy=policy)
    print("paid:", paid)
    (call,) = result.interruptions
    print(f"asks: {call.params['amount']}, {call.reason}")

    state = await RunState.from_string(agent, result.to_state().to_string())
    state.reject(state.get_interruptions()[0], rejection_message="Bob sends no invoices.")
    result = await Runner.run(agent, state, policy=policy)
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    print("the model is told:", outputs[-1])


if __name__ == "__main__":
    asyncio.run(main())
