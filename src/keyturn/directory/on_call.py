"""Say who is on call: by levels of rotas in the setting `on_call`, for each role that has one.

Being on call changes who is notified first, and nothing of who may decide. A level has no one where its hours are over,
or where the person whose turn it is has left or may not decide; then the next level is notified. Turns change at the
same time of a clock on the wall, also where that clock is put forward or back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from ..core.approval import Approval
from ..core.durations import milliseconds
from ..core.encodable import moment
from ..core.errors import UserError
from ..support.zones import named_zone

#: The setting of a directory that holds the schedules, by role.
SETTING = "on_call"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MOST_LEVELS, _MOST_PEOPLE = 10, 100
_STEP = timedelta(minutes=15)


class Level(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes one level: `people` take turns of `turn`, the first from `since`; `hours` and `days` limit it.

    >>> from datetime import UTC
    >>> week = Level(("gus", "hana"), since="2026-11-02T09:00", turn="7d", zone="Europe/Berlin")
    >>> week.holder(datetime(2026, 11, 9, 7, 59, tzinfo=UTC)), week.holder(datetime(2026, 11, 9, 8, 0, tzinfo=UTC))
    ('gus', 'hana')
    """

    people: tuple[str, ...]
    since: str = "2024-01-01"
    turn: str = "7d"
    zone: str = "UTC"
    hours: tuple[str, str] | None = None
    days: tuple[str, ...] = DAYS

    def holder(self, now: datetime) -> str | None:
        """Return whose turn it is; None outside of the hours and days of the level."""
        local = now.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None)
        if not self._covers(local):
            return None
        turns = (local - datetime.fromisoformat(self.since)) // timedelta(milliseconds=milliseconds(self.turn))
        return self.people[turns % len(self.people)]

    def _covers(self, local: datetime) -> bool:
        if self.hours is None:
            return DAYS[local.weekday()] in self.days
        start, end = (time.fromisoformat(text) for text in self.hours)
        wall = local.time()
        if start < end:
            return DAYS[local.weekday()] in self.days and start <= wall < end
        day = local if wall >= start else local - timedelta(days=1)  # a night belongs to the day on which it begins
        return DAYS[day.weekday()] in self.days and (wall >= start or wall < end)

    def check(self) -> None:
        """Refuse what is no level."""
        if not 0 < len(self.people) <= _MOST_PEOPLE or not all(self.people):
            raise UserError(f"a level of on_call has 1 to {_MOST_PEOPLE} people, by their ids")
        if not self.days or not set(self.days) <= set(DAYS):
            raise UserError(f"days of on_call are some of {', '.join(DAYS)}")
        try:
            times = [time.fromisoformat(text) for text in self.hours or ()]
            since = datetime.fromisoformat(self.since)
            if named_zone(self.zone) is None:
                raise ValueError
        except ValueError:
            raise UserError(
                'a level of on_call has since="2026-11-02T09:00", hours=["09:00", "17:00"] and zone="Europe/Berlin"'
            ) from None
        if since.tzinfo is not None or any(each.tzinfo is not None for each in times) or len({*times}) != len(times):
            raise UserError("hours and since= of on_call are times of the level's zone: two different hours, no offset")
        milliseconds(self.turn)


class OnCall(NamedTuple):
    """Says who is on call at a level, and which levels before it have no one.

    >>> OnCall("gus", 2).words
    'gus (level 2: level 1 has no one now)'
    """

    person: str
    level: int

    @property
    def words(self) -> str:
        """Return it in words."""
        if self.level == 1:
            return self.person
        before = "level 1 has" if self.level == 2 else f"levels 1 to {self.level - 1} have"
        return f"{self.person} (level {self.level}: {before} no one now)"


def schedules(given: object) -> dict[str, list[Level]]:
    """Return the levels of each role that a setting describes, or raise `UserError`; none where there is no setting.

    >>> schedules({"finance": [{"people": ["gus", "hana"]}]})["finance"][0].turn
    '7d'
    """
    try:
        found = msgspec.convert(given or {}, dict[str, list[Level]])
    except msgspec.ValidationError as error:
        raise UserError(f'on_call is such as {{"finance": [{{"people": ["gus", "hana"]}}]}}: {error}') from None
    for levels in found.values():
        if not 0 < len(levels) <= _MOST_LEVELS:
            raise UserError(f"a schedule of on_call has 1 to {_MOST_LEVELS} levels")
        for level in levels:
            level.check()
    return found


def on_call(levels: Sequence[Level], now: int, there: Collection[str], needed: int = 1) -> list[OnCall]:
    """Return the people on call, the first level first, as many as are `needed`; none where there are not so many.

    Those who are not `there` have left, or may not decide.

    >>> day, rest = Level(("gus",), hours=("09:00", "17:00")), Level(("hana",))
    >>> noon, night = 1_793_620_800_000, 1_793_656_800_000
    >>> [each.person for at in (noon, night) for each in on_call([day, rest], at, {"gus", "hana"})]
    ['gus', 'hana']
    """
    found = dict[str, OnCall]()
    for number, level in enumerate(levels, 1):
        person = level.holder(moment(now))
        if person is not None and person in there:
            found.setdefault(person, OnCall(person, number))
    return [*found.values()][:needed] if len(found) >= needed else []


def notified_first(settings: Mapping[str, Any], terms: Approval | None, now: int, there: Collection[str]) -> set[str]:
    """Return who of those that may decide is notified: the people on call, else everybody of them."""
    if terms is None or terms.role is None:
        return {*there}
    levels = schedules(settings.get(SETTING)).get(terms.role)
    duty = {each.person for each in on_call(levels or (), now, there, terms.quorum)}
    return duty | ({*terms.users} & {*there}) if duty else {*there}


def holes(level: Level, now: int, days: int = 7) -> Iterator[tuple[datetime, datetime]]:
    """Yield when a level has no one, by the hours and days of it, in the next days, to a quarter of an hour.

    >>> level = Level(("gus",), hours=("00:00", "12:00"))
    >>> [(str(start.time()), str(end.time())) for start, end in holes(level, 1_793_577_600_000, days=1)]
    [('12:00:00', '00:00:00')]
    """
    at = moment(now)
    at -= timedelta(minutes=at.minute % 15, seconds=at.second, microseconds=at.microsecond)
    ends, begun = at + timedelta(days=days), None
    while at <= ends:
        empty = at < ends and level.holder(at) is None
        if empty and begun is None:
            begun = at
        if not empty and begun is not None:
            yield begun, at
            begun = None
        at += _STEP
