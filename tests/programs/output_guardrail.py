"""A tripwire on a structured answer.

Prints:

    text='fine' phone=None
    stopped: {'phone': '650'}
"""

import asyncio

from agents import (
    Agent,
    GuardrailFunctionOutput,
    OutputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    output_guardrail,
)
from agents.testing import ScriptedModel, assistant_message
from pydantic import BaseModel


class Answer(BaseModel):
    text: str
    phone: str | None = None


@output_guardrail
async def no_phone(ctx: RunContextWrapper[None], agent: Agent, output: Answer) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info={"phone": output.phone}, tripwire_triggered=output.phone is not None)


async def main() -> None:
    steps = [
        [assistant_message('{"text": "fine", "phone": null}')],
        [assistant_message('{"text": "call", "phone": "650"}')],
    ]
    agent = Agent(name="Assistant", model=ScriptedModel(steps), output_type=Answer, output_guardrails=[no_phone])
    print((await Runner.run(agent, "one")).final_output)
    try:
        await Runner.run(agent, "two")
    except OutputGuardrailTripwireTriggered as error:
        print("stopped:", error.guardrail_result.output.output_info)


asyncio.run(main())
