"""Which tool a model is to call: `ModelSettings.tool_choice`, and the choice of one tool of an MCP server."""

from __future__ import annotations

from typing import Any


class MCPToolChoice(dict[str, Any]):
    """Have the model call this tool of this hosted MCP server: `ModelSettings(tool_choice=MCPToolChoice(...))`.

    It is the choice as the Responses API has it; other APIs know no such thing and refuse it.

    >>> MCPToolChoice(server_label="wiki", name="search")
    {'type': 'mcp', 'server_label': 'wiki', 'name': 'search'}
    """

    def __init__(self, server_label: str, name: str) -> None:
        super().__init__(type="mcp", server_label=server_label, name=name)

    @property
    def server_label(self) -> str:
        """The server."""
        return self["server_label"]

    @property
    def name(self) -> str:
        """The tool."""
        return self["name"]


ToolChoice = str | MCPToolChoice | dict[str, Any] | None
