"""An orchestrator calls two translators at once.

Prints:

    hola, salut ['hola', 'salut']
    hola, salut
"""

import asyncio

from agents import Agent, ItemHelpers, Runner, trace
from agents.testing import ScriptedModel, assistant_message, function_call


def translator(language: str, text: str) -> Agent:
    return Agent(
        name=language, instructions=f"Translate to {language}.", model=ScriptedModel([[assistant_message(text)]])
    )


async def main() -> None:
    tools = [
        translator("spanish", "hola").as_tool("to_spanish", "To Spanish"),
        translator("french", "salut").as_tool("to_french", "To French"),
    ]
    calls = [function_call(name, {"input": "hi"}, call_id=name) for name in ("to_spanish", "to_french")]
    agent = Agent(name="Orchestrator", model=ScriptedModel([calls, [assistant_message("hola, salut")]]), tools=tools)
    with trace("Orchestrator"):
        result = await Runner.run(agent, "Say hi")
    print(result.final_output, [item.output for item in result.new_items if item.type == "tool_call_output_item"])
    print(ItemHelpers.text_message_outputs(result.new_items))


asyncio.run(main())
