"""A tripwire stops the run before it answers.

Prints:

    Hello! {'math': False}
    stopped: homework {'math': True}
"""

import asyncio

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    TResponseInputItem,
    input_guardrail,
)
from agents.testing import ScriptedModel, assistant_message


@input_guardrail
async def homework(
    ctx: RunContextWrapper[None], agent: Agent, given: str | list[TResponseInputItem]
) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info={"math": "solve" in given}, tripwire_triggered="solve" in given)


async def main() -> None:
    model = ScriptedModel([[assistant_message("Hello!")], [assistant_message("x is 3")]])
    agent = Agent(name="Support", model=model, input_guardrails=[homework])
    result = await Runner.run(agent, "hello")
    print(result.final_output, result.input_guardrail_results[0].output.output_info)
    try:
        await Runner.run(agent, "solve 2x = 6")
    except InputGuardrailTripwireTriggered as error:
        print("stopped:", error.guardrail_result.guardrail.get_name(), error.guardrail_result.output.output_info)


asyncio.run(main())
