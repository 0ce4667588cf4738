"""The gate of a tool: what was set of it, and how a toolset makes its tools ask for more.

A tool behind another gate shares all attributes with the tool of which it is made, so that each setting is what that
tool's is when it is asked for, and its methods are its own. Nothing here knows toolsets, and no call is judged here.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cache
from typing import Any

from ..support.user_code import answer_of
from .base import NeedsApproval, Tool

#: Says of a call whether it asks: `(ctx, tool, args)`, sync or async.
Asks = Callable[[Any, Any, Any], Any]


def gate_of(tool: Tool) -> NeedsApproval:
    """Return the gate that was set of a tool, without what its kind asks about in any case."""
    return getattr(tool, "_own_gate", tool.needs_approval)


def always_asks(tool: Tool) -> bool:
    """Return whether every call of a tool asks."""
    return gate_of(tool) is True


def gated(tool: Tool, asks: Asks | None = None) -> Tool:
    """Return a tool that asks about all calls, or about those that `asks` names and those that it asks about itself."""
    by, plain = True if asks is None else _either(tool, asks), _innermost(tool)
    checked = copy(plain)  # the rules of its kind say whether it can ask, and how it asks a function
    checked.needs_approval = by
    made: Any = object.__new__(_gated_kind(type(plain)))
    made.__dict__ = vars(plain)
    made._gated_tool = tool
    made._gated_by = by if asks is None else gate_of(checked)
    return made


class _Gated:
    """Has another gate than the tool with which it shares all else."""

    __slots__ = ()
    _gated_tool: Tool
    _gated_by: NeedsApproval

    def __init_subclass__(cls) -> None:
        """Tell no class of a user that there is a kind more, since there is none."""

    @property
    def _own_gate(self) -> NeedsApproval:
        """Return the gate: what the tool asks about by itself, whatever it is now, it asks about still."""
        own = gate_of(self._gated_tool)
        always = own is True or (own is False and self._gated_tool.approval is not None)  # terms hold for every call
        return True if always else self._gated_by

    @property
    def needs_approval(self) -> NeedsApproval:
        """Return whether its calls ask."""
        return self._own_gate

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_gated_"):
            raise AttributeError(name)
        return getattr(self._gated_tool, name)  # what a class of a user keeps in slots is not shared


@cache
def _gated_kind(kind: type[Tool]) -> type[Tool]:
    """Return the class of a kind's gated tools."""
    own = {"__slots__": ("_gated_tool", "_gated_by"), "__module__": kind.__module__, "__doc__": kind.__doc__}
    return type(kind)(kind.__name__, (_Gated, kind), own)


def _innermost(tool: Tool) -> Tool:
    while isinstance(tool, _Gated):
        tool = tool._gated_tool  # pyright: ignore[reportPrivateUsage]  # of the class above
    return tool


def _either(tool: Tool, asks: Asks) -> Any:
    async def needs_approval(context: object, params: object, call_id: str) -> bool:
        for question, given in ((tool.needs_approval, (context, params, call_id)), (asks, (context, tool, params))):
            said = await answer_of(question, *given) if callable(question) else question
            if not isinstance(said, bool):
                raise TypeError(f"whether {tool.name!r} needs approval is True or False, not {said!r}")
            if said:
                return True
        return False

    return needs_approval
