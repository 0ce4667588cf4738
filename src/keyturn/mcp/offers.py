"""A server's tools as each agent has them: by which name, under which approval, with which of its settings.

An agent gets the same object as long as nothing but the server's words changed. No server is spoken to here.
"""

from __future__ import annotations

import inspect
import weakref
from dataclasses import replace
from typing import Any

from .approval import Approvals
from .base import RemoteTool
from .options import UNSET, Settings
from .tool import MCPTool, Offer, Server, offered_name


class Offers:
    """The tools of one server, by agent."""

    def __init__(self, server: Server, settings: Settings) -> None:
        self.approvals = Approvals(server.name, settings.require_approval)
        self._server, self._settings = server, settings
        self._made: weakref.WeakKeyDictionary[Any, dict[str, tuple[Offer, MCPTool]]] = weakref.WeakKeyDictionary()

    def tool(self, remote: RemoteTool, agent: Any) -> MCPTool:
        """A remote tool as this agent has it."""
        offer, known = self._offer(remote, agent), self._known(agent)
        had = known.get(remote.name)
        if had is None or replace(had[0], needs_approval=offer.needs_approval) != offer:
            had = known[remote.name] = (offer, MCPTool(self._server, remote, offer))
        had[1].adopt(remote)
        had[1].needs_approval = offer.needs_approval
        return had[1]

    def _known(self, agent: Any) -> dict[str, tuple[Offer, MCPTool]]:
        try:
            return self._made.setdefault(agent, {})
        except TypeError:  # None, or a stand-in that cannot be remembered
            return {}

    def _offer(self, remote: RemoteTool, agent: Any) -> Offer:
        config: dict[str, Any] = getattr(agent, "mcp_config", None) or {}
        settings, failure = self._settings, self._settings.failure_error_function
        prefixed = bool(config.get("include_server_in_tool_names"))
        return Offer(
            offered_name(self._server.name, remote.name, prefixed=prefixed),
            self._needs(remote, agent),
            strict=bool(config.get("convert_schemas_to_strict")),
            trusted=settings.trust_annotations,
            structured=settings.use_structured_content,
            failure=config.get("failure_error_function", True) if failure is UNSET else failure,
            meta=settings.tool_meta_resolver,
            guardrails=(settings.tool_input_guardrails, settings.tool_output_guardrails),
        )

    def _needs(self, remote: RemoteTool, agent: Any) -> Any:
        policy = self.approvals.policy
        if policy is None:
            return self.approvals.of(remote.name)
        # Tools are kept for as long as their agent is: they must not keep it themselves.
        whose = weakref.ref(agent) if agent is not None else None

        async def needs(context: Any, _params: Any, _call_id: str) -> Any:
            answer: Any = policy(context, whose() if whose is not None else None, remote.raw)
            return await answer if inspect.isawaitable(answer) else answer

        return needs
