"""A sandbox instead of questions: in it commands run unasked, and where there is none a person is asked about each.

In the sandbox (bubblewrap, Linux) a command can write in one directory, has no network and sees no other process.

Prints:

    told: 2 copy.txt
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from keyturn import Agent, BubblewrapExecutor, LocalExecutor, Runner, SandboxUnavailable, ShellTool
from keyturn.testing import ScriptedModel

CALL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["cat notes.txt > copy.txt; wc -l copy.txt"]}}


async def shell_in(place: str) -> ShellTool:
    """A shell that asks only where nothing else holds it."""
    sandbox = BubblewrapExecutor(place)
    try:
        await sandbox.check()
    except SandboxUnavailable:
        return ShellTool(LocalExecutor(place))
    return ShellTool(sandbox, needs_approval=False)


async def main() -> None:
    with TemporaryDirectory() as place:
        Path(place, "notes.txt").write_text("tests\ndocs\n")
        agent = Agent(name="Clerk", model=ScriptedModel([[CALL], "Done."]), tools=[await shell_in(place)])

        result = await Runner.run(agent, "Copy my notes.")
        if result.interruptions:  # no sandbox here: this person reads the command and allows it
            state = result.to_state()
            state.approve(result.interruptions[0], by="ada")
            result = await Runner.run(agent, state)

        (output,) = [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]
        print("told:", output["output"][0]["stdout"], end="")


if __name__ == "__main__":
    asyncio.run(main())
