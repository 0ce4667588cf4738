"""Read all that is shown of one request from the log of its run, for the person who reads of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.codec import Log
from ..core.run import undo_until
from ..journal.rows import RequestRow
from .asking import Standing
from .call_history import edited_in
from .facts import Reader, RequestFacts
from .message_context import context_of
from .notifications import Notification
from .recorded import Recorded, addressed, recorded
from .threads import answered, thread_of
from .trail import TrailMark, trail_of, was_started


def read_facts(
    row: RequestRow, standing: Standing, log: Log, reader: Reader, notified: Sequence[Notification] = ()
) -> RequestFacts:
    """Return what the log of its run has of a request, to the person who reads of it."""
    trail, thread = trail_of(log.steps, row.call), thread_of(log, row.call)
    people = addressed(reader.people, reader.person)
    return RequestFacts(
        row,
        standing,
        context_of(log.steps, row.call),
        trail,
        len(log.steps),
        was_started(trail),
        notified,
        edited_in(log.steps, row.call),
        answered(_recorded(row, log, trail, reader, people), thread),
        people,
        row.state == "expire" and reader.may,
        thread,
    )


def _recorded(
    row: RequestRow, log: Log, trail: Sequence[TrailMark], reader: Reader, people: Sequence[str]
) -> Recorded | None:
    call = log.run.calls.get(row.call)
    until = None if call is None else undo_until(call)
    by_caller = call is not None and call.proposal.claimed
    return recorded(row, reader.person, trail, reader.now, people, until, by_caller=by_caller)
