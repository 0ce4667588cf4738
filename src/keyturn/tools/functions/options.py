"""The options of a function tool, and what each may be, where the tool is declared and whenever one is set.

An option that is wrong would show it only at a call, which is when a person relies on it. Nothing here
reads an option in order to act on it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any, Literal, TypedDict

from ...core.approval import Approval
from ...core.preview import Block, Preview
from ...core.settable import must
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


def _preview(value: object) -> bool:
    return value is None or (callable(value) and not iscoroutinefunction(value))


def _files(value: object) -> bool:
    return callable(value) or (isinstance(value, tuple) and all(isinstance(each, str) for each in value))  # type: ignore[reportUnknownVariableType]  # whatever is in it


PREVIEW = must(_preview, "a plain function of the arguments (not async)")
FILES = must(_files, "a tuple of names of parameters, or a function of the arguments that gives paths")
BEHAVIOR = must(("error_as_result", "raise_exception").__contains__, "'error_as_result' or 'raise_exception'")
INVOKER = must(callable, "a callable (context, arguments)")
