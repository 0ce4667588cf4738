"""A handoff with input, and who answered last.

Prints:

    handed over because: a bill
    Billing The bill is right.
    ['handoff_call_item', 'handoff_output_item', 'message_output_item']
"""

import asyncio

from agents import Agent, RunContextWrapper, Runner, handoff
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic import BaseModel


class Reason(BaseModel):
    reason: str


async def noted(ctx: RunContextWrapper[None], given: Reason) -> None:
    print("handed over because:", given.reason)


async def main() -> None:
    billing = Agent(name="Billing", model=ScriptedModel([[assistant_message("The bill is right.")]]))
    call = function_call("transfer_to_billing", {"reason": "a bill"}, call_id="h1")
    triage = Agent(
        name="Triage",
        model=ScriptedModel([[call]]),
        handoffs=[handoff(billing, on_handoff=noted, input_type=Reason)],
    )
    result = await Runner.run(triage, "My bill is wrong")
    print(result.last_agent.name, result.final_output)
    print([item.type for item in result.new_items])


asyncio.run(main())
