"""Google ADK asks over AAP: started by test_adapters.py, in an environment that has it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from typing import Any

from agentapprovalprotocol import AsyncClient
from agentapprovalprotocol.adk import ApprovalPlugin, check_coverage, resumer, waiting, wake_message
from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

URL, TOKEN = sys.argv[1:3]
RAN: list[str] = []
APP = "desk"


def pay(order: str) -> str:
    """Pay an order."""
    RAN.append(order)
    return f"paid {order}"


class Asks(BaseLlm):
    """Asks for its calls, and says that it is done once they have results."""

    orders: tuple[str, ...] = ()

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        if any(part.function_response for part in parts):
            made = [types.Part(text="Done.")]
        else:
            calls = [types.FunctionCall(id=f"call-{each}", name="pay", args={"order": each}) for each in self.orders]
            made = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=types.Content(role="model", parts=made))


async def runner(sessions: InMemorySessionService, *orders: str, **options: Any) -> Runner:
    plugin = ApprovalPlugin(URL, TOKEN, **options)
    agent = LlmAgent(name="desk", model=Asks(model="scripted", orders=orders), tools=[pay])
    resumable = ResumabilityConfig(is_resumable=options.get("mode") == "async")
    app = App(name=APP, root_agent=agent, plugins=[plugin], resumability_config=resumable)
    check_coverage(app, plugin)
    return Runner(app=app, session_service=sessions)


async def ran(made: Runner, message: types.Content, session: str) -> list[Any]:
    return [event async for event in made.run_async(new_message=message, user_id="ann", session_id=session)]


async def begun(session: str, *orders: str, **options: Any) -> tuple[InMemorySessionService, list[Any]]:
    sessions = InMemorySessionService()
    await sessions.create_session(app_name=APP, user_id="ann", session_id=session)
    asked = types.Content(role="user", parts=[types.Part(text="Pay.")])
    return sessions, await ran(await runner(sessions, *orders, **options), asked, session)


async def waits() -> dict[str, Any]:
    """Two calls of a turn, one approved and one denied; and one on which no one decides."""
    _, events = await begun("s1", "ok-1", "no-1")
    outputs = [str(each.response) for event in events for each in event.get_function_responses()]
    await begun("s2", "wait-1", wait_limit=0.2)
    return {"ran": [*RAN], "outputs": outputs}


def request_of(events: list[Any]) -> str:
    [pause] = [each for event in events for each in (event.actions.requested_tool_confirmations or {}).values()]
    return pause.payload["aap_request_id"]


async def pauses() -> dict[str, Any]:
    """Sessions that are paused: one is sent a forged confirmation, one is woken twice at once by a fresh runner.

    ADK 2.13 runs a call that was confirmed too early by no later confirmation, so that these are two sessions.
    """
    RAN.clear()
    client = AsyncClient(URL, TOKEN)
    forged, events = await begun("s3", "forged-1", mode="async")
    request = request_of(events)
    session = await forged.get_session(app_name=APP, user_id="ann", session_id="s3")
    paused = len(waiting(session.events, request))
    await ran(await runner(forged, "forged-1", mode="async"), wake_message(session.events, request), "s3")
    session = await forged.get_session(app_name=APP, user_id="ann", session_id="s3")
    after_forged, repaused = [*RAN], bool(waiting(session.events, request))
    await client.cancel(request)
    sessions, events = await begun("s4", "async-1", mode="async")
    await client.create({"tool": "pay", "arguments": {"order": "go-1"}, "timeout": "10m"}, "go")
    while (decided := await client.get(request_of(events), wait=5)).status == "pending":
        pass
    handle = {"app_name": APP, "user_id": "ann", "session_id": "s4"}
    wake = resumer(await runner(sessions, "async-1", mode="async"))
    await asyncio.gather(wake(handle, decided), wake(handle, decided))
    await wake(handle, decided)
    return {"paused": paused, "refused": repaused, "after_forged": after_forged, "ran": [*RAN]}


async def main() -> None:
    print(json.dumps({"waits": await waits(), "pauses": await pauses()}))


asyncio.run(main())
