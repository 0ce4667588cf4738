"""Pydantic AI with a FunctionModel and deferred tools; the state that it saves is its message history as JSON.

The usage is given with each reply: without it the FunctionModel counts the words of the whole history at each call,
which is not the runtime's cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage, UsageLimits

from ..script import FINAL, PROMPT, Script
from ..sdks import MODEL as WIRED
from ..sdks import openai_at

LIMITS = UsageLimits(request_limit=None)


class Driver:
    """One agent; a handle is the result, or a message history once it was loaded."""

    SDK = True
    APIS: ClassVar[dict[str, Any]] = {"responses": OpenAIResponsesModel, "chat": OpenAIChatModel}

    def __init__(self, script: Script) -> None:
        self.script = script
        noop, gated = script.tools()
        model = FunctionModel(self.model, stream_function=self.deltas)
        self.agent: Agent[None, Any] = Agent(model, output_type=[str, DeferredToolRequests])
        self.agent.tool_plain(noop)
        self.agent.tool_plain(requires_approval=True)(gated)

    async def model(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls = self.script.reply()
        parts = [ToolCallPart(call.tool, call.arguments, tool_call_id=call.id) for call in calls]
        return ModelResponse(parts=parts or [TextPart(FINAL)], usage=RequestUsage(input_tokens=1, output_tokens=1))

    async def deltas(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.script.reply()
        for delta in self.script.deltas:
            if self.script.suspend:
                await asyncio.sleep(0)
            yield delta

    async def start(self) -> Any:
        return await self.agent.run(PROMPT, usage_limits=LIMITS)

    def pending(self, held: Any) -> int:
        return len(held.output.approvals) if isinstance(held.output, DeferredToolRequests) else 0

    def save(self, held: Any) -> str:
        return ModelMessagesTypeAdapter.dump_json(held.all_messages()).decode()

    async def load(self, text: str) -> list[ModelMessage]:
        return ModelMessagesTypeAdapter.validate_json(text)

    async def approve(self, history: list[ModelMessage]) -> Any:
        last = history[-1]
        waiting = last.tool_calls if isinstance(last, ModelResponse) else []
        results = DeferredToolResults(approvals={call.tool_call_id: True for call in waiting})
        return await self.agent.run(message_history=history, deferred_tool_results=results, usage_limits=LIMITS)

    async def stream(self) -> list[str]:
        return await self.told(None)

    async def over_wire(self, api: str, url: str) -> list[str]:
        return await self.told(self.APIS[api](WIRED, provider=OpenAIProvider(openai_client=openai_at(url))))

    async def told(self, model: Any) -> list[str]:
        async with self.agent.run_stream(PROMPT, model=model) as result:
            return [delta async for delta in result.stream_text(delta=True, debounce_by=None)]
