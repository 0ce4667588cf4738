"""What the `on_approval` of a tool answers, and what `needs_approval` and `on_approval` are as types, for each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NotRequired, TypedDict

from .context import RunContextWrapper
from .patches.editor import ApplyPatchOperation
from .shell_calls import ShellActionRequest


class OnApprovalFunctionResult(TypedDict):
    """What an `on_approval` callback answers: a real True or False decides, anything else leaves the call waiting.

    >>> OnApprovalFunctionResult(approve=False, reason="not on a Friday")["reason"]
    'not on a Friday'
    """

    approve: bool
    reason: NotRequired[str]


ShellOnApprovalFunctionResult = OnApprovalFunctionResult
ApplyPatchOnApprovalFunctionResult = OnApprovalFunctionResult
CustomToolOnApprovalFunctionResult = OnApprovalFunctionResult

_OnApproval = Callable[[RunContextWrapper[Any], Any], OnApprovalFunctionResult | Awaitable[OnApprovalFunctionResult]]
ShellOnApprovalFunction = _OnApproval
ApplyPatchOnApprovalFunction = _OnApproval
CustomToolOnApprovalFunction = _OnApproval

ShellApprovalFunction = Callable[[RunContextWrapper[Any], ShellActionRequest, str], bool | Awaitable[bool]]
ApplyPatchApprovalFunction = Callable[[RunContextWrapper[Any], ApplyPatchOperation, str], bool | Awaitable[bool]]
CustomToolApprovalFunction = Callable[[RunContextWrapper[Any], str, str], bool | Awaitable[bool]]
