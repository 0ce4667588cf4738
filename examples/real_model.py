"""A real model if a provider's key is set, or else a scripted one, and it says which one plays.

Prints:

    no key is set: a scripted model plays
    Keyper asks: delete_backup {'name': '2019-03'}
    The old backup is gone.
"""

import asyncio
import os
from typing import Any

from keyturn import Agent, Model, Runner, function_tool
from keyturn.testing import ScriptedModel, approve_all, function_call, tool_outputs

MODELS = {
    "OPENAI_API_KEY": "openai:gpt-5.6-luna",
    "ANTHROPIC_API_KEY": "anthropic:claude-sonnet-5",
    "GOOGLE_API_KEY": "google:gemini-3-flash",
}


@function_tool(needs_approval=True)
def delete_backup(name: str) -> str:
    """Delete a backup for good."""
    return f"deleted {name}"


def reply(request: Any) -> Any:
    return "The old backup is gone." if tool_outputs(request) else [function_call("delete_backup", {"name": "2019-03"})]


def model() -> str | Model:
    for variable, name in MODELS.items():
        if os.environ.get(variable):
            print(f"{variable} is set: {name} plays")
            return name
    print("no key is set: a scripted model plays")
    return ScriptedModel(reply)


async def main() -> None:
    agent = Agent[None](
        name="Keyper",
        instructions="Keep the disk tidy. There are the backups 2019-03 and 2026-11. Answer in one line.",
        model=model(),
        tools=[delete_backup],
    )
    result = await Runner.run(agent, "The disk is full. Delete the oldest backup.", max_turns=5)
    while result.interruptions:
        for call in result.interruptions:
            print(f"{agent.name} asks: {call.name} {call.params}")
        result = await Runner.run(agent, approve_all(result))  # in a program of yours, people decide
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
