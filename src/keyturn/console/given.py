"""The grants that somebody gave at this screen, and which of the calls that wait they cover."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.predicates.predicate import holds
from ..engine.views.items import ToolApprovalItem
from ..presenting.shown_request import ShownRequest
from ..tools.base import tool_digest


class _Granted(NamedTuple):
    """Records a grant: of which tool of which agent, and for which arguments."""

    about: tuple[int, str | None]
    where: dict[str, Any] | None


class GivenGrants:
    """Holds the grants without a limit that were given here; each call is compared with each of them once."""

    def __init__(self) -> None:
        self._granted: list[_Granted] = []
        self._covered: set[str] = set()
        self._compared: dict[str, int] = {}  # with how many of the grants a call was compared

    def add(self, item: ToolApprovalItem, where: dict[str, Any] | None) -> None:
        """Record a grant that was given with a call."""
        self._granted.append(_Granted(_about(item), where))

    def cover(self, item: ToolApprovalItem) -> bool:
        """Return whether one of them surely covers a call."""
        if item.kind != "approval":
            return False
        new = self._granted[self._compared.get(item.call, 0) :]
        self._compared[item.call] = len(self._granted)
        if item.call not in self._covered and new:
            about = _about(item)
            given: Any = ShownRequest(item).true_arguments
            if any(about == each.about and holds(each.where, given) for each in new):
                self._covered.add(item.call)
        return item.call in self._covered


def _about(item: ToolApprovalItem) -> tuple[int, str | None]:
    """Return what a grant for a call is about; tools of two servers may have one name."""
    return id(item.agent), item.name if item.tool is None else tool_digest(item.tool, item.raw_item)
