"""Say that the same call was requested before: another request of it is open, or one was rejected a moment ago."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..journal.rows import RequestRow
from .clock import span

#: How many of each are named.
MOST = 2


class IdenticalRequest(NamedTuple):
    """Holds another request of the same tool with the same arguments."""

    row: RequestRow

    def words(self, person: str, now: int) -> str:
        """Return what is to be known of it by a person who decides the call again."""
        if self.row.state == "open":
            return f"An identical request is open, requested {span(now - self.row.asked_at)} ago."
        by = "You" if self.row.by == person else self.row.by or "An approver"
        return f"{by} rejected an identical call {span(now - (self.row.closed_at or now))} ago."


def identical_to(row: RequestRow, others: Iterable[RequestRow]) -> list[IdenticalRequest]:
    """Return those of other requests that are open or were rejected, of the same tool with the same arguments.

    >>> row = RequestRow("1", "run", "r/1.0", "approval", "pay", "desk", "d", 0, shape="s")
    >>> other = RequestRow("2", "run", "r/2.0", "approval", "pay", "desk", "d", 0, shape="s")
    >>> [each.words("ada", 60_000) for each in identical_to(row, [row, other])]
    ['An identical request is open, requested 1 min ago.']
    """
    alike = {
        each.id: each
        for each in others
        if each.id != row.id and (each.tool, each.shape) == (row.tool, row.shape) and each.shape
    }
    found = [IdenticalRequest(each) for each in alike.values() if each.state == "open"][:MOST]
    rejected = [each for each in alike.values() if each.state == "reject"]
    newest = sorted(rejected, key=lambda each: each.closed_at or 0, reverse=True)
    return [*found, *map(IdenticalRequest, newest[:MOST])]
