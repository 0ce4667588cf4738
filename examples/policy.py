"""One policy for a whole run, whatever its tools say: the first rule that matches allows, asks or denies.

An operator can keep the same in a TOML file: `Policy.from_toml("policy.toml")`.

Prints:

    ran: [5]
    asks: 300 because it is a lot of money
    the model is told: not from here
"""

import asyncio

from keyturn import Agent, Policy, Rule, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call

ran: list[int] = []


@function_tool
def pay(amount: int) -> str:
    """Pay somebody."""
    ran.append(amount)
    return "paid"


@function_tool
def drop_database() -> str:
    """Delete everything."""
    raise AssertionError("this never runs")


policy = Policy(
    Rule("deny", tool="drop_*", reason="not from here"),
    Rule("allow", tool="pay", where={"amount": {"gt": 0, "le": 100}}),
    Rule("ask", tool="pay", reason="it is a lot of money"),
    default="ask",
)


async def main() -> None:
    ran.clear()
    calls = [function_call("pay", {"amount": 5}), function_call("pay", {"amount": 300}), function_call("drop_database")]
    agent = Agent(name="Accounts", model=ScriptedModel([calls]), tools=[pay, drop_database])

    result = await Runner.run(agent, "Tidy up.", policy=policy)
    print("ran:", ran)
    (call,) = result.interruptions
    print("asks:", call.params["amount"], "because", call.reason)
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    print("the model is told:", outputs[-1])


if __name__ == "__main__":
    asyncio.run(main())
