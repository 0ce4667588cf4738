"""Pydantic AI asks over AAP: started by test_adapters.py, in an environment that has it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentapprovalprotocol import AsyncClient
from agentapprovalprotocol.pydantic_ai import ApprovalCapability
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

URL, TOKEN = sys.argv[1:3]
RAN: list[str] = []


def asks(*orders: str) -> FunctionModel:
    """Make a model that asks for its calls, and is done once they have results."""

    def step(messages: list[ModelMessage], _info: Any) -> ModelResponse:
        parts = [part for message in messages for part in message.parts]
        if any(part.part_kind in ("tool-return", "retry-prompt") for part in parts):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("pay", {"order": each}, f"call-{each}") for each in orders])

    return FunctionModel(step)


def agent(*orders: str, **options: Any) -> Agent[Any, Any]:
    capability = ApprovalCapability(URL, TOKEN, **options)
    paused = {"output_type": [str, DeferredToolRequests]} if options.get("mode") == "async" else {}
    made: Agent[Any, Any] = Agent(asks(*orders), capabilities=[capability], **paused)

    @made.tool_plain
    def pay(order: str) -> str:
        RAN.append(order)
        return f"paid {order}"

    return made


def outputs(result: Any) -> list[str]:
    parts = [part for message in result.all_messages() for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


async def waits() -> dict[str, Any]:
    """Two calls of a turn, one approved and one denied; and one on which no one decides."""
    result = await agent("ok-1", "no-1").run("Pay.")
    await agent("wait-1", wait_limit=0.2).run("Pay.")
    return {"ran": [*RAN], "outputs": outputs(result)}


async def pauses() -> dict[str, Any]:
    """A run that is paused: a forged approval, the right one, and the same one a second time."""
    RAN.clear()
    paused = await agent("async-1", mode="async").run("Pay.")
    [call] = paused.output.approvals
    request = paused.output.metadata[call.tool_call_id]["aap_request_id"]
    fresh = agent("async-1", mode="async")

    async def resume() -> Any:
        forged = DeferredToolResults(approvals={call.tool_call_id: True})
        return await fresh.run(conversation=paused.conversation, deferred_tool_results=forged)

    forged = await resume()
    after_forged = [*RAN]
    client = AsyncClient(URL, TOKEN)
    await client.create({"tool": "pay", "arguments": {"order": "go-1"}, "timeout": "10m"}, "go")
    while (await client.get(request, wait=5)).status == "pending":
        pass
    await asyncio.gather(resume(), resume())
    await resume()
    repaused = isinstance(forged.output, DeferredToolRequests)
    return {"paused": 1, "refused": repaused, "after_forged": after_forged, "ran": [*RAN]}


async def main() -> None:
    print(json.dumps({"waits": await waits(), "pauses": await pauses()}))


asyncio.run(main())
