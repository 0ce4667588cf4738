"""An MCP server that the provider talks to: its approval requests wait here like any other call.

Prints:

    docs.read_page {"page":"Index"}
    docs.delete_page {"page":"Index"}
    sent: {'type': 'mcp_approval_response', 'approval_request_id': 'r1', 'approve': True}
    sent: {'type': 'mcp_approval_response', 'approval_request_id': 'r2', 'approve': False, 'reason': 'never delete'}
"""

import asyncio

from keyturn import Agent, HostedMCPTool, Runner
from keyturn.testing import ScriptedModel

DOCS = {
    "type": "mcp",
    "server_label": "docs",
    "server_url": "https://docs.example.com/mcp",
    "require_approval": {"never": {"tool_names": ["search"]}},
}


def request(label: str, tool: str) -> dict[str, str]:
    """What the provider's reply holds when the model wants to use a tool of the server."""
    kind = {"type": "mcp_approval_request", "id": label, "server_label": "docs"}
    return {**kind, "name": tool, "arguments": '{"page":"Index"}'}


async def main() -> None:
    model = ScriptedModel([[request("r1", "read_page"), request("r2", "delete_page")], "Done."])
    agent = Agent(name="Librarian", model=model, tools=[HostedMCPTool(tool_config=DOCS)])

    result = await Runner.run(agent, "Read the index, then delete it.")
    state = result.to_state()
    for waiting in state.get_interruptions():
        print(f"{waiting.raw_item.server_label}.{waiting.name}", waiting.arguments)
        if waiting.name == "read_page":
            state.approve(waiting, by="ada")
        else:
            state.reject(waiting, rejection_message="never delete", by="ada")
    await Runner.run(agent, state)
    for item in model.calls[1].input[-2:]:
        print("sent:", item)


if __name__ == "__main__":
    asyncio.run(main())
