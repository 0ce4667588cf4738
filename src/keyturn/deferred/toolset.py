"""Sets of tools that an agent is given whole: of functions, of an MCP server, or of tools that run elsewhere.

A wrapper changes what its tools ask, and nothing else: the gate judges it, as for every tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..agents.agent_base import ToolSource
from ..core.errors import UserError
from ..core.settable import Sealed
from ..tools.base import Tool as AnyTool
from ..tools.base import ToolLike
from ..tools.function_tool import FunctionTool
from ..tools.gates import Asks, gated
from .declaring import DeclaresTools
from .requests import CallDeferred
from .tool import Tool, as_tool

ToolsetLike = Any


class FunctionToolset(DeclaresTools, Sealed):
    """Collects functions as tools; `approval_required()` makes all of them ask.

    >>> tools = FunctionToolset()
    >>> @tools.tool_plain
    ... def pay(amount: int) -> str:
    ...     return f"paid {amount}"
    >>> [tool.needs_approval for tool in tools.approval_required().static()]
    [True]
    """

    def __init__(self, tools: Sequence[ToolLike | Callable[..., Any]] = ()) -> None:
        self._tools = [as_tool(each, "tools of a FunctionToolset") for each in tools]

    def add_function(self, function: Callable[..., Any], **options: Any) -> None:
        """Add a function, with options of `Tool`."""
        self._tools.append(Tool(function, **options))

    def add_tool(self, tool: ToolLike) -> None:
        """Add a tool of any kind."""
        self._tools.append(as_tool(tool, "tools of a FunctionToolset"))

    def static(self) -> list[ToolLike]:
        """Return the tools."""
        return list(self._tools)

    def approval_required(self, asks: Asks | None = None) -> ApprovalRequiredToolset:
        """Return the set with tools that ask: all calls, or those for which `asks(ctx, tool, args)` is true."""
        return ApprovalRequiredToolset(self, asks)


@dataclass(slots=True)
class ToolDefinition:
    """Describes a tool that is carried out elsewhere, by name and JSON schema.

    >>> ToolDefinition("ship", {"type": "object", "properties": {}}).name
    'ship'
    """

    name: str
    parameters_json_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    description: str | None = None


class ExternalToolset(FunctionToolset):
    """Declares tools that are carried out elsewhere: each call waits in `calls` for its result.

    >>> [tool.name for tool in ExternalToolset([ToolDefinition("ship")]).static()]
    ['ship']
    """

    def __init__(self, tool_defs: Sequence[ToolDefinition]) -> None:
        super().__init__([_external(each) for each in tool_defs])


def _external(given: object) -> FunctionTool:
    if not isinstance(given, ToolDefinition):
        raise UserError(f"an ExternalToolset holds ToolDefinitions, not a {type(given).__name__}")

    async def deferred(_context: object, _arguments: str) -> Any:
        raise CallDeferred

    schema = given.parameters_json_schema
    return FunctionTool(given.name, given.description or "", schema, deferred, strict_json_schema=False)


class ApprovalRequiredToolset(Sealed):
    """Wraps a toolset or an MCP server, so that its tools ask: all calls, or those that `asks(ctx, tool, args)` names.

    What a tool asks by itself it asks still.

    >>> def delete(path: str) -> str:
    ...     return path
    >>> [tool.needs_approval for tool in ApprovalRequiredToolset(FunctionToolset([delete])).static()]
    [True]
    """

    def __init__(self, wrapped: Any, asks: Asks | None = None) -> None:
        if not isinstance(wrapped, FunctionToolset | ApprovalRequiredToolset | ToolSource):
            raise UserError(f"ApprovalRequiredToolset wraps a toolset or an MCP server, not {type(wrapped).__name__}")
        if asks is not None and not callable(asks):
            raise UserError(f"approval_required takes a function (ctx, tool, args), not {type(asks).__name__}")
        self._wrapped: Any = wrapped
        self._asks = asks

    def static(self) -> list[ToolLike] | None:
        """Return the tools, None where a server has to be asked for them."""
        known = self._wrapped.static() if isinstance(self._wrapped, FunctionToolset | ApprovalRequiredToolset) else None
        return None if known is None else [asking(tool, self._asks) for tool in known]

    async def tools_for(self, context: object, agent: object) -> list[Any]:
        """Return the tools of the wrapped server, which ask now."""
        return [asking(tool, self._asks) for tool in await self._wrapped.tools_for(context, agent)]

    @property
    def recorded_tool(self) -> Any:
        """Return what makes a tool of the wrapped server as a log recorded it, which asks as well."""
        recorded: Callable[[Any, Any], AnyTool | None] = self._wrapped.recorded_tool

        def asking_too(spec: object, agent: object) -> Any:
            made = recorded(spec, agent)
            return None if made is None else asking(made, self._asks)

        return asking_too

    def hold(self) -> Any:
        """Hold the wrapped server for as long as an app is at work."""
        return self._wrapped.hold()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._wrapped, name)

    def approval_required(self, asks: Asks | None = None) -> ApprovalRequiredToolset:
        """Return the set with tools that ask for more."""
        return ApprovalRequiredToolset(self, asks)


def asking(tool: object, asks: Asks | None) -> Any:
    """Return a copy of a tool that asks; one that the provider runs is refused, since no gate sees its calls."""
    if not isinstance(tool, AnyTool):
        raise UserError(f"{getattr(tool, 'name', tool)!r} runs at the provider, and cannot be made to ask here")
    return gated(tool, asks)


def parts_of(toolsets: Sequence[ToolsetLike]) -> tuple[list[ToolLike], list[ToolSource]]:
    """Divide toolsets into tools that are known and sources that are asked for theirs in each run."""
    tools: list[ToolLike] = []
    sources: list[ToolSource] = []
    for each in toolsets:
        known = each.static() if isinstance(each, FunctionToolset | ApprovalRequiredToolset) else None
        if known is not None:
            tools += known
        elif isinstance(each, ToolSource):
            sources.append(cast("ToolSource", each))
        else:
            raise UserError(f"toolsets holds a {type(each).__name__}, which is neither a toolset nor an MCP server")
    return tools, sources
