"""The MCP server whose only tool decides for a coding agent without a terminal: allowed once approved, else denied.

The decision is that of the agent's hook. A client that cancels the call withdraws the request.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from ..hooks.claude_code_prompt import HOST
from ..hooks.hook import answered
from ..hooks.host import HookAnswer
from ..hooks.server import AskServer
from ..support.threads import in_thread

TOOL = "approve"
_SCHEMA = {
    "type": "object",
    "properties": {"tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"}},
    "required": ["tool_name", "input"],
}
_TOOLS = [types.Tool(name=TOOL, description="Request approval of a tool call in Keyturn.", input_schema=_SCHEMA)]


def prompt_server(connect: Callable[[], AskServer], wait: float) -> Server[Any]:
    """Return the server; each call has a connection of its own, and a decision may take so many seconds."""
    session = f"{os.getpid()} {time.time_ns()}"

    async def tools(_context: Any, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_TOOLS)

    async def call(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        sent = {"cwd": str(Path.cwd()), **(params.arguments or {}), "session_id": session}
        return _text(await _decided(json.dumps(sent), connect, wait))

    return Server("keyturn", on_list_tools=tools, on_call_tool=call)


async def _decided(text: str, connect: Callable[[], AskServer], wait: float) -> str:
    """Return the answer to a call, made in a thread; who stops waiting for it has the request withdrawn."""
    gone = threading.Event()
    try:
        made = await in_thread(partial(_answered, text, connect, wait, gone))
    except asyncio.CancelledError:
        gone.set()
        raise
    except Exception as error:  # whatever fails, the call does not run
        return json.dumps({"behavior": "deny", "message": f"not approved: {error}"})
    return made.stdout or json.dumps({"behavior": "deny", "message": made.stderr})


def _answered(text: str, connect: Callable[[], AskServer], wait: float, gone: threading.Event) -> HookAnswer:
    with closing(connect()) as server:
        return answered(HOST, text, server, wait, signals=False, gone=gone.is_set)


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def serve(connect: Callable[[], AskServer], wait: float) -> None:
    """Serve on stdin and stdout until the client hangs up."""
    server = prompt_server(connect, wait)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
