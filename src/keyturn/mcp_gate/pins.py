"""Pins: the definition of each tool as it was first seen or last accepted, and what its server changed since.

A definition is what a model reads of a tool and what its arguments and results are held to. The first time that a
server is seen its tools are pinned as they are; after that a changed tool, or a new one, requires a person.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import mcp_types as types

from ..core.approval import Approval
from .records import GateRecords

#: What a request to accept a change names as its tool: a rule about the changed tool is none about this.
ACCEPT = "accept_tool_definition"
ACCEPT_WORDS = "Accept the definition of a tool that its MCP server changed or added."
#: Terms that name people: no rule that allows takes them away.
BY_A_PERSON = Approval(not_requester=True)
_PARTS = {"title", "description", "input_schema", "output_schema", "annotations"}
_UNLISTED = "(not listed by its server)"


class ToolChange(NamedTuple):
    """Describes a tool whose definition is not the accepted one; `before` is "" for a new tool."""

    tool: str
    before: str
    after: str

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the request, which people are shown as a diff."""
        return self._asdict()

    def __str__(self) -> str:
        return f"{self.tool!r} is new" if not self.before else f"{self.tool!r} has another definition"


def definition_of(tool: types.Tool | None) -> str:
    """Return the definition of a tool as text, the same for the same definition.

    >>> print(definition_of(types.Tool(name="buy", description="Buy an item.", input_schema={"type": "object"})))
    Buy an item.
    <BLANKLINE>
    {
      "inputSchema": {
        "type": "object"
      }
    }
    """
    if tool is None:
        return _UNLISTED
    parts: dict[str, Any] = tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=_PARTS)
    words = str(parts.pop("description", ""))
    return f"{words}\n\n{json.dumps(parts, indent=2, sort_keys=True, ensure_ascii=False)}"


class Pins:
    """Compares the tools of one server with their pins."""

    def __init__(self, records: GateRecords) -> None:
        self._records = records

    def begin(self, tools: list[types.Tool]) -> list[ToolChange]:
        """Return what changed since the last start; a server that was never seen is pinned as it is."""
        if self._records.pins is None:
            self._records.pin({tool.name: definition_of(tool) for tool in tools})
        return self.changes({tool.name: tool for tool in tools}.items())

    def changes(self, tools: Iterable[tuple[str, types.Tool | None]]) -> list[ToolChange]:
        """Return how tools differ from their pins, of those that do."""
        now = [(name, definition_of(tool)) for name, tool in tools]
        if all(self.pinned(name) == definition for name, definition in now):
            return []
        self._records.look()  # a gate of another client may have had them accepted
        found = [ToolChange(name, self.pinned(name), definition) for name, definition in now]
        return [each for each in found if each.before != each.after]

    def accept(self, change: ToolChange) -> None:
        """Pin a definition as it was shown."""
        self._records.pin({change.tool: change.after})

    def pinned(self, name: str) -> str:
        """Return the accepted definition of a tool; "" where there is none."""
        return (self._records.pins or {}).get(name, "")
