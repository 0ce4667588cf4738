"""Re-export MCP servers under a path of the OpenAI Agents SDK; nothing is defined here."""

from __future__ import annotations

from ..support.missing import speaks
from .own_server import MCPServer as MCPServer
from .protocol_server import ProtocolServer as ProtocolServer
from .sse import MCPServerSse as MCPServerSse
from .sse import MCPServerSseParams as MCPServerSseParams
from .stdio import MCPServerStdio as MCPServerStdio
from .stdio import MCPServerStdioParams as MCPServerStdioParams
from .streamable_http import MCPServerStreamableHttp as MCPServerStreamableHttp
from .streamable_http import MCPServerStreamableHttpParams as MCPServerStreamableHttpParams

speaks(__name__)
