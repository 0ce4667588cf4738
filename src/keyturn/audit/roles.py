"""Compare what a decision says of its decider with the directory as it was at the place that the decision names.

The entries are folded by code of its own: only data types are shared with the code that decides. Where somebody is
recorded without a place, a program vouched for them, and there is nothing to compare.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import msgspec

from ..core import events as run_events
from ..core.people import Decider
from ..directory import events as ev

_Value = TypeVar("_Value")
# A delegation is looked at when somebody is admitted, and what they say is recorded a moment later.
_ON_ITS_WAY = 60_000


class _Past(Generic[_Value]):
    """Holds a value, and what it was before each place where it changed."""

    __slots__ = ("_first", "_places", "_values")

    def __init__(self, first: _Value) -> None:
        self._first = first
        self._places: list[int] = []
        self._values: list[_Value] = []

    @property
    def now(self) -> _Value:
        return self._values[-1] if self._values else self._first

    def set(self, place: int, value: _Value) -> None:
        self._places.append(place)
        self._values.append(value)

    def before(self, place: int) -> _Value:
        """Return what it was after so many entries."""
        found = bisect_left(self._places, place)
        return self._values[found - 1] if found else self._first

    def from_to(self, first: int, last: int) -> list[_Value]:
        """Return what it was after so many entries, and all that it became before so many others."""
        return [self.before(first), *self._values[bisect_left(self._places, first) : bisect_left(self._places, last)]]


def _no_names() -> _Past[frozenset[str]]:
    return _Past(frozenset[str]())


@dataclass
class _Who:
    """Holds the past of one person; what the claims of a provider give, and its provisioned groups, by themselves."""

    machine: bool
    here: _Past[bool] = field(default_factory=lambda: _Past(False))
    roles: _Past[frozenset[str]] = field(default_factory=_no_names)
    groups: _Past[frozenset[str]] = field(default_factory=_no_names)
    claimed_roles: _Past[frozenset[str]] = field(default_factory=_no_names)
    claimed_groups: _Past[frozenset[str]] = field(default_factory=_no_names)
    provisioned: _Past[frozenset[str]] = field(default_factory=_no_names)

    def groups_before(self, place: int) -> frozenset[str]:
        """Return all groups that they were in after so many entries, whoever put them there."""
        kept = (self.groups, self.claimed_groups, self.provisioned)
        return frozenset[str]().union(*(each.before(place) for each in kept))


@dataclass
class _Lent:
    """Describes that one person may decide in another's place: from one entry to another, and until a time."""

    giver: str
    receiver: str
    roles: frozenset[str]
    until: int
    begins: int
    ends: int | None = None

    def lets(self, who: Decider, place: int, at: int) -> bool:
        """Return whether somebody could decide by it after so many entries, at a time."""
        own = (self.giver, self.receiver) == (who.acting_for, who.id) and self.begins < place
        return own and (self.ends is None or self.ends >= place) and at < self.until + _ON_ITS_WAY


class Roles:
    """Answers who held what, at any place of a directory.

    >>> entry = ev.Entry(5, Decider("ada"), [ev.PersonAdded("ada"), ev.RoleGiven("admin", person="ada")])
    >>> roles = Roles([ev.written(entry)])
    >>> roles.fault(Decider("ada", ("admin",), "authenticated", place=1), 9)
    ''
    >>> roles.fault(Decider("ada", ("finance",), "authenticated", place=1), 9)
    "the directory says of 'ada' at place 1 nothing of the role 'finance'"
    """

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self._people: dict[str, _Who] = {}
        self._groups: dict[str, _Past[frozenset[str]]] = {}
        self._lent: dict[str, _Lent] = {}
        self.count = 0
        for body in bodies:
            try:
                entry = ev.read_entry(body)
            except ValueError:
                break  # it is reported where the directory is checked
            for event in entry.events:
                self._learn(event, self.count)
            self.count += 1

    def fault(self, who: Decider, at: int) -> str:
        """Return what a decider says of themselves that the directory does not, where they name a place; "" if none."""
        place = who.place
        if place is None:
            return ""
        if place > self.count:
            return f"{who.id!r} was judged by {place} entries of the directory, and {self.count} are there"
        person = self._people.get(who.id)
        if person is None or not person.here.before(place):
            return f"the directory says at place {place} that there is no {who.id!r}"
        if person.machine:
            return f"{who.id!r} is a service account, which cannot decide" if who.strength != "claimed" else ""
        if who.acting_for:
            return self._acting(who, place, at)
        return _missing(who, place, self._roles(who.id, place))

    def later(self, who: Decider, place: int, at: int) -> Decider | None:
        """Return somebody who voted by an earlier place as they could decide at a later one; None where that is open.

        Who had left has no roles, and a name that nobody verified.
        """
        if who.place is None or place > self.count:
            return None
        people = [self._people.get(name) for name in (who.id, who.acting_for) if name]
        gone = any(person is None or not all(person.here.from_to(who.place, place)) for person in people)
        roles = frozenset[str]() if gone else self._roles(who.id, place)
        if who.acting_for and not gone:
            lent = [each for each in self._lent.values() if each.lets(who, place, at)]
            held = self._roles(who.acting_for, place)
            gone = not lent
            roles = frozenset[str]().union(*(held & each.roles if each.roles else held for each in lent))
        strength = "claimed" if gone else who.strength
        return msgspec.structs.replace(who, roles=tuple(sorted(roles)), strength=strength)

    def _acting(self, who: Decider, place: int, at: int) -> str:
        """Return why nobody lent somebody what they decide with."""
        whys = list[str]()
        for lent in self._lent.values():
            if (lent.giver, lent.receiver) != (who.acting_for, who.id) or lent.begins >= place:
                continue
            if lent.ends is not None and lent.ends < place:
                whys.append("that delegation had been ended")
            elif at >= lent.until + _ON_ITS_WAY:
                whys.append("the time of that delegation was over")
            else:
                held = self._roles(lent.giver, place)
                if lent.roles and not who.roles_only:
                    whys.append("that delegation is of some roles, and the decision says that it is of all")
                    continue
                whys.append(_missing(who, place, held & lent.roles if lent.roles else held))
        if "" in whys:
            return ""
        why = whys[-1] if whys else "that role is not delegated to them"
        return f"{who.id!r} decided for {who.acting_for!r} at place {place} of the directory: {why}"

    def _roles(self, name: str, place: int) -> frozenset[str]:
        person = self._people.get(name)
        if person is None or not person.here.before(place):
            return frozenset()
        inherited = (
            self._groups[group].before(place) for group in person.groups_before(place) if group in self._groups
        )
        return person.roles.before(place).union(person.claimed_roles.before(place), *inherited)

    def _learn(self, event: ev.AnyDirectoryEvent, place: int) -> None:
        match event:
            case ev.PersonAdded():
                made = self._people.setdefault(event.person, _Who(event.kind == "machine"))
                made.here.set(place, True)
            case ev.PersonReturned():
                self._of(event.person).here.set(place, True)
            case ev.PersonRemoved():
                self._removed(event.person, place)
            case ev.RoleGiven():
                held = self._held(event.person, event.group)
                held.set(place, held.now | {event.role})
            case ev.RoleTaken():
                held = self._held(event.person, event.group)
                held.set(place, held.now - {event.role})
            case ev.GroupJoined():
                groups = self._of(event.person).groups
                groups.set(place, groups.now | {event.group})
            case ev.GroupLeft():
                groups = self._of(event.person).groups
                groups.set(place, groups.now - {event.group})
            case ev.Delegated():
                roles = frozenset(event.roles)
                self._lent[event.delegation] = _Lent(event.giver, event.receiver, roles, event.until, place)
            case ev.DelegationEnded():
                self._end([event.delegation], place)
            case ev.Restored():
                self._end(list(self._lent), place)
            case _:
                self._learn_elsewhere(event, place)

    def _learn_elsewhere(self, event: ev.AnyDirectoryEvent, place: int) -> None:
        """Learn what an identity provider says of a person."""
        match event:
            case ev.ClaimsMapped():
                self._of(event.person).claimed_roles.set(place, frozenset(event.roles))
                self._of(event.person).claimed_groups.set(place, frozenset(event.groups))
            case ev.MembershipProvisioned():
                groups = self._of(event.person).provisioned
                groups.set(place, groups.now | {event.group} if event.member else groups.now - {event.group})
            case _:
                pass

    def _of(self, name: str) -> _Who:
        return self._people.setdefault(name, _Who(machine=False))

    def _held(self, person: str, group: str) -> _Past[frozenset[str]]:
        return self._of(person).roles if person else self._groups.setdefault(group, _no_names())

    def _removed(self, name: str, place: int) -> None:
        person = self._of(name)
        person.here.set(place, False)
        for past in (person.roles, person.groups, person.claimed_roles, person.claimed_groups):
            past.set(place, frozenset())
        self._end([key for key, lent in self._lent.items() if name in (lent.giver, lent.receiver)], place)

    def _end(self, names: list[str], place: int) -> None:
        for name in names:
            lent = self._lent.get(name)
            if lent is not None and lent.ends is None:
                self._lent[name] = replace(lent, ends=place)


def _missing(who: Decider, place: int, held: frozenset[str]) -> str:
    role = next((role for role in who.roles if role not in held), None)
    return "" if role is None else f"the directory says of {who.id!r} at place {place} nothing of the role {role!r}"


def deciders_in(event: run_events.AnyEvent, at: int) -> Iterator[tuple[Decider, int]]:
    """Yield everybody who says something in an event, and when they said it."""
    told: Any = event
    decision: run_events.Decision | None = getattr(told, "decision", None)
    if decision is not None:
        if decision.decider is not None:
            yield decision.decider, decision.at or at
        return
    grant: run_events.GrantTerms | None = told.grant if isinstance(event, run_events.GrantGiven) else None
    who: Decider | None = getattr(told, "decider", None) if grant is None else grant.decider
    if who is not None:
        yield who, at
