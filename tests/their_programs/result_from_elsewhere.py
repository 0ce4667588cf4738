"""A tool hands its work to somebody else, and the run goes on with the result.

Prints:

    [('render', {'scene': 'sea'})] [] {'r1': {'job': 'job-1'}}
    It is rendered.
    sea.png
"""

import asyncio

from pydantic_ai import Agent, CallDeferred, DeferredToolRequests, DeferredToolResults, RunContext
from scripted import call, model

agent = Agent(model(call("render", "r1", scene="sea"), "It is rendered."), output_type=[str, DeferredToolRequests])
jobs: dict[str, str] = {}


@agent.tool
async def render(ctx: RunContext[None], scene: str) -> str:
    assert ctx.tool_call_id is not None
    jobs["job-1"] = ctx.tool_call_id
    raise CallDeferred(metadata={"job": "job-1"})


async def main() -> None:
    result = await agent.run("Render the sea.")
    waiting = result.output
    print([(part.tool_name, part.args) for part in waiting.calls], waiting.approvals, waiting.metadata)
    answers = DeferredToolResults(calls={jobs["job-1"]: "sea.png"})
    result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
    print(result.output)
    print(result.new_messages()[0].parts[0].content)


asyncio.run(main())
