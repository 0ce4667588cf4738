"""The tools of one backend: its files, and its commands where it has a shell.

They are made once for each backend. What a call of one would touch is part of what is approved, so that an approval for
the files of one place says nothing of those of another.
"""

from __future__ import annotations

from typing import Any, cast
from weakref import WeakKeyDictionary

from ..tools.backends.backend import Backend
from ..tools.base import Tool
from ..tools.files import filesystem_tools
from .execute import ExecuteTool

FILE_TOOLS = ("ls", "read_file", "write_file", "edit_file", "glob", "grep")
EXECUTE = "execute"

_MADE: WeakKeyDictionary[Backend, list[Tool]] = WeakKeyDictionary()
# Whether one asks is for the agent's interrupts to say.
_UNASKED: dict[str, Any] = {"write_file": False, "edit_file": False}


def backend_tools(backend: Backend) -> list[Tool]:
    """Return the tools of a backend."""
    known = _MADE.get(backend)
    if known is None:
        known = _MADE[backend] = [
            *filesystem_tools(backend, needs_approval=_UNASKED),
            cast("Tool", ExecuteTool(backend)),
        ]
    return known
