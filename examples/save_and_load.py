"""A paused run is a text: save it, end the process, load it next week, decide, and go on.

The text is signed with `KEYTURN_SECRET`, or with a key file made on first use. What was changed on the way is refused.

Prints:

    saved while deploy waits
    loaded, deploy still waits
    Version 2.1 is live.
    changed on the way: StateRejected
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from keyturn import Agent, Runner, RunState, StateRejected, function_tool
from keyturn.testing import ModelRequest, ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True)
def deploy(version: str) -> str:
    """Put a version into production."""
    return f"{version} is live"


def build() -> Agent:
    """What every process builds for itself. The model answers from the conversation, so any process can go on."""

    def reply(request: ModelRequest) -> Any:
        if not tool_outputs(request):
            return [function_call("deploy", {"version": "2.1"}, call_id="d1")]
        return "Version 2.1 is live."

    return Agent(name="Release", model=ScriptedModel(reply), tools=[deploy])


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "run.json")

        result = await Runner.run(build(), "Release 2.1")
        path.write_text(result.to_state().to_string())
        print("saved while", result.interruptions[0].name, "waits")

        agent = build()  # here another process, or another day
        state = await RunState.from_string(agent, path.read_text())
        print("loaded,", state.get_interruptions()[0].name, "still waits")
        state.approve(state.get_interruptions()[0])
        print((await Runner.run(agent, state)).final_output)

        try:
            await RunState.from_string(agent, path.read_text().replace("2.1", "6.6"))
        except StateRejected as error:
            print("changed on the way:", type(error).__name__)


if __name__ == "__main__":
    asyncio.run(main())
