"""Call the hooks of a tool: just before it is called, and when its result is recorded.

An agent used as a tool is touched when its frame opens and has its result when that frame ends.
"""

from __future__ import annotations

from typing import Any

from ...tools.base import Tool
from ..run.frame_settings import FrameSettings


async def tool_hooks(scope: FrameSettings, context: Any, name: str, tool: Tool, *args: Any) -> None:
    """Call one hook, the run's first and then the agent's."""
    agent = context.agent
    if not tool.announced:
        return
    for listener in (scope.hooks, agent.hooks):
        if listener is not None:
            await getattr(listener, name)(context, agent, tool, *args)
