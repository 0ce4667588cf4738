"""The class of every MCP server, and what a subclass of your own needs of it: connect, clean up, list, call.

Whatever lists and calls, its tools pass the gate: approval, arguments, guardrails and the check that a tool is still
the one that was approved are the same as over a transport of ours. Nothing here knows the protocol.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from .approval import RequireApproval
from .base import MCPServerError, RemoteCall, RemoteTool, ToolReply
from .listing import Offers, Pages, listed
from .options import UNSET, OptionedServer, Settings


class MCPServer(OptionedServer):
    """Connects to an MCP server and gives agents its tools; a subclass of yours has a name and four methods.

    They are `connect`, `cleanup`, `list_tools` and `call_tool`, which return the protocol's own objects. The options
    are those of every server, and are attributes. A call that raises is a failed call; raise `MCPServerError` with
    `may_have_acted=True` where its outcome is unknown.

    >>> sorted(MCPServer.__abstractmethods__)
    ['call_tool', 'cleanup', 'connect', 'list_tools']
    """

    def __init__(
        self,
        use_structured_content: bool = False,
        require_approval: RequireApproval = None,
        failure_error_function: Callable[[Any, Exception], Any] | None = UNSET,
        tool_meta_resolver: Callable[[Any], Any] | None = None,
        *,
        tool_input_guardrails: list[Any] | None = None,
        tool_output_guardrails: list[Any] | None = None,
    ) -> None:
        self.settings = Settings(
            use_structured_content=use_structured_content,
            require_approval=require_approval,
            failure_error_function=failure_error_function,
            tool_meta_resolver=tool_meta_resolver,
            tool_input_guardrails=tool_input_guardrails,
            tool_output_guardrails=tool_output_guardrails,
        )
        self._offers = Offers(self)

    def invalidate_tools_cache(self) -> None:
        """Do nothing: tools are listed anew each time, unless your class keeps them."""

    async def tools_for(self, context: object, agent: object) -> list[Any]:
        """Return the tools as an agent has them: gated, checked, and named so that no two can be confused."""
        remotes = await self._listed(context, agent)
        self._offers.approvals.check_names(remotes)
        return [self._offers.tool(remote, agent) for remote in remotes.values()]

    def recorded_tool(self, spec: Mapping[str, Any], agent: object) -> Any:
        """Return a tool as a log recorded it, for people who look and decide while the server is down; else None."""
        return self._offers.recorded(spec, agent)

    async def listing(self, *, fresh: bool = False, on: Any = None) -> dict[str, RemoteTool]:  # nothing is kept here
        """Return all tools by name."""
        return await self._listed(None, None)

    async def begin(self, call: RemoteCall, *, repeatable: bool) -> ToolReply:  # it is not sent again
        """Call a tool for a model and return its result."""
        await call.look(None)
        takes_meta = "meta" in inspect.signature(self.call_tool).parameters
        given = {"meta": call.meta} if takes_meta else {}
        return ToolReply(await self.call_tool(call.tool, call.arguments, **given))

    async def go_on(self, call: RemoteCall, resumed: object) -> ToolReply:  # nothing was asked
        """Refuse: a server of this class asks nothing within a call."""
        raise MCPServerError(self.name, "the call has no question that could be answered")

    async def _listed(self, context: object, agent: object) -> dict[str, RemoteTool]:
        async def page(_cursor: str | None) -> Any:
            return SimpleNamespace(tools=await self.list_tools(context, agent), next_cursor=None)

        found = await listed(self.name, cast("Pages", SimpleNamespace(page=page)), None)
        return {name: replace(tool, line=None) for name, tool in found.items()}  # there is one connection: the object
