"""An MCP server on this machine: what it lists becomes tools, and those you name wait for a person.

Prints:

    waiting: delete_note on MCP server notes {'name': 'secrets'}
    the server says: Deletes a note.
    model read: groceries, secrets
    model read: keep that one
"""

import asyncio
import sys

from keyturn import Agent, MCPServerStdio, Runner, Text
from keyturn.testing import ScriptedModel, function_call, tool_outputs

# Somebody else's program. A real one is started the same way: {"command": "npx", "args": ["-y", "some-server"]}.
PROGRAM = """
from mcp.server import MCPServer

server = MCPServer("notes", log_level="ERROR")

@server.tool()
def list_notes() -> str:
    "Lists the notes."
    return "groceries, secrets"

@server.tool()
def delete_note(name: str) -> str:
    "Deletes a note."
    return f"deleted {name}"

server.run("stdio")
"""


async def main() -> None:
    calls = [function_call("list_notes", {}), function_call("delete_note", {"name": "secrets"})]
    model = ScriptedModel([calls, "Done."])
    notes = MCPServerStdio(
        {"command": sys.executable, "args": ["-c", PROGRAM]},
        name="notes",
        client_session_timeout_seconds=30,
        require_approval={"never": {"tool_names": ["list_notes"]}},  # whatever else it lists asks
    )
    async with notes:
        agent = Agent(name="Secretary", model=model, mcp_servers=[notes])
        state = (await Runner.run(agent, "Tidy up.")).to_state()
        for call in state.get_interruptions():
            print("waiting:", call.preview.summary, call.params)
            described = [block.text for block in call.preview.blocks if isinstance(block, Text)]
            print("the server says:", described[-1])
            state.reject(call, rejection_message="keep that one", by="ada")
        await Runner.run(agent, state)
    for output in tool_outputs(model.calls[-1]).values():
        print("model read:", output)


if __name__ == "__main__":
    asyncio.run(main())
