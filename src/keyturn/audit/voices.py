"""Tell who is one person, by code of its own: ids that look alike, and who decides in somebody's place."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..core.lookalikes import TWINS
from ..core.people import Decider

_UNSEEN = ("Cf", "Cc", "Cs", "Co", "Cn")
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_DRAWN: dict[str, str] = {}
for _letter, _twins in TWINS.items():
    for _twin in _twins:
        _small = _twin.casefold()
        if _small == _twin or _small not in _DRAWN:
            _DRAWN[_small] = _letter.casefold()


def reads(name: str | None) -> str:
    """Return an id as people read it: without regard to case, width, script and what is unseen.

    >>> reads("Eve ") == reads("\u0435v\u200be")
    True
    """
    wide = unicodedata.normalize("NFKC", name or "")
    seen = "".join(map(_seen, wide)).casefold()
    return " ".join("".join(map(_letter_of, unicodedata.normalize("NFKC", seen))).split())


def _seen(char: str) -> str:
    if char.isspace() or char == "\u2800":
        return " "
    selects = "\ufe00" <= char <= "\ufe0f" or "\u180b" <= char <= "\u180f"
    hidden = selects or char in _BLANK or unicodedata.category(char) in _UNSEEN
    return "" if hidden else char


def _letter_of(char: str) -> str:
    if char.isdecimal():
        return str(unicodedata.decimal(char))
    _before, small, letter = unicodedata.name(char, "").partition("LETTER SMALL CAPITAL ")
    plain = letter.casefold() if small and len(letter) == 1 else char
    return _DRAWN.get(plain, plain)


def heard(people: Iterable[Decider | None]) -> int:
    """Count the voices of these people: no one speaks twice, and nobody is spoken for twice.

    >>> heard([Decider("ann"), Decider("Ann", acting_for="bob"), Decider("cyd")])
    2
    """
    for_whom = defaultdict[str, set[str]](set)
    for who in people:
        for_whom["" if who is None else reads(who.id)].add("" if who is None else reads(who.acting_for or who.id))
    spoken = dict[str, str]()
    return sum(_is_heard(speaker, for_whom, spoken) for speaker in for_whom)


def _is_heard(speaker: str, for_whom: Mapping[str, set[str]], spoken: dict[str, str]) -> bool:
    """Find whom one more speaks for, though others may speak for somebody else then."""
    came_from, waiting = {speaker: ("", "")}, [speaker]
    while waiting:
        at = waiting.pop()
        taken = {place: by for by, place in spoken.items()}
        free = sorted(for_whom[at] - taken.keys())
        if free:
            _shift(spoken, came_from, at, free[0])
            return True
        for place in [place for place in for_whom[at] if taken[place] not in came_from]:
            came_from[taken[place]] = (at, place)
            waiting.append(taken[place])
    return False


def one_voice(one: Decider | None, other: Decider | None) -> bool:
    """Return whether two people are one, or one speaks in the other's place.

    >>> one_voice(Decider("bob", acting_for="Eve"), Decider("eve"))
    True
    """
    if one is None or other is None:
        return False
    names = [{reads(name) for name in (who.id, who.acting_for) if name} for who in (one, other)]
    return not names[0].isdisjoint(names[1])


def _shift(spoken: dict[str, str], came_from: dict[str, tuple[str, str]], speaker: str, place: str) -> None:
    """Let a speaker speak for a place, and those before it for the place that is free by that."""
    spoken[speaker] = place
    before, freed = came_from[speaker]
    while freed:
        spoken[before] = freed
        before, freed = came_from[before]
