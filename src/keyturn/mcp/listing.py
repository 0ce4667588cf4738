"""A server's listing as tools that can be told apart and approved, or an error that says what is wrong with it.

A listing that does not end, is too long, or names a tool twice is no listing: which tool would run nobody could say.
"""

from __future__ import annotations

from typing import Any, Protocol

from .base import MCPServerError, RemoteTool
from .bounds import LIST_BYTES, LIST_PAGES, LIST_TOOLS, size_of

_ABOUT = {"title": "title", "annotations": "annotations", "output_schema": "outputSchema"}


class Pages(Protocol):
    """A connection, as far as a listing needs it."""

    async def page(self, cursor: str | None) -> Any: ...


async def listed(server: str, line: Pages, pages: int | None, origin: str = "") -> dict[str, RemoteTool]:
    """All tools that the server lists, by name. `origin` tells apart servers that nobody gave a name."""
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
            raise MCPServerError(server, "its listing goes round in a circle")
        seen.add(cursor)
    raise MCPServerError(server, f"its listing did not end after {len(seen)} pages")


def _tool(server: str, raw: Any, origin: str, line: Pages) -> RemoteTool:
    said: dict[str, Any] = raw.model_dump(by_alias=True, mode="json", exclude_none=True)
    about = {name: said[wire] for name, wire in _ABOUT.items() if wire in said}
    if origin:
        about["origin"] = origin
    return RemoteTool(server, raw.name, said.get("description", ""), said["inputSchema"], about, raw, line)


def _size(tool: RemoteTool) -> int:
    try:
        return size_of(tool.spec)
    except ValueError as problem:  # what cannot be written down cannot be approved
        raise MCPServerError(tool.server, f"what it says of a tool is {problem}") from None
