"""Text as it comes, and what happens as events.

Prints:

    one two three
    one two three
    2
    calls look {}
    has seen
    ends It is there.
"""

import asyncio

from pydantic_ai import Agent, AgentRunResultEvent, FunctionToolCallEvent, FunctionToolResultEvent
from scripted import call, model

agent = Agent(model("one two three", call("look"), "It is there."))


@agent.tool_plain
def look() -> str:
    return "seen"


async def main() -> None:
    async with agent.run_stream("Count.") as streamed:
        pieces = [text async for text in streamed.stream_text(delta=True, debounce_by=None)]
        print("".join(pieces).strip())
        print((await streamed.get_output()).strip())
        print(len(streamed.all_messages()))
    async with agent.run_stream_events("Look.") as stream:
        events = [event async for event in stream]
    for event in events:
        if isinstance(event, FunctionToolCallEvent):
            print("calls", event.part.tool_name, event.part.args_as_dict())
        elif isinstance(event, FunctionToolResultEvent):
            print("has", event.part.content)
        elif isinstance(event, AgentRunResultEvent):
            print("ends", event.result.output.strip())


asyncio.run(main())
