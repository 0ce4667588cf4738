"""An app: runs go on by themselves, and its inbox lists what waits for people.

Prints:

    started, and this program goes on
    waits: ops wants rotate {'key': 'staging'}
    finished: The key is rotated.
"""

import asyncio
from typing import Any

from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True)
def rotate(key: str) -> str:
    """Rotate a key."""
    return f"{key} rotated"


def reply(request: Any) -> Any:
    return "The key is rotated." if tool_outputs(request) else [function_call("rotate", {"key": "staging"})]


async def main() -> None:
    ops = Agent[None](name="ops", model=ScriptedModel(reply), tools=[rotate])
    async with App([ops], "memory://") as app:  # sqlite:///runs.db outlives the process
        run = await app.start("ops", "Rotate the staging key.")
        print("started, and this program goes on")

        await run.wait(timeout=30)  # until it is over, or somebody is needed
        [request] = await app.inbox.list()
        print(f"waits: {request.agent} wants {request.tool} {request.request.params}")
        await app.inbox.approve(request, by="ann", note="Tuesday's change")

        result = await run.result(timeout=30)
        print("finished:", result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
