"""Shell commands behind approval: a person sees the exact command and what a shell reads in it, before it runs.

Here they run on this machine, in a directory of their own. `ShellTool()` runs them in a sandbox of bubblewrap.

Prints:

    command
    | grep -c TODO notes.txt > count.txt; cat count.txt

    text: parts of this command
    | programs: grep, cat
    | joined by: ;
    | redirections: > count.txt
    told: {'stdout': '2\\n', 'stderr': '', 'outcome': {'type': 'exit', 'exit_code': 0}}
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from keyturn import Agent, Command, LocalExecutor, Preview, Runner, ShellTool
from keyturn.render import terminal
from keyturn.testing import ScriptedModel

COMMAND = "grep -c TODO notes.txt > count.txt; cat count.txt"
CALL = {"type": "shell_call", "call_id": "c1", "action": {"commands": [COMMAND]}}


async def main() -> None:
    with TemporaryDirectory() as place:
        Path(place, "notes.txt").write_text("TODO: tests\nTODO: docs\n")
        shell = ShellTool(LocalExecutor(place))
        agent = Agent(name="Clerk", model=ScriptedModel([[CALL], "Two."]), tools=[shell])

        result = await Runner.run(agent, "How many notes are open?")
        (call,) = result.interruptions
        command, read, _where_it_runs = call.preview.blocks
        assert isinstance(command, Command)
        print(terminal.render(Preview((Command(command.command), read))))

        state = result.to_state()
        state.approve(call, by="ada")
        result = await Runner.run(agent, state)
        outputs = [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]
        print("told:", outputs[0]["output"][0])


if __name__ == "__main__":
    asyncio.run(main())
