"""Declare functions as tools by decorators, on whatever collects tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, overload

from ..tools.base import ToolLike
from .tool import Tool

Function = TypeVar("Function", bound=Callable[..., Any])


class DeclaresTools(ABC):
    """Gives `@x.tool` and `@x.tool_plain` to whatever has `add_tool`."""

    #: Whether the first parameter of a function under `tool` is a context; None where the function says it.
    takes_context: ClassVar[bool | None] = None

    @abstractmethod
    def add_tool(self, tool: ToolLike) -> None:
        """Add a tool of any kind."""

    @overload
    def tool(self, function: Function, /) -> Function: ...
    @overload
    def tool(self, function: None = None, /, **options: Any) -> Callable[[Function], Function]: ...
    def tool(self, function: object = None, /, **options: Any) -> Any:
        """Declare a tool whose first parameter is a `RunContext[...]`; used bare, or called with options of `Tool`."""
        return self._declared(function, self.takes_context, options)

    @overload
    def tool_plain(self, function: Function, /) -> Function: ...
    @overload
    def tool_plain(self, function: None = None, /, **options: Any) -> Callable[[Function], Function]: ...
    def tool_plain(self, function: object = None, /, **options: Any) -> Any:
        """Declare a tool that takes no context; used bare, or called with options of `Tool`."""
        return self._declared(function, False, options)

    def _declared(self, function: Any, takes_ctx: bool | None, options: dict[str, Any]) -> Any:
        def declare(made: Callable[..., Any]) -> Callable[..., Any]:
            self.add_tool(Tool(made, takes_ctx=takes_ctx, **options))
            return made

        return declare if function is None else declare(function)
