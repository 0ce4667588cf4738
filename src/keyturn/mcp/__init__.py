"""MCP servers, other people's programs that bring tools: `base.py` is the seam, one file is one member.

This module only names what is public; each name is imported when first used, since the protocol's package is large.
"""

from __future__ import annotations

from ..support.lazy import lazy_names

_HOMES = {
    "MCPServer": "own_server",
    "MCPServerError": "base",
    "MCPServerManager": "servers",
    "MCPServerSse": "sse",
    "MCPServerSseParams": "sse",
    "MCPServerStdio": "stdio",
    "MCPServerStdioParams": "stdio",
    "MCPServerStreamableHttp": "streamable_http",
    "MCPServerStreamableHttpParams": "streamable_http",
    "MCPTool": "tool",
    "MCPToolMetaContext": "tool",
    "MCPUtil": "util",
    "RemoteTool": "base",
    "ServerOptions": "options",
    "ToolFilterContext": "filters",
    "ToolFilterStatic": "filters",
    "create_static_tool_filter": "filters",
}

__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]  # the table is the list

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
