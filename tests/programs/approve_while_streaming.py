"""Drains a stream, decides, and streams on.

Prints:

    waiting ['delete_file'] True
    tool_output
    message_output_created
    Gone.
"""

import asyncio

from agents import Agent, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call


@function_tool(needs_approval=True)
def delete_file(path: str) -> str:
    return f"deleted {path}"


async def main() -> None:
    model = ScriptedModel(
        [[function_call("delete_file", {"path": "a.txt"}, call_id="c1")], [assistant_message("Gone.")]]
    )
    agent = Agent(name="Files", model=model, tools=[delete_file])
    result = Runner.run_streamed(agent, "Delete a.txt")
    async for _event in result.stream_events():
        pass
    while result.interruptions:
        print("waiting", [item.name for item in result.interruptions], result.is_complete)
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = Runner.run_streamed(agent, state)
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                print(event.name)
    print(result.final_output)


asyncio.run(main())
