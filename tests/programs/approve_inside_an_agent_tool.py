"""Calls of an agent that is a tool wait on the outer result.

Prints:

    Refunds refund
    Done. | Refunded A1.
"""

import asyncio

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    return f"refunded {order}"


async def main() -> None:
    inner = Agent(
        name="Refunds",
        model=ScriptedModel(
            [[function_call("refund", {"order": "A1"}, call_id="r1")], [assistant_message("Refunded A1.")]]
        ),
        tools=[refund],
    )
    outer_model = ScriptedModel(
        [[function_call("ask_refunds", {"input": "refund A1"}, call_id="o1")], [assistant_message("Done.")]]
    )
    outer = Agent(name="Desk", model=outer_model, tools=[inner.as_tool("ask_refunds", "Refunds orders.")])
    result = await Runner.run(outer, "Refund A1")
    state = result.to_state()
    for item in state.get_interruptions():
        print(item.agent.name, item.name)
        state.approve(item)
    result = await Runner.run(outer, state)
    print(result.final_output, "|", outer_model.calls[-1].input[-1]["output"])


asyncio.run(main())
