"""Let a tool ask for more than it asks by itself: another gate in front of the same tool.

A gated tool has a gate of its own and nothing else: every other setting is read from the tool behind it when it is
needed, so that what is set there later holds here. A method that a setting of that tool is bound to is called on the
gated one, whose gate it sees.
"""

from __future__ import annotations

from functools import cache
from types import MethodType, new_class
from typing import Any, cast

from .base import NeedsApproval, Tool, always_asks


def gated(tool: Tool, needs_approval: NeedsApproval) -> Tool:
    """Return a tool that asks as `needs_approval` says, and is another one in all else.

    >>> from keyturn import function_tool
    >>> pay = function_tool(lambda: "paid", name_override="pay")
    >>> asking = gated(pay, True)
    >>> pay.risk = "high"
    >>> asking.needs_approval, asking.risk, pay.needs_approval
    (True, 'high', False)
    """
    made = object.__new__(_kind_of(type(tool)))
    object.__setattr__(made, "_behind", tool)
    made.needs_approval = needs_approval
    return made


class _Gated:
    """Looks each attribute up in the object itself, then in the tool behind it, then in their class."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name[:2] == "__" or name in object.__getattribute__(self, "__dict__"):
            return super().__getattribute__(name)
        tool: Any = self
        while isinstance(tool, _Gated):
            tool = object.__getattribute__(tool, "_behind")
            held = object.__getattribute__(tool, "__dict__")
            if name in held:
                value = held[name]
                return MethodType(value.__func__, self) if getattr(value, "__self__", None) is tool else value
        try:
            return super().__getattribute__(name)
        except AttributeError:  # a class with `__slots__` keeps it elsewhere
            return getattr(tool, name)

    @property
    def _own(self) -> NeedsApproval:  # see `always_asks`
        """Return the gate as it was set; True where every call asks by the gate behind."""
        own = object.__getattribute__(self, "__dict__")
        return always_asks(object.__getattribute__(self, "_behind")) or own.get("_own", own["needs_approval"])


@cache
def _kind_of(kind: type[Tool]) -> type[Tool]:
    """Return the class of a gated tool of a kind."""
    body = {"__slots__": ("_behind",), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    if issubclass(kind, _Gated):  # a gate in front of a gate
        return kind
    return cast("type[Tool]", new_class(kind.__name__, (_Gated, kind), exec_body=lambda space: space.update(body)))
