"""The agent that was handed over to asks, and goes on after the approval.

Prints:

    [('Orders', 'cancel_order')]
    Orders Cancelled.
    ['user', 'function_call', 'function_call_output']
"""

import asyncio

from agents import Agent, Runner, RunState, function_tool, handoff
from agents.extensions import handoff_filters
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def cancel_order(order: str) -> str:
    return f"cancelled {order}"


async def main() -> None:
    model = ScriptedModel(
        [[function_call("cancel_order", {"order": "A1"}, call_id="c1")], [assistant_message("Cancelled.")]]
    )
    orders = Agent(name="Orders", model=model, tools=[cancel_order])
    front_model = ScriptedModel([[function_call("transfer_to_orders", {}, call_id="h1")]])
    front = Agent(
        name="Front", model=front_model, handoffs=[handoff(orders, input_filter=handoff_filters.remove_all_tools)]
    )
    result = await Runner.run(front, "Cancel A1")
    state = await RunState.from_string(front, result.to_state().to_string())
    print([(item.agent.name, item.name) for item in state.get_interruptions()])
    state.approve(state.get_interruptions()[0])
    result = await Runner.run(front, state)
    print(result.last_agent.name, result.final_output)
    print([item.get("type") or item["role"] for item in model.calls[-1].input])


asyncio.run(main())
