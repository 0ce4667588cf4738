"""pydantic-deep: `create_deep_agent` with its defaults, save what would need a network."""

from __future__ import annotations

from typing import Any

from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage, UsageLimits
from pydantic_deep import DeepAgentDeps, StateBackend, StateWorkspace, create_deep_agent

from ..script import FINAL, PROMPT


class Driver:
    """One agent, files in memory; it gives the result and whether it waits."""

    def __init__(self, script: Any, rules: dict[str, bool]) -> None:
        self.script = script
        self.store: dict[str, StateBackend] = {}
        self.agent: Any = create_deep_agent(
            model=FunctionModel(self.model),
            interrupt_on=rules or None,
            workspace=StateWorkspace(store=self.store),
            web_search=False,
            web_fetch=False,
            thinking=False,
        )

    async def model(self, messages: Any, info: AgentInfo) -> ModelResponse:
        call = self.script.reply()
        usage = RequestUsage(input_tokens=1, output_tokens=1)
        if call is None:
            return ModelResponse(parts=[TextPart(FINAL)], usage=usage)
        label, path, content = call
        part = ToolCallPart("write_file", {"path": path, "content": content}, tool_call_id=label)
        return ModelResponse(parts=[part], usage=usage)

    async def start(self) -> tuple[Any, bool]:
        result = await self.agent.run(PROMPT, deps=DeepAgentDeps(), usage_limits=UsageLimits(request_limit=None))
        return result, isinstance(result.output, DeferredToolRequests)

    def files(self) -> int:
        return sum(len(backend.files) for backend in self.store.values())
