"""Insights: how people decide, how fast and how uniformly, from what a store counted as it was decided.

No request is read: the store adds up in each append what that append says, so the answer costs what there are days,
tools and people, not what there are requests. What is told of times is of buckets (`journal/rows.py`): a median lies in
the bucket in which it truly is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any, cast

from ..core.durations import milliseconds
from ..core.errors import UserError
from ..core.settable import Sealed
from ..directory.people import People
from ..journal import opened
from ..journal.base import Store
from ..journal.rows import COUNTED_FROM, DAY_MS, EDGES, Period, Tally
from .figures import Figures, InsightsReport, Times
from .replayed import Suggestion
from .suggestions import SCANNED, suggestions_from

#: The setting of the directory that says how long somebody has to look, by risk, and what holds where nothing is set.
MIN_LOOK = "min_look"
_FLOOR = "2s"
_LONGEST = 3_660
_DECIDED = ("approve", "edit", "reject", "answer", "ran", "did_not_run", "retry", "asked_back")
_VOTE = "vote "
_BESIDE = ("read", "look", "void", "step", "right", "wrong", "drill_passed", "drill_failed")
_EPOCH = date(1970, 1, 1)


class Insights(Sealed):
    """Tells from a journal how people decide, and which rules would spare them what they always approve.

    `people` is the directory of the same journal; its setting "min_look" says how long somebody has to look at a
    request before a decision is not hurried: a duration, or durations by risk with "" for every other.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> asyncio.run(Insights(MemoryJournal()).report()).total.decided
    0
    """

    def __init__(self, store: Store | str, people: People | None = None) -> None:
        self._store = opened(store) if isinstance(store, str) else store
        self._people = People(self._store) if people is None else people

    async def report(self, *, days: int = 30) -> InsightsReport:
        """Return what was counted in so many days, today (UTC) included."""
        given: object = days
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= _LONGEST:
            raise UserError(f"days is a whole number from 1 to {_LONGEST}, not {days!r}")
        today = await self._store.now() // DAY_MS
        since = max(today - days + 1, 0)
        counted = await self._store.tallies(Period(since=since, until=today))
        floors = floors_of((await self._people.directory()).settings.get(MIN_LOOK))
        told = [each for each in counted if each.what != COUNTED_FROM]
        return InsightsReport(
            since=_day(since),
            until=_day(today),
            counted_from=await self._begun(),
            floors={risk: floor / 1_000 for risk, floor in floors.items()},
            total=_figures("", told, floors),
            tools=_by(told, lambda each: each.tool, floors),
            people=_by([each for each in told if each.person], lambda each: each.person, floors),
            kinds=_by(told, lambda each: each.kind, floors),
        )

    async def days(self, *, days: int = 30) -> list[Figures]:
        """Return the figures of each of so many days, today (UTC) included, under its date; the oldest first."""
        report = await self.report(days=days)
        since = (date.fromisoformat(report.since) - _EPOCH).days
        until = (date.fromisoformat(report.until) - _EPOCH).days
        counted = await self._store.tallies(Period(since=since, until=until, daily=True))
        parts: dict[int, list[Tally]] = {day: [] for day in range(since, until + 1)}
        for each in counted:
            if each.what != COUNTED_FROM and each.day in parts:
                parts[each.day].append(each)
        floors = {risk: round(floor * 1_000) for risk, floor in report.floors.items()}
        return [_figures(_day(day), part, floors) for day, part in parts.items()]

    async def suggestions(self, *, tool: str | None = None, newest: int = 2_000) -> list[Suggestion]:
        """Return rules that would have let run what people approved unchanged, and nothing else that they decided.

        Computed from the `newest` decided requests of each tool and agent, among the newest of all.
        """
        given: object = newest
        if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= SCANNED:
            raise UserError(f"newest is a whole number from 1 to {SCANNED}, not {newest!r}")
        return await suggestions_from(self._store, tool, newest)

    async def _begun(self) -> str | None:
        found = await self._store.tallies(Period(until=0))
        days = [each.ms for each in found if each.what == COUNTED_FROM]
        return _day(max(days) + 1) if days else None


def floors_of(setting: Any) -> dict[str, int]:
    """Return the reading floors in milliseconds by risk, from the setting as it stands.

    >>> floors_of({"high": "10s"}), floors_of("5s")
    ({'': 2000, 'high': 10000}, {'': 5000})
    """
    given: dict[str, Any] = {}
    if isinstance(setting, Mapping):
        given = dict(cast("Mapping[str, Any]", setting))
    elif setting is not None:
        given = {"": setting}
    try:
        return {"": milliseconds(_FLOOR)} | {str(risk): milliseconds(each) for risk, each in given.items()}
    except UserError as error:
        raise UserError(
            f"the setting {MIN_LOOK!r} is a duration such as '5s', or durations by risk; set it anew: {error}"
        ) from None


def _by(tallies: Iterable[Tally], name: Callable[[Tally], str], floors: Mapping[str, int]) -> list[Figures]:
    """Return the figures of each name, those with most decisions first."""
    parts: dict[str, list[Tally]] = {}
    for each in tallies:
        parts.setdefault(name(each), []).append(each)
    made = [_figures(part, parts[part], floors) for part in parts]
    return sorted(made, key=lambda each: (-each.decided, each.name))


def _figures(name: str, tallies: list[Tally], floors: Mapping[str, int]) -> Figures:
    """Return the figures of tallies: a vote is a decision of its approver, as the one that settles a request is."""
    words: dict[str, int] = {}
    for each in tallies:
        words[each.what] = words.get(each.what, 0) + each.count

    def count(*what: str) -> int:
        return sum(words.get(word, 0) + words.get(_VOTE + word, 0) for word in what)

    decides = [each for each in tallies if each.what.removeprefix(_VOTE) in _DECIDED]
    decided = sum(each.count for each in decides)
    ended = sum(number for word, number in words.items() if word not in _BESIDE and not word.startswith(_VOTE))
    read = [each for each in tallies if each.what == "read"]
    return Figures(
        name=name,
        decided=decided,
        ended=ended,
        approval_rate=_rate(count("approve", "edit"), decided),
        edit_rate=_rate(count("edit"), decided),
        rejection_rate=_rate(count("reject"), decided),
        expiry_rate=_rate(count("expire", "ask_again"), ended),
        escalation_rate=_rate(count("escalate"), ended),
        to_decide=Times.of(decides),
        first_look=Times.of(each for each in tallies if each.what == "look"),
        read=sum(each.count for each in read),
        hurried=sum(_hurried(each, floors.get(each.risk, floors[""])) for each in read),
        words=dict(sorted(words.items())),
        reviewed=count("right", "wrong"),
        disagreement_rate=_rate(count("wrong"), count("right", "wrong")),
        drills=count("drill_passed", "drill_failed"),
        drills_passed=_rate(count("drill_passed"), count("drill_passed", "drill_failed")),
    )


def _hurried(read: Tally, floor: int) -> int:
    """Return how many surely took less than the floor: those in buckets that end there or before."""
    return sum(read.times[: bisect_right(EDGES, floor)])


def _rate(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _day(day: int) -> str:
    return (_EPOCH + timedelta(days=min(day, (date.max - _EPOCH).days))).isoformat()
