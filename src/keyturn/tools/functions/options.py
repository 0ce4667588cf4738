"""The options of a function tool, validated when the tool is declared.

An option that is wrong would show it only at a call, which is when a person relies on it. Nothing here
reads an option in order to act on it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from typing import Any, Literal, TypedDict

from ...core.errors import UserError
from ...core.policy import Approval
from ...core.preview import Block, Preview
from ..base import NeedsApproval
from .bound import ToolErrorFunction
from .docstrings import DocstringStyle

PreviewFunction = Callable[[Any], Preview | Block | str | list[Block | str]]
TimeoutBehavior = Literal["error_as_result", "raise_exception"]
Files = tuple[str, ...] | Callable[[Any], Iterable[str | os.PathLike[str]]]
IsEnabled = bool | Callable[[Any, Any], bool | Awaitable[bool]]


class FunctionToolOptions(TypedDict, total=False):
    """Declares the options of `function_tool`, for those who pass them on.

    >>> options = FunctionToolOptions(needs_approval=True, risk="high")
    >>> sorted(options)
    ['needs_approval', 'risk']
    """

    name_override: str | None
    description_override: str | None
    docstring_style: DocstringStyle | None
    use_docstring_info: bool
    failure_error_function: ToolErrorFunction | None
    strict_mode: bool
    is_enabled: IsEnabled
    needs_approval: NeedsApproval
    tool_input_guardrails: list[Any] | None
    tool_output_guardrails: list[Any] | None
    timeout: float | None
    timeout_behavior: TimeoutBehavior
    timeout_error_function: ToolErrorFunction | None
    idempotent: bool
    check: Callable[..., Any] | None
    read_only: bool
    preview: PreviewFunction | None
    approval: Approval | None
    risk: str | None
    files: Files


def check_options(name: Any, options: Mapping[str, Any]) -> None:
    """Refuse an option or a value that no tool can have; the message says what it may be."""
    if not isinstance(name, str) or not name:
        raise UserError(f"a tool's name must be a non-empty string, not {name!r}")
    for option, value in options.items():
        fits, may_be = _RULES[option]
        if not fits(value):
            raise UserError(f"tool {name!r}: {option} must be {may_be}, not {value!r}")


def _switch(value: Any) -> bool:
    return isinstance(value, bool) or callable(value)


def _callback(value: Any) -> bool:
    return value is None or callable(value)


def _seconds(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value > 0)


def _preview(value: Any) -> bool:
    return value is None or (callable(value) and not iscoroutinefunction(value))


def _files(value: Any) -> bool:
    return callable(value) or (isinstance(value, tuple) and all(isinstance(each, str) for each in value))  # type: ignore[reportUnknownVariableType]  # whatever is in it


_SWITCH = (_switch, "True, False or a callable")
_CALLBACK = (_callback, "a callable or None")
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "on_invoke_tool": (callable, "a callable (context, arguments)"),
    "needs_approval": _SWITCH,
    "is_enabled": _SWITCH,
    "check": _CALLBACK,
    "on_approval": _CALLBACK,
    "on_approval_request": _CALLBACK,
    "on_safety_check": _CALLBACK,
    "failure_error_function": _CALLBACK,
    "timeout_error_function": _CALLBACK,
    "timeout_seconds": (_seconds, "a number of seconds greater than 0, or None"),
    "timeout_behavior": (("error_as_result", "raise_exception").__contains__, "'error_as_result' or 'raise_exception'"),
    "preview": (_preview, "a plain function of the arguments (not async: whoever looks calls it)"),
    "files": (_files, "a tuple of names of parameters, or a function of the arguments that gives paths"),
    "approval": (lambda value: value is None or isinstance(value, Approval), "an Approval(...) or None"),
}
