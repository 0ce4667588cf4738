"""A server on this machine whose tools ask by name.

Prints:

    ['delete_file', 'read_file']
    ['delete_file']
    Done. 2
"""

import asyncio
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call

SERVER = """
from mcp.server import MCPServer
server = MCPServer("files", log_level="ERROR")
@server.tool()
def read_file(path: str) -> str:
    "Reads."
    return f"text of {path}"
@server.tool()
def delete_file(path: str) -> str:
    "Deletes."
    return f"deleted {path}"
server.run("stdio")
"""


async def main() -> None:
    async with MCPServerStdio(
        name="files",
        params={"command": sys.executable, "args": ["-c", SERVER]},
        client_session_timeout_seconds=30,
        require_approval={"always": {"tool_names": ["delete_file"]}},
    ) as server:
        print(sorted(tool.name for tool in await server.list_tools()))
        calls = [function_call(name, {"path": "a"}, call_id=name) for name in ("read_file", "delete_file")]
        agent = Agent(name="Files", model=ScriptedModel([calls, [assistant_message("Done.")]]), mcp_servers=[server])
        result = await Runner.run(agent, "Read and delete a")
        print([item.name for item in result.interruptions])
        state = result.to_state()
        state.approve(result.interruptions[0])
        result = await Runner.run(agent, state)
        print(result.final_output, len([item for item in result.new_items if item.type == "tool_call_output_item"]))


asyncio.run(main())
