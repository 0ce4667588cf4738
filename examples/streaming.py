"""Listen while a run goes on: text as it comes, each call and its result, and the pause itself as an event.

Prints:

    [called] delete_table
    [waits] delete_table {'name': 'old_orders'}
    [result] deleted old_orders
    The table is gone.
"""

import asyncio

from keyturn import Agent, Runner, RunResultStreaming, function_tool
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)
def delete_table(name: str) -> str:
    """Delete a table for good."""
    return f"deleted {name}"


async def listen(stream: RunResultStreaming) -> None:
    async for event in stream.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="")
        elif event.type == "approval_requested_stream_event":
            print("[waits]", event.item.name, event.item.params)
        elif event.type == "run_item_stream_event" and event.item.type == "tool_call_item":
            print("[called]", event.item.tool_name)
        elif event.type == "run_item_stream_event" and event.item.type == "tool_call_output_item":
            print("[result]", event.item.output)


async def main() -> None:
    model = ScriptedModel([[function_call("delete_table", {"name": "old_orders"})], "The table is gone."])
    agent = Agent(name="Database", model=model, tools=[delete_table])

    stream = Runner.run_streamed(agent, "Clean up.")
    await listen(stream)
    while stream.interruptions:
        state = stream.to_state()
        for call in stream.interruptions:
            state.approve(call)
        stream = Runner.run_streamed(agent, state)  # a resumed run is streamed as well as any
        await listen(stream)
    print()


if __name__ == "__main__":
    asyncio.run(main())
