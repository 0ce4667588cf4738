"""In which ways to run and to resume `make test` tries a test, and for which members of a room; the others are trials.

Plain is tried in hand and streamed saved, and a test in one of these two, in turn. A test of several subjects (stores,
parameters of its own) is tried for a third of them, each in one way, unless it is marked `each`, since what it tries is
another place of the source for each of them: `make test` has each value of a test, each of its ways, and, over the
tests, each way of a subject. What a suite promises of each of its members (kinds of tools, models, channels) is tried
for some of them, in turn, and what knows no store on one of them; a journal passes its suite whole. No test is here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pytest

RUNS = ("run", "streamed", "way", "play")
CARRIES = ("carry", "saved")

#: Of the subjects of a test one of so many is in `make test`, and one at least.
OF_SUBJECTS = 3

#: Which value of each of some parameters a test has, by the order in which they are given.
Places = tuple[int, ...]


def left_to_the_trials(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that `make test` tries in another way.

    What is chosen depends on nothing but the test, so that one which failed is tried again as it was.
    """
    tests: dict[str, _Test] = defaultdict(_Test)
    for item in items:
        tests[item.nodeid.partition("[")[0]].add(item)
    return [item for test in tests.values() for item in test.left()]


@dataclass
class _Test:
    """All that is tried of one test: its subjects, each in some ways."""

    values: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    subjects: dict[Places, dict[Places, list[pytest.Item]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    crossed: list[pytest.Item] = field(default_factory=list[pytest.Item])

    def add(self, item: pytest.Item) -> None:
        given: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
        places = {name: self.place(name, value) for name, value in given.items()}
        ways = {name: places.pop(name) for name, value in given.items() if _is_way(name, value)}
        if _is_crossed(ways):
            self.crossed.append(item)
        else:
            self.subjects[(*places.values(),)][(*ways.values(),)].append(item)

    def place(self, name: str, value: object) -> int:
        """Return the place of a value among those that its parameter has."""
        seen = self.values[name]
        if id(value) not in seen:
            seen.append(id(value))
        return seen.index(id(value))

    def left(self) -> list[pytest.Item]:
        """Return what `make test` does not try."""
        kept = self.kept()
        tried = [(subject, way, items) for subject, ways in self.subjects.items() for way, items in ways.items()]
        return self.crossed + [item for subject, way, items in tried if (subject, way) not in kept for item in items]

    def some_subjects(self, first: pytest.Item) -> dict[Places, dict[Places, list[pytest.Item]]]:
        """Choose some of the subjects, those whose values were chosen least, or all of them."""
        if first.get_closest_marker("each") is not None:
            return self.subjects
        turn = _number(first) // 8 % len(self.subjects)
        left = [*self.subjects][turn:] + [*self.subjects][:turn]
        taken: Counter[tuple[int, int]] = Counter()
        for _ in range(-(-len(left) // OF_SUBJECTS)):
            chosen = min(left, key=lambda subject: sum(taken[mark] for mark in enumerate(subject)))
            left.remove(chosen)
            taken.update(enumerate(chosen))
        return {subject: ways for subject, ways in self.subjects.items() if subject not in left}

    def kept(self) -> set[tuple[Places, Places]]:
        """Choose for each subject the way that was taken least, with its values and at all.

        Where there are several subjects, no way is left out.
        """
        first = next((items[0] for ways in self.subjects.values() for items in ways.values()), None)
        if first is None:
            return set()
        subjects = self.some_subjects(first)
        every = [(subject, way) for subject, ways in subjects.items() for way in ways]
        taken: Counter[tuple[Places, int, int]] = Counter()
        kept: set[tuple[Places, Places]] = set()
        for subject, ways in subjects.items():
            turn = _number(first) % len(ways)
            times = {way: sum(taken[way, *mark] for mark in _marks(subject)) for way in [*ways][turn:] + [*ways][:turn]}
            way = min(times, key=times.__getitem__)
            taken.update((way, *mark) for mark in _marks(subject))
            kept.add((subject, way))
        for subject, way in every if len(subjects) > 1 else ():
            if all(way != other for _subject, other in kept):
                kept.add((subject, way))
        return kept


def _marks(subject: Places) -> Iterable[tuple[int, int]]:
    yield -1, 0  # of all subjects
    yield from enumerate(subject)


def _is_way(name: str, value: object) -> bool:
    return name in RUNS + CARRIES and (name != "way" or value in ("plain", "streamed"))


def _is_crossed(ways: dict[str, int]) -> bool:
    """Whether a run is plain and its state saved, or streamed and in hand, where each is tried with each."""
    run, carry = ([ways[name] for name in names if name in ways] for names in (RUNS, CARRIES))
    return bool(run and carry) and (run[0] - carry[0]) % 2 == 1


#: The suites that members share: a promise is tried for one member of so many, in turn. Journals pass theirs whole.
OF_MEMBERS = {"tool": 5, "models": 3, "channels": 3, "sessions": 3, "engines": 3, "backends": 3}
#: By which the members of each suite fall into all its turns (tests/test_tiers.py).
TURN = 1846
SUITES = "keyturn.testing.suites."
#: The one promise that is tried for each kind of tool.
OF_EACH_KIND = "test_no_crash_loses_or_doubles_an_effect"


def is_of_another_kind(item: pytest.Item) -> bool:
    """Whether `make test` tries what this test promises of each member of a suite for other members."""
    kind, test = getattr(item, "cls", None), getattr(item, "originalname", "")
    if kind is None or test in vars(kind) or test == OF_EACH_KIND:
        return False
    names = [each.__module__.removeprefix(SUITES) for each in kind.__mro__ if test in vars(each)]
    share = OF_MEMBERS.get(names[0].partition("_")[0].replace("tools", "tool"), 1) if names else 1
    return (crc32(kind.__name__.encode(), TURN) + crc32(test.encode())) % share > 0


#: What is written against the seam of journals is tried in memory or on SQLite, in turn, and one test of eight on
#: PostgreSQL in their place. Of what is tried where stores are made each store has its share, beside the suite of the
#: seam, which each passes whole.
OF_STORES = ("tests/journal/", "tests/sessions/")
OF_TWO_STORES = ("tests/trials/", "tests/server/")


def on_other_stores(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that know no store and that `make test` tries on another one."""
    stores: dict[str, dict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {})
        test = item.nodeid.partition("[")[0]
        if "store_url" in given and not test.startswith(OF_TWO_STORES):
            stores[test][given["store_url"]].append(item)
    left: list[pytest.Item] = []
    for test, on in stores.items():
        turn = crc32(test.encode())
        rare = not test.startswith(OF_STORES) and turn % 8 > 0
        there = [store for store in on if store != "postgresql" or not rare] or [*on]
        kept = "postgresql" if turn % 8 == 0 and "postgresql" in there else there[turn // 8 % len(there)]
        left += [item for store, tried in on.items() if store != kept for item in tried]
    return left


def _number(item: Any) -> int:
    """Return a number of the test: classes of a file that share it have one after the other."""
    file, *_, name = item.nodeid.partition("[")[0].split("::")
    kind = getattr(item, "cls", None)
    kinds = [each for each in vars(item.module).values() if isinstance(each, type)]
    return crc32(file.encode()) + crc32(name.encode()) + (kinds.index(kind) if kind in kinds else 0)
