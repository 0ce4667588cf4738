"""The decorator that makes a function a tool; `function_tool.py` has the tool itself.

Its options are those of `FunctionToolOptions`; what an option is by default is said where it is used, and only there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Unpack, overload

from ..core.settable import unexpected
from .base import OutcomeUnknown
from .context import RunContextWrapper
from .function_tool import FunctionTool
from .functions.bound import BoundFunction, default_tool_error_function
from .functions.options import FunctionToolOptions

__all__ = ["FunctionTool", "OutcomeUnknown", "default_tool_error_function", "function_tool"]

ToolFunction = Callable[..., Any]
# The options that the schema is made with, and those that a tool knows by another name.
_OF_SCHEMA = ("name_override", "description_override", "docstring_style", "use_docstring_info")
_RENAMED = {"strict_mode": "strict_json_schema", "timeout": "timeout_seconds"}


@overload
def function_tool(func: ToolFunction, /, **options: Unpack[FunctionToolOptions]) -> FunctionTool: ...
@overload
def function_tool(
    func: None = None, /, **options: Unpack[FunctionToolOptions]
) -> Callable[[ToolFunction], FunctionTool]: ...
def function_tool(
    func: ToolFunction | None = None, **options: Unpack[FunctionToolOptions]
) -> FunctionTool | Callable[[ToolFunction], FunctionTool]:
    """Make a function a tool; used bare, or called with its options.

    Name, description and parameters come from the function's signature and docstring. A first parameter that
    is annotated `RunContextWrapper[...]` or `ToolContext[...]` gets the context. `files` names the arguments that
    hold paths of files, so that an approval is for what is in them; `read_approved` reads one.

    >>> @function_tool(needs_approval=True)
    ... def refund(order: str, amount: int) -> str:
    ...     "Send money back."
    ...     return f"refunded {amount}"
    >>> refund.name, refund.description, refund.needs_approval
    ('refund', 'Send money back.', True)
    """
    for name in options.keys() - FunctionToolOptions.__annotations__.keys():
        raise unexpected("function_tool()", name, FunctionToolOptions.__annotations__)
    return partial(_made, options) if func is None else _made(options, func)


def _made(options: FunctionToolOptions, function: ToolFunction) -> FunctionTool:
    from .functions.schema import function_schema  # here, because an agent without function tools does not need it

    given: dict[str, Any] = {_RENAMED.get(name, name): value for name, value in options.items()}
    described = {name: given.pop(name) for name in _OF_SCHEMA if name in given}
    strict: bool = given.get("strict_json_schema", True)
    schema = function_schema(function, strict_json_schema=strict, context_types=(RunContextWrapper,), **described)
    failure = given.get("failure_error_function", default_tool_error_function)
    files = given.pop("files", ())
    kind: Callable[..., FunctionTool] = FunctionTool
    if files:
        from .functions.approved_files import FileBoundTool  # here, because few tools need it

        kind = partial(FileBoundTool, files=files)
    bound = BoundFunction(function, schema, failure)
    return kind(schema.name, schema.description, schema.params_json_schema, bound, secrets=schema.secrets, **given)
