"""The base of every kind of agent: a name, tools, and servers that bring more tools.

The tools an agent offers now are worked out here, since what is enabled may depend on the run. Nothing here
runs a tool, talks to a model or knows what an agent says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, signature
from typing import Any, Generic, NotRequired, Protocol, TypedDict, runtime_checkable

from ..core.errors import UserError
from ..core.settable import Settable
from ..tools.base import ToolLike
from ..user_code import answer_of
from .context import RunContextWrapper, TContext


class MCPConfig(TypedDict):
    """Says how an agent uses the tools of its MCP servers.

    >>> MCPConfig(convert_schemas_to_strict=True)
    {'convert_schemas_to_strict': True}
    """

    convert_schemas_to_strict: NotRequired[bool]
    failure_error_function: NotRequired[Callable[[Any, Exception], Any] | None]
    include_server_in_tool_names: NotRequired[bool]


@runtime_checkable
class ToolSource(Protocol):
    """Brings tools of its own to an agent, as an MCP server does.

    >>> class Nothing:
    ...     async def tools_for(self, context, agent): return []
    >>> isinstance(Nothing(), ToolSource)
    True
    """

    async def tools_for(self, context: RunContextWrapper[Any], agent: object) -> list[Any]:
        """Return the tools for this agent in this run; `agent.mcp_config` says how they are wanted."""
        ...


class AgentBase(Settable, Generic[TContext]):
    """Holds what `Agent` and `RealtimeAgent` have in common.

    >>> import inspect
    >>> inspect.iscoroutinefunction(AgentBase.get_all_tools)
    True
    """

    name: str
    handoff_description: str | None
    tools: Sequence[ToolLike]
    mcp_servers: Sequence[ToolSource]
    mcp_config: MCPConfig

    def own_policy(self) -> Any:
        """Return the policy that the agent brings along, asked of its calls and of those of agents below it."""
        return None

    def own_context(self, saved: object = None) -> Any:
        """Return the context of a run that is given none: a new one, or, of what was saved of it, the one it had."""
        return None

    def own_compaction(self) -> Any:
        """Return what shortens a conversation of the agent that grows too long: an object as `deep.Compaction` is."""
        return None

    def static_tools(self) -> list[Any] | None:
        """Return the enabled tools where that needs no question, None where a callable or a server must be asked."""
        if self.mcp_servers:
            return None
        offered: list[Any] = []
        for tool in self.tools:
            enabled: Any = getattr(tool, "is_enabled", True)
            if callable(enabled):
                return None
            if enabled:
                offered.append(tool)
        return offered

    async def get_all_tools(self, run_context: RunContextWrapper[TContext]) -> list[Any]:
        """Return the tools that are enabled now, those of the MCP servers included."""
        tools = self.static_tools()
        if tools is None:
            tools = [tool for tool in self.tools if await is_enabled(tool, run_context, self)]
            remote = await self.get_mcp_tools(run_context)
            names = {tool.name for tool in remote}
            check_names([*(tool for tool in tools if getattr(tool, "name", None) in names), *remote])
            tools += remote
        return tools

    async def get_mcp_tools(self, run_context: RunContextWrapper[TContext]) -> list[Any]:
        """Return the tools of the MCP servers that are enabled now."""
        tools: list[Any] = []
        keep = getattr(run_context, "keep_server", None)
        for server in self.mcp_servers:
            if not isinstance(server, ToolSource):
                raise UserError(
                    f"mcp_servers of agent {self.name!r}: {type(server).__name__} brings no tools; it needs "
                    "an async method tools_for(context, agent)"
                )
            if keep is not None and hasattr(server, "hold"):
                await keep(server)
            tools += [
                tool for tool in await server.tools_for(run_context, self) if await is_enabled(tool, run_context, self)
            ]
        check_names(tools)
        return tools


async def is_enabled(tool: object, context: RunContextWrapper[Any], agent: AgentBase[Any]) -> bool:
    """Return whether a tool or handoff of an agent is offered in this run."""
    enabled: Any = getattr(tool, "is_enabled", True)
    if isinstance(enabled, bool):
        return enabled
    return bool(await answer_of(enabled, context, agent))


def check_names(tools: Iterable[Any]) -> None:
    """Refuse two tools of one name: a person could be shown one and the other would run."""
    known: dict[str, Any] = {}
    for tool in tools:
        name: str = tool.name
        other = known.setdefault(name, tool)
        if other is not tool:
            raise UserError(
                f"two tools of one agent are named {name!r}: {_what(other)} and {_what(tool)}; "
                f"give one of them another name ({_remedy(other, tool)})"
            )


def _what(tool: object) -> str:
    what = f"a {getattr(tool, 'kind', type(tool).__name__)} tool"
    server = getattr(tool, "server_name", None)
    what = f"{what} of server {server!r}" if server else what
    described = getattr(tool, "description", "") or ""
    return f"{what} ({described[:60]!r})" if described else what


def _remedy(*tools: Any) -> str:
    if any(getattr(tool, "server_name", None) for tool in tools):
        return "mcp_config={'include_server_in_tool_names': True}, and a name= of its own for each server"
    return "name_override=, tool_name=, tool_name_override="


def snake_name(text: str) -> str:
    """Convert a text, such as an agent's name, to a tool name that every provider accepts.

    >>> snake_name("Refund Agent")
    'refund_agent'
    """
    return re.sub(r"[^a-zA-Z0-9_]", "_", text).lower()


def takes(function: Callable[..., Any], count: int) -> bool:
    """Return whether a callable can be called with exactly that many positional arguments."""
    try:
        signature(function).bind(*[Parameter.empty] * count)
    except TypeError:
        return False
    except ValueError:
        # Some built-in callables have no signature to look at: the call will tell.
        return True
    return True
