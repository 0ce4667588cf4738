"""Guardrails on a tool's arguments and on its result.

Prints:

    ['posted hi', 'Remove the key first.', 'The result was withheld.']
"""

import asyncio

from agents import (
    Agent,
    Runner,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailData,
    ToolOutputGuardrailData,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from agents.testing import ScriptedModel, assistant_message, function_call


@tool_input_guardrail
def no_secrets(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
    if "sk-" in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("Remove the key first.")
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def no_numbers(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
    if "123" in str(data.output):
        return ToolGuardrailFunctionOutput.reject_content("The result was withheld.")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[no_secrets], tool_output_guardrails=[no_numbers])
def post(text: str) -> str:
    return f"posted {text}"


async def main() -> None:
    calls = [function_call("post", {"text": text}, call_id=text) for text in ("hi", "sk-1", "123")]
    model = ScriptedModel([calls, [assistant_message("Posted.")]])
    agent = Agent(name="Poster", model=model, tools=[post])
    result = await Runner.run(agent, "Post")
    print([item.output for item in result.new_items if item.type == "tool_call_output_item"])


asyncio.run(main())
