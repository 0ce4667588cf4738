"""Hold all that is shown of one request, with what a person can do and what happened; and of one run, how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..journal.rows import RequestRow, RunRow
from .asking import Standing
from .call_history import EditedArguments
from .exchange import Question
from .message_context import NOTHING_SAID, Context
from .notifications import Notification
from .recorded import Recorded
from .trail import TrailMark


class Reader(NamedTuple):
    """Says who reads of a request, and when; `people` can still approve it, and `may` says whether the reader could.

    >>> Reader("ada", 5_000).people
    ()
    """

    person: str
    now: int
    people: Sequence[str] = ()
    may: bool = False


class RequestFacts(NamedTuple):
    """Holds a request and what stands beside it: `lines` of its run's log, and whether its call was started.

    `recorded` is what its reader did about it and what came of that, `missed` says that it expired and that they could
    have decided it, and `thread` holds the questions to the agent.
    """

    row: RequestRow
    standing: Standing
    context: Context = NOTHING_SAID
    trail: Sequence[TrailMark] = ()
    lines: int = 0
    ran: bool = False
    notified: Sequence[Notification] = ()
    edited: EditedArguments | None = None
    recorded: Recorded | None = None
    people: Sequence[str] = ()
    missed: bool = False
    thread: Sequence[Question] = ()


class Story(NamedTuple):
    """Holds how a run stands, and the traceback of what stopped it, "" where nothing did."""

    row: RunRow
    traceback: str = ""
