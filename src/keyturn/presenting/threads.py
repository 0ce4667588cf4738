"""Follow the questions to an agent that stand with a request, and say what its answer makes of the request."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.codec import Log
from ..core.run import request_id
from .exchange import Question, about, exchanges_of
from .recorded import Recorded


def thread_of(log: Log, call: str) -> list[Question]:
    """Return the questions that led to a request, and the one that was asked about it."""
    named = {"": "", call: ""}
    return [
        Question(each, *(named.get(name, request_id(log.run, name)) for name in (each.before, each.after)))
        for each in about(exchanges_of(log.steps), call)
    ]


def answered(made: Recorded | None, thread: Sequence[Question]) -> Recorded | None:
    """Return what is recorded of a question to the agent once that has answered."""
    last = thread[-1].exchange if thread else None
    if made is None or last is None or not last.answered_at or thread[-1].before:
        return made
    more = "It requested approval again." if last.after else "It did not request approval again."
    return made._replace(then=f"The agent answered. {more}")
