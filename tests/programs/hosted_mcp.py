"""A hosted server asks: once the program's callback answers, once a person does.

Prints:

    asked about read
    asked about write
    Done.
    [True, False]
    a person approves read
    a person approves write
    Done.
"""

import asyncio

from agents import Agent, HostedMCPTool, MCPToolApprovalFunctionResult, MCPToolApprovalRequest, Runner
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses.response_output_item import McpApprovalRequest

CONFIG = {"type": "mcp", "server_label": "wiki", "server_url": "https://example.com/mcp", "require_approval": "always"}


def request(name: str) -> McpApprovalRequest:
    return McpApprovalRequest(
        id=f"mcpr_{name}", type="mcp_approval_request", server_label="wiki", name=name, arguments="{}"
    )


def decide(asked: MCPToolApprovalRequest) -> MCPToolApprovalFunctionResult:
    print("asked about", asked.data.name)
    return {"approve": asked.data.name == "read", "reason": "only reading"}


def steps() -> list:
    return [[request("read")], [request("write")], [assistant_message("Done.")]]


async def main() -> None:
    model = ScriptedModel(steps())
    agent = Agent(name="Wiki", model=model, tools=[HostedMCPTool(tool_config=CONFIG, on_approval_request=decide)])
    print((await Runner.run(agent, "Read and write")).final_output)
    print([item["approve"] for item in model.calls[-1].input if item.get("type") == "mcp_approval_response"])

    model = ScriptedModel(steps())
    agent = Agent(name="Wiki", model=model, tools=[HostedMCPTool(tool_config=CONFIG)])
    result = await Runner.run(agent, "Read and write")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            print("a person approves", item.name)
            state.approve(item)
        result = await Runner.run(agent, state)
    print(result.final_output)


asyncio.run(main())
