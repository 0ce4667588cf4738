"""The Claude Agent SDK asks over AAP: started by test_adapters.py, in an environment that has it and its agent."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from agentapprovalprotocol import AsyncClient
from agentapprovalprotocol.claude_agent_sdk import ApprovalHooks, resumer
from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

URL, TOKEN, MODEL = sys.argv[1:4]
RAN: list[str] = []
ENVIRONMENT = {
    "ANTHROPIC_BASE_URL": MODEL, "ANTHROPIC_API_KEY": "sk-none", "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false",
}  # fmt: skip


@tool("pay", "Pay an order.", {"order": str})
async def pay(args: dict[str, Any]) -> dict[str, Any]:
    RAN.append(args["order"])
    return {"content": [{"type": "text", "text": f"paid {args['order']}"}]}


def options(hooks: ApprovalHooks) -> ClaudeAgentOptions:
    server = create_sdk_mcp_server("desk", tools=[pay])
    made = ClaudeAgentOptions(mcp_servers={"desk": server}, cwd=os.environ["HOME"], env=ENVIRONMENT)
    return hooks.options(made)


async def ran(prompt: str, made: ClaudeAgentOptions) -> tuple[list[str], str]:
    """Run a prompt to its end, and return what its calls came to, and its session."""

    async def asked() -> Any:  # a stream, since hooks are answered while it is open
        yield {"type": "user", "message": {"role": "user", "content": prompt}}

    outputs, session = list[str](), ""
    async for message in query(prompt=asked(), options=made):
        blocks = getattr(message, "content", None)
        if isinstance(blocks, list):
            outputs += [str(block.content) for block in blocks if hasattr(block, "tool_use_id")]
        session = getattr(message, "session_id", None) or session
    return outputs, session


async def waits() -> dict[str, Any]:
    """Two calls of a turn, one approved and one denied; and one on which no one decides."""
    outputs, _ = await ran("Pay: ok-1 no-1", options(ApprovalHooks(URL, TOKEN)))
    await ran("Pay: wait-1", options(ApprovalHooks(URL, TOKEN, wait_limit=0.2)))
    return {"ran": [*RAN], "outputs": outputs}


async def pauses() -> dict[str, Any]:
    """A session whose call is deferred: resumed too early, then twice at once after the approval, by fresh hooks."""
    RAN.clear()
    hooks = ApprovalHooks(URL, TOKEN, mode="async")
    _, session = await ran("Pay: async-1", options(hooks))
    [(name, call)] = hooks._deferred.items()
    request = (await hooks.gate.check(call)).request_id
    fresh = ApprovalHooks(URL, TOKEN, mode="async")
    wake, handle = resumer(options(fresh)), {"session_id": session, "tool_use_id": name}
    client = AsyncClient(URL, TOKEN)
    await wake(handle, await client.get(request))
    after_forged, deferred = [*RAN], bool(fresh._deferred)
    await client.create({"tool": "pay", "arguments": {"order": "go-1"}, "timeout": "10m"}, "go")
    while (decided := await client.get(request, wait=5)).status == "pending":
        pass
    await asyncio.gather(wake(handle, decided), wake(handle, decided))
    await wake(handle, decided)
    return {"paused": 1, "refused": deferred, "after_forged": after_forged, "ran": [*RAN]}


async def main() -> None:
    print(json.dumps({"waits": await waits(), "pauses": await pauses()}))


asyncio.run(main())
