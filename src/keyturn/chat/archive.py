"""Find the conversations of a journal: each is a row of runs, one for each thing that was said, in one session.

What a run is called (`workflow`) begins with the id of its conversation, so that rows are enough to list them; what a
run said is read from its log. Nothing is written here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..core.errors import RunMissing, UserError
from ..engine.run.new_ids import new_id
from ..journal.base import Store
from ..journal.rows import Query, RunRow

AGENT = "assistant"
_NAMED = re.compile(r"chat ([0-9a-f]{12}): (.*)", re.DOTALL)
_TITLE = 80  # characters of what was said first
_MOST = 400  # runs that are looked through


class Talk(NamedTuple):
    """Describes a conversation: its id, what was said first, and its runs, the oldest first."""

    id: str
    title: str
    runs: list[RunRow]

    @property
    def last(self) -> RunRow:
        """Return its newest run."""
        return self.runs[-1]


def new_talk() -> str:
    """Return the id of a conversation that begins."""
    return new_id()[:12]


def workflow_of(talk: str, title: str) -> str:
    """Return what the runs of a conversation are called.

    >>> workflow_of("0123456789ab", "Look  around.")
    'chat 0123456789ab: Look around.'
    """
    return f"chat {talk}: {' '.join(title.split())[:_TITLE]}"


async def talks_in(store: Store) -> list[Talk]:
    """Return the newest conversations of a journal, the newest first."""
    rows = await store.runs(Query(agent=AGENT, limit=_MOST, newest=True))
    return _talks(rows)


async def talk_of(store: Store, run: str) -> Talk:
    """Return the conversation of a run, named by its id or by the beginning of it."""
    exact = await store.runs(Query(run=run))
    rows = await store.runs(Query(agent=AGENT, limit=_MOST, newest=True))
    named = exact or [row for row in rows if row.run.startswith(run) or _id_of(row) == run]
    found = {_id_of(row) for row in named}
    if not run or not found:
        raise RunMissing(run)
    if len(found) > 1:
        raise UserError(f"{len(named)} runs begin with {run!r}: give more of the id")
    which = found.pop()
    if not which:
        raise UserError(f"run {run!r} was not started by `keyturn chat`; `keyturn runs` shows it")
    rows = [*named, *(row for row in rows if row.run not in {one.run for one in named})]
    return next(talk for talk in _talks(rows) if talk.id == which)


def _talks(rows: Sequence[RunRow]) -> list[Talk]:
    found: dict[str, Talk] = {}
    for row in sorted(rows, key=lambda row: row.started_at):
        which = _id_of(row)
        if which:
            found.setdefault(which, Talk(which, _title_of(row), [])).runs.append(row)
    return sorted(found.values(), key=lambda talk: talk.last.updated_at, reverse=True)


def _id_of(row: RunRow) -> str:
    named = _NAMED.fullmatch(row.workflow)
    return "" if named is None or row.agent != AGENT else named[1]


def _title_of(row: RunRow) -> str:
    named = _NAMED.fullmatch(row.workflow)
    return "" if named is None else named[2]
