"""A deep agent's writes and commands wait; one is approved, one denied.

Prints:

    write_file /backup.sh
    execute sh /backup.sh
    I wrote it.
    True
    Not now.
"""

import asyncio

from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_deep import DeepAgentDeps, create_deep_agent
from scripted import call, model

SCRIPT = "#!/bin/sh\ntar -czf /b.tgz /data\n"
steps = model(
    call("write_file", "w1", path="/backup.sh", content=SCRIPT),
    call("execute", "e1", command="sh /backup.sh"),
    call("ls", "l1", path="/"),
    "I wrote it.",
)


async def main() -> None:
    agent = create_deep_agent(
        model=steps,
        instructions="You help an administrator.",
        include_execute=True,
        interrupt_on={"write_file": True, "edit_file": True, "execute": True},
    )
    deps = DeepAgentDeps()
    result = await agent.run("Make a backup script and run it.", deps=deps)
    while isinstance(result.output, DeferredToolRequests):
        answers = DeferredToolResults()
        for waiting in result.output.approvals:
            print(waiting.tool_name, waiting.args_as_dict().get("path") or waiting.args_as_dict()["command"])
            yes = waiting.tool_name == "write_file"
            answers.approvals[waiting.tool_call_id] = ToolApproved() if yes else ToolDenied("Not now.")
        result = await agent.run(deps=deps, message_history=result.all_messages(), deferred_tool_results=answers)
    print(result.output)
    returns = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    print("backup.sh" in str(returns[-1].content))
    print(returns[1].content)


asyncio.run(main())
