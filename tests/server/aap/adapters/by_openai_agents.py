"""The OpenAI Agents SDK asks over AAP: started by test_adapters.py, in an environment that has the SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agentapprovalprotocol import AsyncClient
from agentapprovalprotocol.openai_agents import Approvals
from agentapprovalprotocol.receiver import Receiver
from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

URL, TOKEN = sys.argv[1:3]
RAN: list[str] = []
STATES: dict[str, str] = {}
set_tracing_disabled(True)


def pay(order: str) -> str:
    """Pay an order."""
    RAN.append(order)
    return f"paid {order}"


class Asks(Model):
    """Asks for its calls, and says that it is done once they have results."""

    def __init__(self, *orders: str) -> None:
        self.orders = orders

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        done = isinstance(input, list) and any(item.get("type") == "function_call_output" for item in input)
        output = [_message()] if done else [_call(order) for order in self.orders]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def _call(order: str) -> ResponseFunctionToolCall:
    arguments = json.dumps({"order": order})
    return ResponseFunctionToolCall(call_id=f"call-{order}", name="pay", arguments=arguments, type="function_call")


def _message() -> ResponseOutputMessage:
    text = ResponseOutputText(text="Done.", type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")


def agent(*orders: str) -> Agent[Any]:
    return Agent("desk", model=Asks(*orders), tools=[function_tool(pay)])


async def waits() -> dict[str, Any]:
    """Two calls of a turn, one approved and one denied; and one on which no one decides."""
    made = Approvals(URL, TOKEN).protect(agent("ok-1", "no-1"))
    result = await Runner.run(made, "Pay.")
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    late = Approvals(URL, TOKEN, wait_limit=0.2).protect(agent("wait-1"))
    await Runner.run(late, "Pay.")
    return {"ran": [*RAN], "outputs": outputs}


async def pauses() -> dict[str, Any]:
    """A run that is paused: a forged approval, a fresh agent that resumes it, and two wakes at once."""
    RAN.clear()
    options: dict[str, Any] = {"mode": "async", "save": STATES.__setitem__, "load": STATES.get}
    approvals = Approvals(URL, TOKEN, **options)
    made = approvals.protect(agent("async-1"))
    paused = await approvals.run(made, "Pay.", run_id="run-1")
    [item] = paused.interruptions
    forged = await RunState.from_string(made, STATES["run-1"])
    forged.approve(forged.get_interruptions()[0])
    try:
        await Runner.run(made, forged)
        refused = ""
    except Exception as error:
        refused = type(error).__name__
    after_forged = [*RAN]
    again = Approvals(URL, TOKEN, **options)
    fresh = again.protect(agent("async-1"))
    client = AsyncClient(URL, TOKEN)
    receiver = Receiver(secret=None, client=client, resumers={"openai-agents": again.resumer(fresh)})
    request = await _request(approvals, item)  # while it is pending: a check of what is approved would consume it
    await client.create({"tool": "pay", "arguments": {"order": "go-1"}, "timeout": "10m"}, "go")
    while (await client.get(request, wait=5)).status == "pending":
        pass
    await asyncio.gather(receiver.wake(request), receiver.wake(request))
    await receiver.wake(request)
    return {"paused": len(paused.interruptions), "refused": refused, "after_forged": after_forged, "ran": [*RAN]}


async def _request(approvals: Approvals, item: Any) -> str:
    """Find the request as the adapter does, by its key."""
    key = f"run-1:desk:{item.call_id}"
    call = approvals._call(key, "pay", json.loads(item.arguments), None, None, "run-1")
    return str((await approvals.gate.check(call)).request_id)


async def main() -> None:
    print(json.dumps({"waits": await waits(), "pauses": await pauses()}))


asyncio.run(main())
