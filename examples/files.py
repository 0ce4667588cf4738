"""Tools for the files of one directory: reading is free, changing a file asks and shows the file before and after.

Prints:

    edit_file asks
    summary: update 'notes.txt'

    diff
    path: notes.txt
    | -milk
    | +oat milk
    |  eggs
    The model was told: notes.txt:1:milk
    The model was told: Edited 'notes.txt'.
    oat milk, eggs
"""

import asyncio
import tempfile
from pathlib import Path

from keyturn import Agent, Runner, filesystem_tools
from keyturn.render import terminal
from keyturn.testing import ScriptedModel, approve_all, function_call

MODEL = [
    function_call("grep", {"pattern": "milk", "output_mode": "content"}),
    function_call("edit_file", {"path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}),
    "Changed.",
]


async def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        notes = Path(place, "notes.txt")
        notes.write_text("milk\neggs\n")
        tools = filesystem_tools(place)  # needs_approval={"edit_file": ...} says otherwise, tool by tool
        agent = Agent(name="Clerk", model=ScriptedModel(MODEL), tools=tools)

        result = await Runner.run(agent, "We need oat milk.")
        (call,) = result.interruptions
        print(f"{call.name} asks\n{terminal.render(call.preview)}")

        result = await Runner.run(agent, approve_all(result))
        for item in result.new_items:
            if item.type == "tool_call_output_item":
                print("The model was told:", item.output)
        print(", ".join(notes.read_text().split("\n")[:2]))


if __name__ == "__main__":
    asyncio.run(main())
