"""The proxy: an MCP server that passes on what another one has, and holds calls of its tools until they are approved.

Lists, resources and prompts pass unchanged. A denial is an error result, which clients accept whatever the tool's
output schema says. The gate declares no elicitation to the server before which it stands: a question within a call that
a person approved would be one that nobody approved.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import partial
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

from ..client.asks import AsyncAsks
from .holding import GatedCall, Holding, NotForwarded


class McpGate:
    """Stands before one MCP server; `ungated` are patterns of tools whose calls pass without being asked about."""

    def __init__(self, up: Client, asks: AsyncAsks, *, hold: float, ungated: Sequence[str] = ()) -> None:
        self._up = up
        self._holding = Holding(asks, hold)
        self._ungated = tuple(ungated)
        self._tools = dict[str, types.Tool]()

    @property
    def _info(self) -> types.Implementation:
        """Return what the server behind calls itself."""
        return self._up.server_info or types.Implementation(name="unnamed", version="")

    async def serve(self) -> None:
        """Serve on stdin and stdout until the client hangs up."""
        server = self.server()
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, options)
        finally:
            await self._holding.close()

    def server(self) -> Server[Any]:
        """Return the server that a client sees: named as the one behind it, with what that one has."""
        info = self._info
        has = self._up.server_capabilities
        more: dict[str, Any] = {}
        if has.resources is not None:
            more |= {"on_list_resources": self._resources, "on_list_resource_templates": self._templates}
            more |= {"on_read_resource": self._read}
        if has.prompts is not None:
            more |= {"on_list_prompts": self._prompts, "on_get_prompt": self._prompt}
        return Server(
            info.name,
            version=info.version,
            instructions=self._up.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call,
            **more,
        )

    async def _list_tools(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        made = await self._up.session.list_tools(params=params)
        self._tools |= {tool.name: tool for tool in made.tools}
        return made

    async def _resources(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return await self._up.session.list_resources(params=params)

    async def _templates(
        self, _context: Any, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await self._up.session.list_resource_templates(params=params)

    async def _read(self, _context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await self._up.read_resource(params.uri)

    async def _prompts(self, _context: Any, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
        return await self._up.session.list_prompts(params=params)

    async def _prompt(self, _context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await self._up.get_prompt(params.name, params.arguments)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        if any(fnmatch.fnmatchcase(params.name, pattern) for pattern in self._ungated):
            return await self._forwarded(params.name, arguments)
        try:
            progress, now = (
                _progress_of(context, params),
                partial(self._gated, _client_of(context), params.name, arguments),
            )
            approved = await self._holding.approved(await now(), progress, now)
        except NotForwarded as refused:
            return _error(str(refused))
        except Exception as error:  # whatever fails, the call is not forwarded
            return _error(f"Not run: no approval could be asked for ({type(error).__name__}).")
        async with self._holding.running(approved):
            made = await self._forwarded(params.name, approved.arguments)
        await self._holding.report(approved, failed=bool(made.is_error))
        return made

    async def _gated(self, client: str, name: str, arguments: dict[str, Any]) -> GatedCall:
        """Return a call with its tool as the server describes it now."""
        tool = await self._described(name)
        said = ("", None) if tool is None else (tool.description or "", tool.input_schema)
        return GatedCall(client, self._info.name, name, arguments, *said)

    async def _described(self, name: str) -> types.Tool | None:
        """Return a tool as its server describes it now: the description is part of what is approved."""
        cursor: str | None = None
        for _ in range(100):
            page = await self._up.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            self._tools |= {tool.name: tool for tool in page.tools}
            if any(tool.name == name for tool in page.tools) or not page.next_cursor:
                break
            cursor = page.next_cursor
        return self._tools.get(name)

    async def _forwarded(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        made = await self._up.session.call_tool(name, arguments)
        assert isinstance(made, types.CallToolResult)
        return made


def _error(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)], is_error=True)


def _client_of(context: Any) -> str:
    """Return what a client calls itself; it is shown and told apart by it, and trusted with nothing."""
    params = getattr(context.session, "client_params", None)
    info = getattr(params, "client_info", None)
    return f"{info.name} {info.version}" if info is not None else "unknown"


def _progress_of(context: Any, params: types.CallToolRequestParams) -> Any:
    """Return what tells the client that its call is held, where it wants to know."""
    wanted = getattr(params.meta, "progress_token", None) if params.meta is not None else None
    if isinstance(params.meta, dict):
        wanted = params.meta.get("progress_token") or params.meta.get("progressToken")

    async def progress(number: int) -> None:
        if wanted is not None:
            await context.session.report_progress(number, None, "waiting for approval")

    return progress
