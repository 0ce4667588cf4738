"""Show who is on call: of one request, and of each schedule for the next days, with the times that nobody covers."""

from __future__ import annotations

from typing import NamedTuple

from ...core.encodable import in_milliseconds, moment
from ...core.errors import UserError
from ...directory.on_call import SETTING, Level, OnCall, holes, on_call, schedules
from ...directory.recipients import may_hear
from ...journal.rows import RequestRow
from .pages import PageContext

#: How many times that nobody covers are shown of a level.
SHOWN_HOLES = 7


class LevelRow(NamedTuple):
    """Holds one level of a schedule: whose turn it is, who takes turns, and when it has nobody."""

    number: int
    now: str
    people: str
    holes: list[tuple[int, int]]


class ScheduleRow(NamedTuple):
    """Holds the schedule of a role: who is on call now, and its levels."""

    role: str
    now: OnCall | None
    levels: list[LevelRow]


def on_call_words(at: PageContext, row: RequestRow) -> str:
    """Return who is on call for a request, in words; "" where its role has no schedule."""
    terms = row.request.terms_now
    levels = _schedules(at).get(terms.role or "") if terms is not None and row.state == "open" else None
    if terms is None or not levels:
        return ""
    directory = at.visitor.directory
    may = {each.id for each in directory.people.values() if may_hear(directory, each, row.request, at.now)}
    found = on_call(levels, at.now, may, terms.quorum)
    return ", ".join(each.words for each in found) or "no one: all approvers are notified"


def schedule_rows(at: PageContext) -> list[ScheduleRow]:
    """Return the schedules of the directory."""
    there = {each.id for each in at.visitor.directory.people.values() if each.here}
    made = list[ScheduleRow]()
    for role, levels in sorted(_schedules(at).items()):
        found = on_call(levels, at.now, there)
        rows = [_level(at, number, level) for number, level in enumerate(levels, 1)]
        made.append(ScheduleRow(role, found[0] if found else None, rows))
    return made


def _schedules(at: PageContext) -> dict[str, list[Level]]:
    try:
        return schedules(at.visitor.directory.settings.get(SETTING))
    except UserError:  # one that an earlier version took
        return {}


def _level(at: PageContext, number: int, level: Level) -> LevelRow:
    empty = [(in_milliseconds(start), in_milliseconds(end)) for start, end in holes(level, at.now)]
    return LevelRow(number, level.holder(moment(at.now)) or "", ", ".join(level.people), empty[:SHOWN_HOLES])
