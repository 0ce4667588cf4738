"""Say of runs that are due, and that no worker moves, what a worker needs to move them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..core.upcasts import FORMAT
from ..journal.base import ClaimFilter, DueRun, Store
from ..journal.optional import Backlog

#: For how long a run is due until it is reported that no worker takes it up, in milliseconds.
LATE_MS = 60_000
#: How many due runs are looked at, the longest due first.
LOOKED_AT = 500


def grouped(due: Iterable[DueRun]) -> dict[tuple[str, int], list[DueRun]]:
    """Return due runs by agent and log format.

    >>> grouped([DueRun("a", 0, "desk"), DueRun("b", 0, "desk")]).keys()
    dict_keys([('desk', 0)])
    """
    found = dict[tuple[str, int], list[DueRun]]()
    for each in due:
        found.setdefault((each.agent, each.format), []).append(each)
    return found


def what_moves(agent: str, format: int) -> str:
    """Return what to start, so that runs of this agent and log format are moved.

    >>> what_moves("desk", 0)
    "start a worker whose app has the agent 'desk': keyturn worker module:app"
    """
    if format > FORMAT:
        return f"start a worker of the newer Keyturn that wrote them (log format {format}, this one reads {FORMAT})"
    return f"start a worker whose app has the agent {agent!r}: keyturn worker module:app"


class DueGroup(NamedTuple):
    """Counts the runs of one agent and log format that are due and not executed, and says what executes them."""

    agent: str
    format: int
    runs: int
    seconds: float

    @property
    def remedy(self) -> str:
        """Return what to start."""
        return what_moves(self.agent, self.format)


async def due_groups(store: Store) -> list[DueGroup]:
    """Return what is due and not executed, of the runs that have been so for the longest."""
    if not isinstance(store, Backlog):
        return []
    due, now = await store.overdue(LOOKED_AT), await store.now()
    return [
        DueGroup(agent, format, len(several), max(max(now - each.at for each in several) / 1_000, 0.0))
        for (agent, format), several in grouped(due).items()
    ]


async def left_alone(store: Store, only: ClaimFilter) -> dict[tuple[str, int], list[DueRun]]:
    """Return, by agent and log format, the runs that are late and that a worker with this filter cannot move."""
    if not isinstance(store, Backlog):
        return {}
    late = await store.now() - LATE_MS
    due = [each for each in await store.overdue(LOOKED_AT) if each.at <= late]
    return grouped(each for each in due if not only.admits(each.run, each.agent, each.format))
