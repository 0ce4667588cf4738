"""Read a server's tool listing page by page, and keep the `MCPTool` objects made from it for each agent.

A listing that does not end, is too long, or names a tool twice is no listing: which tool would run nobody could say.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Protocol

from ..support.user_code import answer_of
from .approval import Approvals
from .base import MCPServerError, RemoteTool
from .bounds import LIST_BYTES, LIST_PAGES, LIST_TOOLS, size_of
from .tool import MCPTool, Offer, Server, offered_name

_ABOUT = {"title": "title", "annotations": "annotations", "output_schema": "outputSchema"}


class Pages(Protocol):
    """What reading a listing needs of a connection."""

    async def page(self, cursor: str | None) -> Any:
        """Request one page of the tool listing."""
        ...


async def listed(server: str, line: Pages, pages: int | None, origin: str = "") -> dict[str, RemoteTool]:
    """Read all tools that the server lists, by name.

    `origin` tells apart servers that nobody gave a name.
    """
    tools: dict[str, RemoteTool] = {}
    cursor = None
    size = 0
    seen = set[str]()
    for _ in range(min(pages or LIST_PAGES, LIST_PAGES)):
        answer = await line.page(cursor)
        for raw in answer.tools:
            tool = _tool(server, raw, origin, line)
            if tool.name in tools:
                raise MCPServerError(server, f"it lists two tools named {tool.name!r}")
            tools[tool.name] = tool
            size += _size(tool)
            if len(tools) > LIST_TOOLS or size > LIST_BYTES:
                raise MCPServerError(server, f"its listing is longer than {LIST_TOOLS} tools or {LIST_BYTES} bytes")
        cursor = answer.next_cursor
        if cursor is None:
            return tools
        if cursor in seen:
            raise MCPServerError(server, "its listing repeats a page without end")
        seen.add(cursor)
    raise MCPServerError(server, f"its listing did not end after {len(seen)} pages")


async def all_prompts(server: str, line: Any, pages: int | None) -> Any:
    """Read all prompts that the server lists: the first page's object, with the prompts of all."""
    first, cursor = None, None
    size = 0
    for _ in range(min(pages or LIST_PAGES, LIST_PAGES)):
        answer = await line.read("list_prompts", cursor=cursor)
        size += len(answer.model_dump_json())
        first = answer if first is None else first.model_copy(update={"prompts": [*first.prompts, *answer.prompts]})
        if len(first.prompts) > LIST_TOOLS or size > LIST_BYTES:
            raise MCPServerError(server, f"its listing is longer than {LIST_TOOLS} prompts or {LIST_BYTES} bytes")
        cursor = answer.next_cursor
        if cursor is None:
            return first.model_copy(update={"next_cursor": None})
    raise MCPServerError(server, f"its listing of prompts did not end after {pages or LIST_PAGES} pages")


def _tool(server: str, raw: Any, origin: str, line: Pages) -> RemoteTool:
    try:
        fields: dict[str, Any] = raw.model_dump(by_alias=True, mode="json", exclude_none=True)
    except ValueError:  # pydantic writes no value that is nested too deep
        raise MCPServerError(server, "its description of a tool is nothing that can be recorded") from None
    about = {name: fields[wire] for name, wire in _ABOUT.items() if wire in fields}
    if origin:
        about["origin"] = origin
    return RemoteTool(server, raw.name, fields.get("description", ""), fields["inputSchema"], about, raw, line)


def _size(tool: RemoteTool) -> int:
    try:
        return size_of(tool.spec)
    except ValueError as problem:  # what cannot be written down cannot be approved
        raise MCPServerError(tool.server, f"its description of a tool is {problem}") from None


def _approvals(server: Server) -> tuple[Any, Approvals]:
    given = server.settings.require_approval
    return deepcopy(given), Approvals(server.name, given)


class Offers:
    """Caches the `MCPTool` objects of one server for each agent.

    An agent gets the same object as long as nothing but the server's words changed.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._read: tuple[Any, Approvals] = _approvals(server)
        self._made: weakref.WeakKeyDictionary[Any, dict[str, tuple[Offer, MCPTool]]] = weakref.WeakKeyDictionary()

    @property
    def approvals(self) -> Approvals:
        """Return which tools ask, by what the server's `require_approval` is now."""
        if self._read[0] != self._server.settings.require_approval:  # which may be a dict that was changed in place
            self._read = _approvals(self._server)
        return self._read[1]

    def tool(self, remote: RemoteTool, agent: object) -> MCPTool:
        """Return a remote tool as this agent has it: its name, approval and settings."""
        offer, known = self._offer(remote, agent), self._known(agent)
        had = known.get(remote.name)
        if had is None or had[0] != offer:
            made = self._made_of(remote, offer, agent)
            if had is not None:
                made.take_over(had[1])
            had = known[remote.name] = (offer, made)
        had[1].adopt(remote)
        return had[1]

    def recorded(self, spec: Mapping[str, Any], agent: object) -> MCPTool | None:
        """Make a tool of what a log recorded of it; None where that is not this server's, or is another tool by now.

        It is apart from the tools that agents have: what was recorded may not be what the server lists.
        """
        if spec.get("kind") != MCPTool.kind or spec.get("server") != self._server.name:
            return None
        about = {name: value for name, value in spec.items() if name in ("origin", *_ABOUT)}
        remote = RemoteTool(self._server.name, spec["tool"], spec["description"], spec["schema"], about)
        made = self._made_of(remote, self._offer(remote, agent), agent)
        return made if made.spec() == spec else None

    def _known(self, agent: object) -> dict[str, tuple[Offer, MCPTool]]:
        try:
            return self._made.setdefault(agent, {})
        except TypeError:  # None, or a stand-in that cannot be remembered
            return {}

    def _offer(self, remote: RemoteTool, agent: object) -> Offer:
        config: dict[str, Any] = getattr(agent, "mcp_config", None) or {}
        prefixed = bool(config.get("include_server_in_tool_names"))
        return Offer(
            offered_name(self._server.name, remote.name, prefixed=prefixed),
            strict=bool(config.get("convert_schemas_to_strict")),
            failure=config.get("failure_error_function", True),
        )

    def _made_of(self, remote: RemoteTool, offer: Offer, agent: object) -> MCPTool:
        # Tools are kept for as long as their agent is: they must not keep it themselves.
        whose = weakref.ref(agent) if agent is not None else None
        return MCPTool(self._server, remote, offer, partial(self._needs, whose))

    def _needs(self, whose: weakref.ref[Any] | None, remote: RemoteTool) -> Any:
        """Return whether a tool asks, by what the server's `require_approval` is now."""
        policy = self.approvals.policy
        if policy is None:
            return self.approvals.of(remote.name)

        async def needs(context: object, _params: object, _call_id: str) -> Any:
            return await answer_of(policy, context, whose() if whose is not None else None, remote.raw)

        return needs
