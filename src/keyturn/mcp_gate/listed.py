"""The tools as their server lists them: to the gate as it looks, and to each client.

A model goes by what its client was listed, and a person by what the gate looked at: where these differ, or one list has
two definitions of a name, nothing is forwarded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

import mcp_types as types

from .holding import NotForwarded
from .pins import Pins, ToolChange, definition_of

_MOST = 1_000  # clients
_TWICE = "Not run: the server lists {!r} more than once, with different definitions."
_OTHERWISE = (
    "Not run: the server listed another definition of {!r} to this client than the one it lists now, and no person "
    "accepted it. List the tools again."
)


class ListedTools:
    """Knows the tools as the gate looked at them last, and what clients were listed that is not accepted."""

    def __init__(self, pins: Pins) -> None:
        self._pins = pins
        self._tools = dict[str, types.Tool]()
        self._twice = set[str]()
        self._listed = OrderedDict[Hashable, dict[str, set[str]]]()

    def get(self, name: str) -> types.Tool | None:
        """Return a tool as it was last looked at."""
        return self._tools.get(name)

    def begin(self) -> list[ToolChange]:
        """Return what the server changed since the gate was last started."""
        return self._pins.begin(list(self._tools.values()))

    def looked(self, tools: Iterable[types.Tool]) -> None:
        """Keep the tools as the server lists them now."""
        self._tools.clear()
        self._twice.clear()
        for tool in tools:
            if definition_of(self._tools.setdefault(tool.name, tool)) != definition_of(tool):
                self._twice.add(tool.name)

    def listed(self, client: Hashable, tools: Iterable[types.Tool], *, first: bool) -> None:
        """Keep what a client is listed and is not accepted; the first page begins another list."""
        kept = self._listed.pop(client, {})
        kept = self._listed[client] = {} if first else kept
        for change in self._pins.changes((tool.name, tool) for tool in tools):
            kept.setdefault(change.tool, set()).add(change.after)
        while len(self._listed) > _MOST:
            self._listed.popitem(last=False)

    def is_unknown(self, client: Hashable, name: str) -> bool:
        """Return whether the tools are to be looked at again before a call that passes without being asked about."""
        return name not in self._tools or name in self._listed.get(client, {})

    def change(self, name: str) -> ToolChange | None:
        """Return how a tool differs from the definition that was accepted."""
        changes = self._pins.changes([(name, self._tools.get(name))])
        return changes[0] if changes else None

    def check(self, client: Hashable, name: str) -> None:
        """Raise `NotForwarded` where a client knows the tool by another definition than a person is shown."""
        if name in self._twice:
            raise NotForwarded(_TWICE.format(name))
        known = {definition_of(self._tools.get(name)), self._pins.pinned(name)}
        if not self._listed.get(client, {}).get(name, set()) <= known:
            raise NotForwarded(_OTHERWISE.format(name))

    def accept(self, change: ToolChange) -> None:
        """Pin a definition as it was shown."""
        self._pins.accept(change)
        for listed in self._listed.values():
            listed.get(change.tool, set()).discard(change.after)
