"""One agent hands the conversation to another; a pause after that resumes with the right one.

Prints:

    Triage handed over to Billing
    Billing waits with refund
    Billing: You get your money back.
"""

import asyncio

from keyturn import Agent, Runner, function_tool, handoff
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Send money back."""
    return f"refunded {order}"


async def main() -> None:
    billing = Agent(
        name="Billing",
        handoff_description="Knows invoices and refunds.",
        model=ScriptedModel([[function_call("refund", {"order": "A-17"})], "You get your money back."]),
        tools=[refund],
    )
    triage = Agent(
        name="Triage",
        model=ScriptedModel([[function_call("transfer_to_billing")]]),
        handoffs=[handoff(billing)],
    )

    result = await Runner.run(triage, "I was charged twice.")
    moved = next(item for item in result.new_items if item.type == "handoff_output_item")
    print(moved.source_agent.name, "handed over to", moved.target_agent.name)
    state, (call,) = result.to_state(), result.interruptions
    print(call.agent.name, "waits with", call.name)
    state.approve(call)
    result = await Runner.run(triage, state)  # give it the agent that started the run
    print(f"{result.last_agent.name}: {result.final_output}")


if __name__ == "__main__":
    asyncio.run(main())
