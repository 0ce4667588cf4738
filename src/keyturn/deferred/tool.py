"""Make functions tools in the way of Pydantic AI: `Tool(...)`, and what may stand in an agent's `tools`.

A tool of this room is a `FunctionTool` like any other. What it raises to ask is in `keyturn.tools.base`: any tool may
raise it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Any, cast

from ..agents.output import dump
from ..core.approval import Approval
from ..core.errors import UserError
from ..core.items import Item
from ..tools.base import ProviderTool, ToolLike
from ..tools.base import Tool as AnyTool
from ..tools.context import RunContextWrapper, ToolContext
from ..tools.function_tool import FunctionTool
from ..tools.functions.bound import BoundFunction, default_tool_error_function
from ..tools.functions.schema import function_schema
from ..tools.outputs import rendered
from .requests import ToolReturn

Gate = bool | Callable[..., Any]


class Tool(FunctionTool):
    """Makes a function a tool; `requires_approval` is True, False or a callable `(ctx, params, call_id)`.

    >>> def pay(to: str, amount: int) -> str:
    ...     "Send money."
    ...     return f"paid {amount}"
    >>> tool = Tool(pay, requires_approval=True)
    >>> tool.name, tool.needs_approval
    ('pay', True)
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        takes_ctx: bool | None = None,
        name: str | None = None,
        description: str | None = None,
        requires_approval: Gate = False,
        approval: Approval | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        if isinstance(cast("object", function), AnyTool) or not callable(function):
            raise UserError(f"Tool() makes a function a tool, and a {type(function).__name__} is none")
        strict: bool = options.pop("strict", True)
        schema = function_schema(
            function,
            name_override=name,
            description_override=description,
            strict_json_schema=strict,
            context_types=(RunContextWrapper,),
        )
        _check_context(schema.name, takes_ctx, schema.takes_context)
        failure = options.get("failure_error_function", default_tool_error_function)
        if "needs_approval" in options:
            raise UserError(f"tool {schema.name!r}: needs_approval is called requires_approval here; give one of them")
        super().__init__(
            schema.name,
            schema.description,
            schema.params_json_schema,
            BoundFunction(function, schema, failure),
            strict,
            needs_approval=requires_approval,
            approval=approval,
            timeout_seconds=timeout,
            secrets=schema.secrets,
            **options,
        )

    @property
    def requires_approval(self) -> Any:
        """Return whether its calls ask: `needs_approval` under the name that it has here."""
        return self.needs_approval

    @requires_approval.setter
    def requires_approval(self, value: Gate) -> None:
        self.needs_approval = value

    @property
    def timeout(self) -> float | None:
        """Return how many seconds a call may take: `timeout_seconds` under the name that it has here."""
        return self.timeout_seconds

    @timeout.setter
    def timeout(self, value: float | None) -> None:
        self.timeout_seconds = value

    def output(self, item: Mapping[str, Any], value: Any) -> Item:
        """Return the call's result as the model reads it; data is JSON, and metadata is not for the model."""
        if isinstance(value, ToolReturn):
            value = value.told()
        if _is_data(value):
            told = rendered(value)
            if isinstance(told, str):
                return super().output(item, json.dumps(dump(value), ensure_ascii=False))
        return super().output(item, value)


def _is_data(value: object) -> bool:
    return isinstance(value, dict | list | tuple) or hasattr(value, "model_dump") or is_dataclass(value)


def _check_context(name: str, wanted: bool | None, takes: bool) -> None:
    if wanted and not takes:
        raise UserError(
            f"tool {name!r} takes no context: annotate its first parameter as RunContext[...], or declare it with "
            "tool_plain (takes_ctx=False)"
        )
    if wanted is False and takes:
        raise UserError(f"tool {name!r} takes a context: declare it with tool (takes_ctx=True), not with tool_plain")


def as_tool(given: object, where: str) -> ToolLike:
    """Make a tool of what stands in a list of tools: a function, or a tool of any kind."""
    if isinstance(given, AnyTool | ProviderTool):
        return given
    if callable(given) and not isinstance(given, type):
        return Tool(cast("Callable[..., Any]", given))
    raise UserError(f"{where} holds {given!r}, which is neither a function nor a tool")


#: What a tool gets as its context: `ctx.deps`, `ctx.tool_call_approved`, `ctx.tool_call_metadata`, `ctx.usage`.
RunContext = ToolContext
