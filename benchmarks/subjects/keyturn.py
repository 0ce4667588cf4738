"""Keyturn, through its public names only. Its model is the smallest member of the public seam, as the peers' are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from keyturn import (
    Agent,
    AnthropicModel,
    GoogleModel,
    Model,
    ModelResponse,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    RunResult,
    RunState,
    function_tool,
)
from keyturn.journal import open_journal

from ..script import FINAL, PROMPT, UNLIMITED, Call, Script
from ..sdks import MODEL as WIRED

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


class Shelf:
    """The journal, which has everything already: only the run's id goes round."""

    def __init__(self, journal: Any) -> None:
        self.journal, self.run = journal, ""

    def keep(self, run: str) -> None:
        self.run = run

    def found(self) -> str:
        return self.run

    async def close(self) -> None:
        await self.journal.close()


class Driver:
    """One agent; a handle is a result, or a state once it was loaded."""

    SDK = True
    REALTIME = "keyturn.realtime"
    APIS: ClassVar[dict[str, Any]] = {
        "responses": lambda url: OpenAIResponsesModel(WIRED, api_key="k", base_url=url),
        "chat": lambda url: OpenAIChatCompletionsModel(WIRED, api_key="k", base_url=url),
        "anthropic": lambda url: AnthropicModel(WIRED, api_key="k", base_url=url),
        "google": lambda url: GoogleModel(WIRED, api_key="k", base_url=url),
    }

    def __init__(self, script: Script) -> None:
        noop, gated = script.tools()
        tools = [function_tool(noop), function_tool(gated, needs_approval=True)]
        self.agent = Agent("bench", model=Scripted(script), tools=tools)
        self.journal: Any = None

    def shelf(self, path: Path) -> Shelf:
        self.journal = open_journal(f"sqlite:///{path}")
        return Shelf(self.journal)

    async def start(self) -> RunResult:
        return await Runner.run(self.agent, PROMPT, max_turns=UNLIMITED, journal=self.journal)

    def pending(self, held: RunResult) -> int:
        return len(held.interruptions)

    def save(self, held: RunResult) -> str:
        return held.to_state().to_string() if self.journal is None else held.run_id

    async def load(self, text: str) -> RunState:
        if self.journal is not None:
            return await RunState.load(self.journal, text, self.agent)
        return await RunState.from_string(self.agent, text)

    async def approve(self, state: RunState) -> RunResult:
        for waiting in state.get_interruptions():
            state.approve(waiting)
        return await Runner.run(self.agent, state)

    async def stream(self) -> list[str]:
        return await self.told(self.agent)

    async def over_wire(self, api: str, url: str) -> list[str]:
        if not isinstance(self.agent.model, type(model := self.APIS[api](url))):
            self.agent = self.agent.clone(model=model)
        return await self.told(self.agent)

    async def told(self, agent: Agent) -> list[str]:
        result = Runner.run_streamed(agent, PROMPT)
        return [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == TEXT_DELTA
        ]
