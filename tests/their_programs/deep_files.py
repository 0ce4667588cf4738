"""A deep agent writes, finds and reads files; nobody is asked.

Prints:

    Done.
    4 True True
    True True
"""

import asyncio

from pydantic_deep import DeepAgentDeps, create_deep_agent
from scripted import call, model

steps = model(
    call("write_file", "c1", path="/notes.txt", content="oat milk\nbread\n"),
    call("grep", "c3", pattern="oat", path="/"),
    call("glob", "c4", pattern="*.txt", path="/"),
    call("read_file", "c5", path="/notes.txt"),
    "Done.",
)


async def main() -> None:
    agent = create_deep_agent(model=steps)
    result = await agent.run("Write it down.", deps=DeepAgentDeps())
    print(result.output)
    returns = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    print(len(returns), "notes.txt" in str(returns[1].content), "notes.txt" in str(returns[2].content))
    print("oat milk" in str(returns[3].content), "bread" in str(returns[3].content))


asyncio.run(main())
