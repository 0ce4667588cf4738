"""The public names of the room, for type checkers; the list is `_HOMES` in `__init__.py`."""

from .base import MCPServerError as MCPServerError
from .base import RemoteTool as RemoteTool
from .filters import ToolFilterContext as ToolFilterContext
from .filters import ToolFilterStatic as ToolFilterStatic
from .filters import create_static_tool_filter as create_static_tool_filter
from .options import ServerOptions as ServerOptions
from .own_server import MCPServer as MCPServer
from .servers import MCPServerManager as MCPServerManager
from .sse import MCPServerSse as MCPServerSse
from .sse import MCPServerSseParams as MCPServerSseParams
from .stdio import MCPServerStdio as MCPServerStdio
from .stdio import MCPServerStdioParams as MCPServerStdioParams
from .streamable_http import MCPServerStreamableHttp as MCPServerStreamableHttp
from .streamable_http import MCPServerStreamableHttpParams as MCPServerStreamableHttpParams
from .tool import MCPTool as MCPTool
from .tool import MCPToolMetaContext as MCPToolMetaContext
from .util import MCPUtil as MCPUtil

__all__: list[str]
