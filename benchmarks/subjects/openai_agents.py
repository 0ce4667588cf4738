"""openai-agents with tracing off. Its own `ScriptedModel` copies the whole input at each call, which is not the
runtime's cost: a minimal member of its model seam stands in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from agents import (
    Agent,
    Model,
    ModelResponse,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    RunResult,
    RunState,
    Usage,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from ..script import FINAL, PROMPT, UNLIMITED, Call, Script
from ..sdks import MODEL as WIRED
from ..sdks import openai_at

set_tracing_disabled(True)
CONFIG = RunConfig(tracing_disabled=True)


def item(call: Call) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id=call.id, name=call.tool, arguments=call.arguments)


def message(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(type="message", id="msg_1", role="assistant", status="completed", content=[content])


def delta_event(text: str, number: int) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(
        type="response.output_text.delta",
        delta=text,
        item_id="msg_1",
        output_index=0,
        content_index=0,
        sequence_number=number,
        logprobs=[],
    )


class Scripted(Model):
    """Answers from the script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events = [delta_event(delta, number) for number, delta in enumerate(script.deltas)]

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        output = [item(call) for call in self.script.reply()] or [message(FINAL)]
        return ModelResponse(output=output, usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.script.reply()
        for event in self.events:
            if self.script.suspend:
                await asyncio.sleep(0)
            yield event
        response = Response(
            id="resp_1",
            created_at=0,
            model="script",
            object="response",
            output=[message("".join(self.script.deltas))],
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
        )
        yield ResponseCompletedEvent(type="response.completed", response=response, sequence_number=len(self.events))


class Driver:
    """One agent; a handle is a result, or a state once it was loaded."""

    SDK = True
    REALTIME = "agents.realtime"
    APIS: ClassVar[dict[str, Any]] = {"responses": OpenAIResponsesModel, "chat": OpenAIChatCompletionsModel}

    def __init__(self, script: Script) -> None:
        noop, gated = script.tools()
        tools = [function_tool(noop), function_tool(gated, needs_approval=True)]
        self.agent = Agent("bench", model=Scripted(script), tools=tools)

    async def start(self) -> RunResult:
        return await Runner.run(self.agent, PROMPT, max_turns=UNLIMITED, run_config=CONFIG)

    def pending(self, held: RunResult) -> int:
        return len(held.interruptions)

    def save(self, held: RunResult) -> str:
        return held.to_state().to_string()

    async def load(self, text: str) -> RunState:
        return await RunState.from_string(self.agent, text)

    async def approve(self, state: RunState) -> RunResult:
        for waiting in state.get_interruptions():
            state.approve(waiting)
        return await Runner.run(self.agent, state, run_config=CONFIG)

    async def stream(self) -> list[str]:
        return await self.told(self.agent)

    async def over_wire(self, api: str, url: str) -> list[str]:
        if not isinstance(self.agent.model, self.APIS[api]):
            self.agent = self.agent.clone(model=self.APIS[api](WIRED, openai_at(url)))
        return await self.told(self.agent)

    async def told(self, agent: Agent) -> list[str]:
        result = Runner.run_streamed(agent, PROMPT, run_config=CONFIG)
        return [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
        ]
