"""A deep agent writes a script when a person lets it, and is told so when a person does not.

Nothing here is new to a program of `pydantic_deep`: only the two imports are others.

Prints:

    Running agent with a task that requires approval...

    Received 2 approval request(s)

    ==================================================
    APPROVAL REQUIRED
    Tool: write_file
    Arguments: {'path': '/backup.sh', 'content': '#!/bin/sh\\ntar -czf /backup.tgz /data\\n'}
    ==================================================

    ==================================================
    APPROVAL REQUIRED
    Tool: execute
    Arguments: {'command': 'sh /backup.sh', 'timeout': 120}
    ==================================================

    Continuing agent with approval decisions...

    Final output:
    I wrote /backup.sh, and did not run it.

    Files in storage:
      /backup.sh: 3 lines
"""

import asyncio
from typing import Any

from keyturn import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from keyturn.deep import DeepAgentDeps, StateBackend, create_deep_agent
from keyturn.testing import ScriptedModel, function_call

SCRIPT = {"path": "/backup.sh", "content": "#!/bin/sh\ntar -czf /backup.tgz /data\n"}
MODEL = [
    [function_call("write_file", SCRIPT), function_call("execute", {"command": "sh /backup.sh"})],
    "I wrote /backup.sh, and did not run it.",
]


async def ask_a_person(tool_name: str, args: Any) -> bool:
    line = "=" * 50
    print(f"\n{line}\nAPPROVAL REQUIRED\nTool: {tool_name}\nArguments: {args}\n{line}")
    return tool_name == "write_file"  # a person would be asked here


async def main() -> None:
    agent = create_deep_agent(
        model=ScriptedModel(MODEL),  # "openai:gpt-4.1" with a key
        instructions="You are a system administrator's assistant.",
        interrupt_on={"write_file": True, "edit_file": True, "execute": True},
    )
    deps = DeepAgentDeps(backend=StateBackend())

    print("Running agent with a task that requires approval...")
    result = await agent.run("Make a backup script at /backup.sh for /data, and run it.", deps=deps)

    if isinstance(result.output, DeferredToolRequests):
        print(f"\nReceived {len(result.output.approvals)} approval request(s)")
        approvals: dict[str, bool | ToolApproved | ToolDenied] = {}
        for call in result.output.approvals:
            approved = await ask_a_person(call.tool_name, call.args)
            denied = ToolDenied(message=f"User denied {call.tool_name} for safety reasons")
            approvals[call.tool_call_id] = ToolApproved() if approved else denied

        print("\nContinuing agent with approval decisions...")
        result = await agent.run(
            None,
            deps=deps,
            message_history=result.all_messages(),
            deferred_tool_results=DeferredToolResults(approvals=approvals),
        )

    print(f"\nFinal output:\n{result.output}\n\nFiles in storage:")
    for path, data in deps.files.items():
        print(f"  {path}: {len(data['content'])} lines")


if __name__ == "__main__":
    asyncio.run(main())
