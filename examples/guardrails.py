"""Guardrails look at what goes in and what comes out. They can stop a run; they never approve a call.

Prints:

    tool: the model reads "only files under /srv"
    input: stopped before any tool ran
"""

import asyncio
import json
from typing import Any

from keyturn import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunContextWrapper,
    Runner,
    ToolInputGuardrailData,
    function_tool,
    input_guardrail,
    tool_input_guardrail,
)
from keyturn import ToolGuardrailFunctionOutput as Report
from keyturn.testing import ScriptedModel, function_call


@input_guardrail(run_in_parallel=False)
def no_passwords(context: RunContextWrapper, agent: Agent, text: str | list[Any]) -> GuardrailFunctionOutput:
    return GuardrailFunctionOutput(output_info=None, tripwire_triggered="password" in str(text))


@tool_input_guardrail
def inside_srv(data: ToolInputGuardrailData) -> Report:
    path = json.loads(data.context.tool_arguments)["path"]
    return Report.allow() if path.startswith("/srv/") else Report.reject_content("only files under /srv")


@function_tool(tool_input_guardrails=[inside_srv])
def delete(path: str) -> str:
    """Delete a file."""
    raise AssertionError("this never runs here")


async def main() -> None:
    model = ScriptedModel([[function_call("delete", {"path": "/etc/passwd"})], "I may not do that."])
    agent = Agent(name="Files", model=model, tools=[delete], input_guardrails=[no_passwords])

    result = await Runner.run(agent, "Delete /etc/passwd")
    told = next(item.output for item in result.new_items if item.type == "tool_call_output_item")
    print(f'tool: the model reads "{told}"')
    try:
        await Runner.run(agent, "My password is hunter2")
    except InputGuardrailTripwireTriggered:
        print("input: stopped before any tool ran")


if __name__ == "__main__":
    asyncio.run(main())
