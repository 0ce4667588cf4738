"""needs_approval is a function of the arguments.

Prints:

    ['{"amount":500}']
    ['paid 50', 'too much']
"""

import asyncio
from typing import Any

from agents import Agent, RunContextWrapper, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


async def is_large(ctx: RunContextWrapper[Any], params: dict[str, Any], call_id: str) -> bool:
    return params["amount"] > 100


@function_tool(needs_approval=is_large)
def pay(amount: int) -> str:
    return f"paid {amount}"


async def main() -> None:
    calls = [function_call("pay", {"amount": amount}, call_id=f"p{amount}") for amount in (50, 500)]
    model = ScriptedModel([calls, [assistant_message("Paid what I may.")]])
    agent = Agent(name="Payer", model=model, tools=[pay])
    result = await Runner.run(agent, "Pay both")
    print([item.arguments for item in result.interruptions])
    state = result.to_state()
    state.reject(result.interruptions[0], rejection_message="too much")
    result = await Runner.run(agent, state)
    print([item.output for item in result.new_items if item.type == "tool_call_output_item"])


asyncio.run(main())
