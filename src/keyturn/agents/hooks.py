"""Hooks, which a user subclasses to watch a run.

Every method does nothing by default and is awaited where the thing happens. A hook sees and may raise; it
never decides whether a tool runs: that is what `needs_approval`, guardrails and policies are for.
"""

from __future__ import annotations

import sys
from typing import Any, Generic

from ..core.items import Item
from ..models.base import ModelResponse
from .context import RunContextWrapper, TContext

if sys.version_info >= (3, 13):
    from typing import TypeVar
else:
    from typing_extensions import TypeVar

TAgent = TypeVar("TAgent", default=Any)


class RunHooksBase(Generic[TContext, TAgent]):
    """Watches a whole run: every agent, every model call, every tool.

    >>> class Log(RunHooks):
    ...     async def on_tool_start(self, context, agent, tool):
    ...         print(agent.name, "calls", tool.name)
    >>> isinstance(Log(), RunHooks)
    True
    """

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: TAgent,
        system_prompt: str | None,
        input_items: list[Item],
    ) -> None:
        """Called just before the model is asked."""

    async def on_llm_end(self, context: RunContextWrapper[TContext], agent: TAgent, response: ModelResponse) -> None:
        """Called when the model has answered."""

    async def on_agent_start(self, context: RunContextWrapper[TContext], agent: TAgent) -> None:
        """Called when an agent takes over, the first one included."""

    async def on_agent_end(self, context: RunContextWrapper[TContext], agent: TAgent, output: Any) -> None:
        """Called when an agent has its final output."""

    async def on_handoff(self, context: RunContextWrapper[TContext], from_agent: TAgent, to_agent: TAgent) -> None:
        """Called when one agent hands over to another."""

    async def on_tool_start(self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any) -> None:
        """Called just before a tool runs; `context` is that call's `ToolContext`."""

    async def on_tool_end(self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, result: Any) -> None:
        """Called when a tool has run; `context` is that call's `ToolContext`."""

    async def on_tool_error(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, error: BaseException
    ) -> None:
        """Called when a tool raised, once its result is recorded: the model reads other words than the error's."""


class AgentHooksBase(Generic[TContext, TAgent]):
    """Watches one agent: set it as `Agent(hooks=...)`.

    >>> class Greet(AgentHooks):
    ...     async def on_start(self, context, agent):
    ...         print("now working:", agent.name)
    >>> isinstance(Greet(), AgentHooks)
    True
    """

    async def on_start(self, context: RunContextWrapper[TContext], agent: TAgent) -> None:
        """Called when this agent takes over."""

    async def on_end(self, context: RunContextWrapper[TContext], agent: TAgent, output: Any) -> None:
        """Called when this agent has its final output."""

    async def on_handoff(self, context: RunContextWrapper[TContext], agent: TAgent, source: TAgent) -> None:
        """Called when this agent, the `source`, hands over to `agent`."""

    async def on_tool_start(self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any) -> None:
        """Called just before a tool of this agent runs; `context` is that call's `ToolContext`."""

    async def on_tool_end(self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, result: Any) -> None:
        """Called when a tool of this agent has run; `context` is that call's `ToolContext`."""

    async def on_tool_error(
        self, context: RunContextWrapper[TContext], agent: TAgent, tool: Any, error: BaseException
    ) -> None:
        """Called when a tool of this agent raised, once its result is recorded."""

    async def on_llm_start(
        self,
        context: RunContextWrapper[TContext],
        agent: TAgent,
        system_prompt: str | None,
        input_items: list[Item],
    ) -> None:
        """Called just before this agent's model is asked."""

    async def on_llm_end(self, context: RunContextWrapper[TContext], agent: TAgent, response: ModelResponse) -> None:
        """Called when this agent's model has answered."""


RunHooks = RunHooksBase
AgentHooks = AgentHooksBase
