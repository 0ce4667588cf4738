"""A chat that speaks AG-UI talks to an agent: a call is an interrupt until a person decided it in the inbox.

Prints:

    RUN_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED
    interrupt: refund is pending approval
    RUN_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END RUN_FINISHED
    not recorded: this token may not decide
    RUN_STARTED TOOL_CALL_START TOOL_CALL_ARGS TOOL_CALL_END TOOL_CALL_RESULT TEXT_MESSAGE_START \
TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED
    The refund is on its way.
"""

import asyncio
import json
from typing import Any

import httpx2

from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call


@function_tool(needs_approval=True)
def refund(order: str) -> str:
    """Refund an order."""
    return f"refunded {order}"


async def say(http: httpx2.AsyncClient, number: int, **more: Any) -> list[dict[str, Any]]:
    """Send the conversation, as an AG-UI client does, and return the events of the run."""
    messages = [{"id": "m1", "role": "user", "content": "Refund order A1."}]
    asked = {"threadId": "t1", "runId": f"r{number}", "messages": messages, **more}
    stream = (await http.post("/v1/agui/desk", json=asked)).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: ")]
    print(*(event["type"] for event in events))
    return events


async def main() -> None:
    model = ScriptedModel([function_call("refund", {"order": "A1"}), "The refund is on its way."])
    async with App([Agent("desk", model=model, tools=[refund])], "memory://") as app:
        await app.people.start("ada")
        await app.people.add("cyd", by="ada")
        token = await app.people.issue_token("cyd", ["run"], by="ada")
        transport, headers = httpx2.ASGITransport(app=app.asgi()), {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
            [interrupt] = (await say(http, 1))[-1]["outcome"]["interrupts"]
            print("interrupt:", interrupt["message"])
            # The chat's own word is no decision: its user is no approver, and its token may not decide.
            answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
            [again] = (await say(http, 2, resume=[answer]))[-1]["outcome"]["interrupts"]
            print("not recorded:", again["metadata"]["notRecorded"])
            await app.inbox.approve((await app.inbox.list())[0], by="ada")
            print((await say(http, 3))[-1]["result"])


if __name__ == "__main__":
    asyncio.run(main())
