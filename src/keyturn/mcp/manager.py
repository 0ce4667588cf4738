"""A path of the OpenAI Agents SDK: several MCP servers at once. It defines nothing."""

from __future__ import annotations

from .._missing import speaks
from .servers import MCPServerManager as MCPServerManager

speaks(__name__)
