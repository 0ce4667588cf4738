"""The items of a stream, and its text.

Prints:

    agent: Joker
    called
    output: 2
    message: Two jokes.
    Two jokes. | Two jokes.
"""

import asyncio

from agents import Agent, ItemHelpers, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool
def how_many_jokes() -> int:
    return 2


async def main() -> None:
    model = ScriptedModel([[function_call("how_many_jokes", {}, call_id="j")], [assistant_message("Two jokes.")]])
    agent = Agent(name="Joker", model=model, tools=[how_many_jokes])
    result = Runner.run_streamed(agent, input="Hello")
    text = ""
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            if event.data.type == "response.output_text.delta":
                text += event.data.delta
        elif event.type == "agent_updated_stream_event":
            print("agent:", event.new_agent.name)
        elif event.item.type == "tool_call_item":
            print("called")
        elif event.item.type == "tool_call_output_item":
            print("output:", event.item.output)
        elif event.item.type == "message_output_item":
            print("message:", ItemHelpers.text_message_output(event.item))
    print(text, "|", result.final_output)


asyncio.run(main())
