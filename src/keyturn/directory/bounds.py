"""Bound what people add to a directory, which is never shortened and is held in memory: how much, and how often.

Pure, as `decide.py` is. Administrators are trusted with how often; how much one person has is bounded whoever adds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, NamedTuple

from ..core.digest import canonical
from ..core.errors import UserError
from . import events as ev

#: How many changes a person who is no administrator makes in an hour.
CHANGES_AN_HOUR = 120
#: How many signed decisions of one person are counted in an hour, of keys that count their signatures.
SIGNATURES_AN_HOUR = 600
HOUR_MS = 3_600_000
_ONE_CHANGE = 4_096  # characters

#: How many of each a person has at the same time.
MOST: dict[str, int] = {
    "settings": 50,
    "tokens": 100,
    "keys": 20,
    "delegations": 50,
    "addresses": 20,
    "links": 20,
}
#: How many characters of JSON one setting has, all settings of one person, and those of everybody.
ONE_SETTING = 65_536
OWN_SETTINGS = 131_072
ALL_SETTINGS = 1_048_576
MOST_FOR_ALL = 500
#: How long an address is: a browser's subscription is the longest.
LONGEST_ADDRESS = 1_000


class LimitReached(UserError):
    """Raised where a person would have more of something than is kept for one, or changes the directory too often.

    `after` is in how many seconds it can be tried again, where that helps.

    >>> LimitReached("50 settings are the most", 5).after
    5
    """

    def __init__(self, message: str, after: int = 0) -> None:
        super().__init__(message)
        self.after = after


class Pace(NamedTuple):
    """Counts the changes that somebody made in one hour, and in the hour before it."""

    hour: int = 0
    made: int = 0
    before: int = 0

    def later(self, now: int) -> Pace:
        """Return the same as it is counted at another time.

        >>> Pace(5, 8, 2).later(6 * HOUR_MS)
        Pace(hour=6, made=0, before=8)
        """
        hour = now // HOUR_MS
        if hour <= self.hour:
            return self
        return Pace(hour, 0, self.made if hour == self.hour + 1 else 0)

    def more(self, now: int, weight: int) -> Pace:
        """Return the same with one change more, which counts as several where it is large."""
        return (kept := self.later(now))._replace(made=kept.made + weight)

    def within(self, now: int) -> float:
        """Return how many changes were made in the last hour, as near as two numbers tell it."""
        kept = self.later(now)
        return kept.made + kept.before * (1 - (now % HOUR_MS) / HOUR_MS)


def weight_of(events: Iterable[ev.AnyDirectoryEvent]) -> int:
    """Return as how many changes an entry counts: each of its parts is kept for good.

    >>> weight_of([ev.SettingChanged("s", "x" * 60_000, "bob")])
    15
    """
    size = 0
    for event in events:
        if isinstance(event, ev.SettingChanged):
            size += len(canonical(event.value))
        elif isinstance(event, ev.KeyEnrolled):
            size += len(event.public) + (0 if event.proof is None else len(event.proof.data))
    return 1 + size // _ONE_CHANGE


def room_for(what: str, there: Sized) -> None:
    """Refuse one more of something than a person has room for.

    >>> room_for("keys", range(3))
    """
    if len(there) >= MOST[what]:
        raise LimitReached(f"a person has at most {MOST[what]} {what} at the same time: remove one first")


def check_pace(pace: Pace, now: int, most: int = CHANGES_AN_HOUR) -> None:
    """Refuse whoever changed the directory too often: each change is an entry that stays."""
    if pace.within(now) >= most:
        seconds = (HOUR_MS - now % HOUR_MS) // 1_000 + 1
        raise LimitReached(f"the directory is changed at most {most} times an hour by one person", seconds)


def check_settings(before: dict[str, Any], name: str, value: object, *, own: bool) -> None:
    """Refuse settings that are too many, or too much together; what makes them less is always good."""
    if value is None:
        return
    size = len(canonical(value))
    if size > ONE_SETTING:
        raise UserError(f"a setting is at most {ONE_SETTING} characters of JSON; every user reads it")
    most, whole = (MOST["settings"], OWN_SETTINGS) if own else (MOST_FOR_ALL, ALL_SETTINGS)
    if name not in before and len(before) >= most:
        raise LimitReached(f"{most} settings are the most: remove one first")
    sizes = {key: len(key) + len(canonical(kept)) for key, kept in before.items()}
    if sum(sizes.values()) - sizes.get(name, 0) + len(name) + size > whole:
        raise LimitReached(f"all settings together have at most {whole} characters: remove one first")
