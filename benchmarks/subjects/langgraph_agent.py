"""LangGraph's agent: `create_agent` with the human-in-the-loop middleware and a checkpointer where calls are gated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ..script import FINAL, PROMPT, Script
from . import langgraph_thread as thread


class Scripted(BaseChatModel):
    """Answers from the script."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        calls = [
            {"name": call.tool, "args": {"x": 1}, "id": call.id, "type": "tool_call"} for call in self.script.reply()
        ]
        message = AIMessage(content="" if calls else FINAL, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


class Streaming(Scripted):
    """Streams the script's deltas."""

    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        self.script.reply()
        for delta in self.script.deltas:
            if self.script.suspend:
                await asyncio.sleep(0)
            yield ChatGenerationChunk(message=AIMessageChunk(content=delta))


class Driver:
    """One agent; a handle is its last answer and the thread it lives in."""

    def __init__(self, script: Script) -> None:
        self.saver = InMemorySaver()
        model = (Streaming if script.deltas else Scripted)(script=script)
        gate = {"middleware": [HumanInTheLoopMiddleware({"gated": True})], "checkpointer": self.saver}
        self.agent = create_agent(model, [tool(fn) for fn in script.tools()], **(gate if script.gates else {}))

    async def start(self) -> tuple[Any, dict[str, Any]]:
        return await self.run({"messages": [{"role": "user", "content": PROMPT}]}, thread.new_thread())

    async def run(self, given: Any, config: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return await self.agent.ainvoke(given, config), config

    def pending(self, held: tuple[Any, dict[str, Any]]) -> int:
        return sum(len(one.value["action_requests"]) for one in held[0].get("__interrupt__", ()))

    def save(self, held: tuple[Any, dict[str, Any]]) -> bytes:
        return thread.save(self.saver, held[1])

    async def load(self, data: bytes) -> tuple[dict[str, Any], list[Any]]:
        return thread.load(self.saver, data)

    async def approve(self, held: tuple[dict[str, Any], list[Any]]) -> tuple[Any, dict[str, Any]]:
        config, asked = held
        waiting = sum(len(value["action_requests"]) for value in asked)
        return await self.run(Command(resume={"decisions": [{"type": "approve"}] * waiting}), config)

    async def stream(self) -> list[str]:
        given = {"messages": [{"role": "user", "content": PROMPT}]}
        stream = self.agent.astream(given, thread.new_thread(), stream_mode="messages")
        return [chunk.content async for chunk, _ in stream if chunk.content]
