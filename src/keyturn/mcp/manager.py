"""Re-export several MCP servers at once under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .servers import MCPServerManager as MCPServerManager

speaks(__name__)
