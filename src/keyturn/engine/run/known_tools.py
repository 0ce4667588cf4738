"""Find the tool of a call where no server may be asked: for people, who look and decide while a server is down.

A tool of the agent's own is at hand. A tool of a server is made of what the log recorded when the call was proposed, so
that what is checked here is what was shown. Whatever runs is looked up at its server.
"""

from __future__ import annotations

from typing import Any

from ...agents.agent import Agent
from ...agents.agent_base import is_enabled
from ...agents.context import RunContextWrapper
from ...agents.handoff import handoffs_of
from ...core.run import Call, Run
from ...tools.base import Tool
from .frame_settings import Toolset, toolset_of


async def own_tools(agent: Agent[Any], path: str, context: RunContextWrapper[Any]) -> Toolset:
    """Return what an agent may call without its servers."""
    own = [tool for tool in agent.tools if await is_enabled(tool, context, agent)]
    return Toolset(path, own, handoffs_of(agent))


async def known_tool(run: Run, call: Call, agent: Agent[Any], context: RunContextWrapper[Any]) -> Tool | None:
    """Return the tool of a call as it is known without asking a server; None where it is not."""
    if not agent.mcp_servers:
        tools = await agent.get_all_tools(context)
        return toolset_of(agent, call.agent, tools, handoffs_of(agent)).find(call.raw)
    own = (await own_tools(agent, call.agent, context)).find(call.raw)
    if own is not None:
        return own
    spec = run.tools.get(call.proposal.tool)
    local: list[Any] = []
    for server in agent.mcp_servers:
        recorded = getattr(server, "recorded_tool", None)
        if recorded is None:  # no server, but a source of tools that stands on its own
            local += await server.tools_for(context, agent)
        elif spec is not None and (made := recorded(spec, agent)) is not None:
            return made
    return Toolset(call.agent, local, []).find(call.raw)
