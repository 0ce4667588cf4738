"""A path of the OpenAI Agents SDK, and `MCPUtil`: the tools of several servers as an agent would have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import BadJson, UserError
from ..core.strict import parse
from ..tools.base import Tool
from .filters import ToolFilterContext as ToolFilterContext
from .filters import ToolFilterStatic as ToolFilterStatic
from .filters import create_static_tool_filter as create_static_tool_filter
from .own_server import MCPServer
from .results import value_of
from .tool import MCPToolMetaContext as MCPToolMetaContext

_UNSAID: Any = object()


class MCPUtil:
    """For code of your own that wants an agent's MCP tools; agents get theirs from `mcp_servers` by themselves.

    >>> import asyncio
    >>> asyncio.run(MCPUtil.get_all_function_tools([], agent=None))
    []
    """

    @classmethod
    async def get_all_function_tools(
        cls,
        servers: Sequence[MCPServer],
        convert_schemas_to_strict: bool = _UNSAID,
        run_context: object = None,
        agent: object = None,
        failure_error_function: object = _UNSAID,
        include_server_in_tool_names: bool = _UNSAID,
    ) -> list[Tool]:
        """The tools of these servers, gated as each server says; two with one name are an error.

        What is not given is as the agent's `mcp_config` has it.
        """
        tools: list[Tool] = []
        names: dict[str, str] = {}
        config = {
            "convert_schemas_to_strict": convert_schemas_to_strict,
            "failure_error_function": failure_error_function,
            "include_server_in_tool_names": include_server_in_tool_names,
        }
        reader = _reader(agent, {name: value for name, value in config.items() if value is not _UNSAID})
        for server in servers:
            for tool in await server.tools_for(run_context, reader):
                if tool.name in names:
                    raise UserError(
                        f"MCP servers {names[tool.name]!r} and {server.name!r} both have a tool {tool.name!r}: pass "
                        "include_server_in_tool_names=True"
                    )
                names[tool.name] = server.name
                tool.offered_to = reader  # a tool does not keep its agent; ours is nobody else's
                tools.append(tool)
        return tools

    @classmethod
    async def get_function_tools(
        cls,
        server: MCPServer,
        convert_schemas_to_strict: bool = _UNSAID,
        run_context: object = None,
        agent: object = None,
        failure_error_function: object = _UNSAID,
    ) -> list[Tool]:
        """The tools of one server, in the same way."""
        return await cls.get_all_function_tools(
            [server], convert_schemas_to_strict, run_context, agent, failure_error_function
        )

    @classmethod
    async def invoke_mcp_tool(
        cls, server: MCPServer, tool: Any, context: object, input_json: str, *, meta: dict[str, Any] | None = None
    ) -> Any:
        """Call a tool at once, past any approval: for your own code, never for a model's.

        What it says is returned.
        """
        try:
            arguments = parse(input_json or "{}")
        except BadJson as error:
            raise UserError(f"the arguments of {tool.name} are {error}") from None
        if not isinstance(arguments, dict):
            raise UserError(f"the arguments of {tool.name} must be a JSON object")
        return value_of(await server.call_tool(tool.name, arguments, meta), structured=False)


class _Reader:
    """An agent with another `mcp_config`, as far as a server can see."""

    def __init__(self, agent: Any, config: dict[str, Any]) -> None:
        self.agent = agent
        own: dict[str, Any] = getattr(agent, "mcp_config", None) or {}
        self.mcp_config = {**own, **config}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.agent, name)


def _reader(agent: object, config: dict[str, Any]) -> Any:
    return _Reader(agent, config) if config else agent
