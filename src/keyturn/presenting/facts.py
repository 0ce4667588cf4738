"""Hold all that is shown of one request, with what a person can do and what happened; and of one run, how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..core.events import Step
from ..journal.rows import RequestRow, RunRow
from .asking import Standing
from .call_history import EditedArguments, edited_in
from .message_context import NOTHING_SAID, Context, context_of
from .notifications import Notification
from .trail import TrailMark, trail_of, was_started


class RequestFacts(NamedTuple):
    """Holds a request and what stands beside it: `lines` of its run's log, and whether its call was started."""

    row: RequestRow
    standing: Standing
    context: Context = NOTHING_SAID
    trail: Sequence[TrailMark] = ()
    lines: int = 0
    ran: bool = False
    notified: Sequence[Notification] = ()
    edited: EditedArguments | None = None

    @classmethod
    def of(
        cls, row: RequestRow, standing: Standing, steps: Sequence[Step], notified: Sequence[Notification] = ()
    ) -> RequestFacts:
        """Return what the log of its run has of a request."""
        trail = trail_of(steps, row.call)
        edited = edited_in(steps, row.call)
        context = context_of(steps, row.call)
        return cls(row, standing, context, trail, len(steps), was_started(trail), notified, edited)


class Story(NamedTuple):
    """Holds how a run stands, and the traceback of what stopped it, "" where nothing did."""

    row: RunRow
    traceback: str = ""
