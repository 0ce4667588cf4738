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

from .holding import GatedCall, Holding, NotForwarded, Progress
from .pins import ACCEPT, ACCEPT_WORDS, BY_A_PERSON, Pins, ToolChange


class McpGate:
    """Stands before one MCP server; `ungated` are patterns of tools whose calls pass without being asked about.

    `name` is what policies and people know the server by; without it, what it calls itself.
    """

    def __init__(self, up: Client, holding: Holding, pins: Pins, ungated: Sequence[str] = (), name: str = "") -> None:
        self._up = up
        self._holding = holding
        self._pins = pins
        self._ungated = tuple(ungated)
        self._name = name
        self._tools = dict[str, types.Tool]()

    @property
    def _info(self) -> types.Implementation:
        """Return what the server behind calls itself."""
        return self._up.server_info or types.Implementation(name="unnamed", version="")

    async def begin(self) -> list[ToolChange]:
        """Begin, and return what the server changed of its tools since the gate was last started."""
        self._holding.begin()
        await self._look()
        return self._pins.begin(list(self._tools.values()))

    async def serve(self) -> None:
        """Serve on stdin and stdout until the client hangs up."""
        server = self.server()
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, options)
        finally:
            await self._holding.close()

    @property
    def _server_name(self) -> str:
        return self._name or self._info.name

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
        passes = any(fnmatch.fnmatchcase(params.name, pattern) for pattern in self._ungated)
        try:
            client, progress = _client_of(context), _progress_of(context, params)
            if not passes or params.name not in self._tools:
                await self._look()
            await self._accepted(client, params.name, progress)
            if passes:
                return await self._forwarded(params.name, arguments)
            now = partial(self._gated, client, params.name, arguments)
            approved = await self._holding.approved(await now(), progress, now)
        except NotForwarded as refused:
            return _error(str(refused))
        except Exception as error:  # whatever fails, the call is not forwarded
            return _error(f"Not run: no approval could be asked for ({type(error).__name__}).")
        async with self._holding.running(approved):
            made = await self._forwarded(params.name, approved.arguments)
        await self._holding.report(approved, failed=bool(made.is_error))
        return made

    async def _accepted(self, client: str, name: str, progress: Progress) -> None:
        """Return once the definition of a tool is an accepted one: one that was changed requires a person."""
        change = self._pins.change(name, self._tools.get(name))
        if change is None:
            return

        async def now() -> GatedCall:
            await self._look()
            again = self._pins.change(name, self._tools.get(name))
            return asked if again is None else self._accepting(client, again)

        asked = self._accepting(client, change)
        try:
            approved = await self._holding.approved(asked, progress, now)
        except NotForwarded:
            if self._pins.change(name, self._tools.get(name)) is not None:  # another call had it accepted
                raise
            return
        async with self._holding.running(approved):
            self._pins.accept(change)
        await self._holding.report(approved, failed=False)

    def _accepting(self, client: str, change: ToolChange) -> GatedCall:
        server = self._server_name
        return GatedCall(client, server, ACCEPT, change.arguments, ACCEPT_WORDS, None, BY_A_PERSON, editable=False)

    async def _gated(self, client: str, name: str, arguments: dict[str, Any]) -> GatedCall:
        """Return a call with its tool as the server describes it now: the description is part of what is approved."""
        await self._look()
        tool = self._tools.get(name)
        said = ("", None) if tool is None else (tool.description or "", tool.input_schema)
        return GatedCall(client, self._server_name, name, arguments, *said)

    async def _look(self) -> None:
        """Look at the tools as the server describes them now."""
        tools, cursor = dict[str, types.Tool](), None
        for _ in range(100):
            page = await self._up.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            tools |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if not cursor:
                break
        self._tools = tools

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
