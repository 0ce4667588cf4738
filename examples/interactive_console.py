"""The person at the keyboard decides: previews, then approve, edit, reject, answer, or grant for later.

Run it in a terminal: `python examples/interactive_console.py`. Ctrl-C and Ctrl-D never approve anything.
"""

import asyncio
from typing import Any

from keyturn import Agent, Command, Runner, function_tool
from keyturn.console import Undecided, decide
from keyturn.testing import ModelRequest, ScriptedModel, function_call, tool_outputs


@function_tool(needs_approval=True, preview=lambda given: Command(given["command"], cwd="/srv/app"))
def run_command(command: str) -> str:
    """Run a command (this example only pretends to)."""
    return f"$ {command}\nok"


def reply(request: ModelRequest) -> Any:
    told = tool_outputs(request)
    if not told:
        return [function_call("run_command", {"command": "git clean -fdx && make deploy"}, call_id="c1")]
    return f"The last thing I know is:\n{told['c1']}"


async def main(**keyboard: Any) -> None:
    agent = Agent(name="Deployer", model=ScriptedModel(reply), tools=[run_command])
    result = await Runner.run(agent, "Deploy the app.")
    try:
        while result.interruptions:
            result = await Runner.run(agent, decide(result, by="me", **keyboard))
    except Undecided as left:
        print("The run waits. Save it with left.state.to_string():", len(left.state.to_string()), "bytes")
        return
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
