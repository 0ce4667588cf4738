"""A tool's result is the final answer.

Prints:

    It is sunny.
    sunny in Oslo
    sunny in Oslo
    SUNNY IN OSLO
"""

import asyncio
from typing import Any

from agents import (
    Agent,
    FunctionToolResult,
    ModelSettings,
    RunContextWrapper,
    Runner,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
)
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def weather(city: str) -> str:
    return f"sunny in {city}"


def first(context: RunContextWrapper[Any], results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
    return ToolsToFinalOutputResult(is_final_output=True, final_output=results[0].output.upper())


async def main() -> None:
    for behavior in ("run_llm_again", "stop_on_first_tool", StopAtTools(stop_at_tool_names=["weather"]), first):
        model = ScriptedModel(
            [[function_call("weather", {"city": "Oslo"}, call_id="w")], [assistant_message("It is sunny.")]]
        )
        settings = ModelSettings(tool_choice="required" if behavior != "run_llm_again" else None)
        agent = Agent(name="W", model=model, tools=[weather], tool_use_behavior=behavior, model_settings=settings)
        print((await Runner.run(agent, "Weather?")).final_output)


asyncio.run(main())
