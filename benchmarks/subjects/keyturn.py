"""Keyturn, through its public names only. Its model is the smallest member of the public seam, as the peers' are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

from keyturn import Agent, Model, ModelResponse, Runner, RunResult, RunState, function_tool

from ..script import FINAL, PROMPT, UNLIMITED, Call, Script

TEXT_DELTA = "response.output_text.delta"


def item(call: Call) -> dict[str, Any]:
    """One call in the Responses format."""
    return {"type": "function_call", "call_id": call.id, "name": call.tool, "arguments": call.arguments}


def message(text: str) -> dict[str, Any]:
    """One assistant message in the Responses format."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


class Scripted(Model):
    """Answers from the script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.events = [SimpleNamespace(type=TEXT_DELTA, delta=delta) for delta in script.deltas]

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        calls = self.script.reply()
        return ModelResponse([item(call) for call in calls] or [message(FINAL)])

    async def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.script.reply()
        for event in self.events:
            if self.script.suspend:
                await asyncio.sleep(0)
            yield event
        response = {"id": "resp_1", "output": [message("".join(self.script.deltas))]}
        yield SimpleNamespace(type="response.completed", response=response)


class Driver:
    """One agent; a handle is a result, or a state once it was loaded."""

    def __init__(self, script: Script) -> None:
        noop, gated = script.tools()
        tools = [function_tool(noop), function_tool(gated, needs_approval=True)]
        self.agent = Agent("bench", model=Scripted(script), tools=tools)

    async def start(self) -> RunResult:
        return await Runner.run(self.agent, PROMPT, max_turns=UNLIMITED)

    def pending(self, held: RunResult) -> int:
        return len(held.interruptions)

    def save(self, held: RunResult) -> str:
        return held.to_state().to_string()

    async def load(self, text: str) -> RunState:
        return await RunState.from_string(self.agent, text)

    async def approve(self, state: RunState) -> RunResult:
        for waiting in state.get_interruptions():
            state.approve(waiting)
        return await Runner.run(self.agent, state)

    async def stream(self) -> list[str]:
        result = Runner.run_streamed(self.agent, PROMPT)
        return [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == TEXT_DELTA
        ]
