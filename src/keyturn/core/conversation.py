"""Fold into a conversation what a model replied, and read what it sees after a handoff or a summary."""

from __future__ import annotations

from typing import Any

from . import events as ev
from .items import Item
from .moves import open_calls, read_in
from .run import Frame, Run
from .usage import NOTHING


def recorded(run: Run, event: ev.ReplyRecorded) -> None:
    """Put a reply behind what its model was asked, and open its calls."""
    frame = run.frames[event.frame]
    frame.turn += 1
    frame.fresh = False
    frame.unread = False
    late = _not_heard(frame, event)
    read_in(frame, event.output)
    frame.sent = len(frame.items)
    frame.heard = frame.sent if event.heard is None or frame.barrier else event.heard
    frame.replied = len(event.output)
    frame.used_tools = frame.used_tools or bool(event.proposals)
    frame.judged = event.judged and bool(event.proposals)
    if event.response_id is not None:
        frame.response_id = event.response_id
    count(run, event)
    if event.tools:
        run.tools.update(event.tools)
    if frame.id == ev.ROOT:
        run.turns = frame.turn
        run.response_id = event.response_id or run.response_id
    if frame.barrier:
        frame.move("propose" if event.proposals else "reply")
    if late and event.proposals:
        frame.queued.extend(late)
    elif late:
        read_in(frame, late)
        frame.unread = True
    frame.open += len(event.proposals)
    open_calls(run, frame, event)


def _not_heard(frame: Frame, event: ev.ReplyRecorded) -> list[Any]:
    """Take out the messages that were added while the model was asked: its reply passed over them."""
    late = frame.items[event.heard :] if frame.barrier and event.heard is not None else []
    if late:
        del frame.items[event.heard :], frame.tape[-len(late) :]
    return late


def count(run: Run, event: ev.ReplyRefused | ev.ReplyRecorded | ev.HistoryCompacted) -> None:
    """Count a reply's usage, whatever became of the reply."""
    if event.usage != NOTHING:
        run.usage += event.usage
        run.replies.append((event.model, event.usage))


def viewed(items: list[Item | int], view: list[list[int] | Item]) -> list[Item | int]:
    """Return the items of a recorded view: ranges of the old ones and new ones."""
    seen: list[Item | int] = []
    for part in view:
        if isinstance(part, list):
            seen.extend(items[part[0] : part[1]])
        else:
            seen.append(part)
    return seen
