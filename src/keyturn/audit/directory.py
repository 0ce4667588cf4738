"""Read the entries of a directory again, by rules of its own: who may have made each, and whether it could be made.

Only data types are shared with the code that decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..directory import events as ev

_ADMIN = "admin"


@dataclass
class _Known:
    """Holds what the entries so far say of people, roles and what they own."""

    roles: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    groups: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    members: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    here: set[str] = field(default_factory=set[str])
    owned: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    confirmed: dict[str, str] = field(default_factory=dict[str, str])
    at: int = 0

    def is_admin(self, person: str) -> bool:
        inherited = (self.groups.get(name, ()) for name in self.members.get(person, ()))
        return person in self.here and any(_ADMIN in roles for roles in [self.roles.get(person, set()), *inherited])


def faults_of(bodies: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the place and the fault of each entry that nobody can have made; none after one that cannot be read."""
    known = _Known()
    for place, body in enumerate(bodies):
        try:
            entry = ev.read_entry(body)
        except ValueError:
            yield place, "the line cannot be read"
            return
        if entry.at < known.at:
            yield place, "the entry is older than the one before it"
        known.at = entry.at
        for event in entry.events:
            what = _fault(known, entry, event) if place or not isinstance(event, ev.PersonAdded | ev.RoleGiven) else ""
            if what:
                yield place, f"{type(event).__name__} by {entry.by.id!r}: {what}"
            _learn(known, event)


def _fault(known: _Known, entry: ev.Entry, event: ev.AnyDirectoryEvent) -> str:
    """Return why this person could not have made this event; "" where they could."""
    by = entry.by.id
    match event:
        case ev.Restored():
            return ""
        case ev.LinkUsed():
            return "" if known.owned.get(("link", event.link)) == by else "the link is not theirs"
        case ev.KeyEnrolled():
            return "" if event.person == by and by in known.here else "a key is enrolled by its owner"
        case ev.KeyConfirmed():
            return _confirmation(known, by, event)
        case ev.TokenIssued() | ev.AddressSet():
            mine = event.person == by and by in known.here
        case ev.SettingChanged():
            mine = bool(event.person) and event.person == by and by in known.here
        case ev.TokenRevoked():
            mine = known.owned.get(("token", event.token)) == by
        case ev.KeyCounted():
            return "" if known.owned.get(("key", event.key)) == by else "the key is not theirs"
        case ev.KeyRevoked():
            mine = known.owned.get(("key", event.key)) == by
        case ev.Delegated():
            mine = event.giver == by and by in known.here
        case ev.DelegationEnded():
            mine = by in known.owned.get(("delegation", event.delegation), "").split("\n")
        case _:
            mine = False
    return "" if mine or known.is_admin(by) else "they were no administrator"


def _confirmation(known: _Known, by: str, event: ev.KeyConfirmed) -> str:
    if not known.is_admin(by):
        return "they were no administrator"
    if not known.confirmed:
        return ""
    if known.owned.get(("key", event.key)) == by:
        return "they confirmed their own key"
    signer = "" if event.proof is None else event.proof.key
    return "" if known.confirmed.get(signer) == by else "it is not signed with a confirmed key of theirs"


def _learn(known: _Known, event: ev.AnyDirectoryEvent) -> None:
    match event:
        case ev.PersonAdded() | ev.PersonReturned():
            known.here.add(event.person)
        case ev.PersonRemoved():
            known.here.discard(event.person)
            known.roles.pop(event.person, None)
            known.members.pop(event.person, None)
        case ev.RoleGiven():
            holders = known.roles if event.person else known.groups
            holders.setdefault(event.person or event.group, set()).add(event.role)
        case ev.RoleTaken():
            holders = known.roles if event.person else known.groups
            holders.setdefault(event.person or event.group, set()).discard(event.role)
        case ev.GroupJoined():
            known.members.setdefault(event.person, set()).add(event.group)
        case ev.GroupLeft():
            known.members.setdefault(event.person, set()).discard(event.group)
        case ev.TokenIssued():
            known.owned["token", event.token] = event.person
        case ev.LinkMade():
            known.owned["link", event.link] = event.person
        case ev.KeyEnrolled():
            known.owned["key", event.key] = event.person
        case ev.KeyConfirmed():
            known.confirmed[event.key] = known.owned.get(("key", event.key), "")
        case ev.Delegated():
            known.owned["delegation", event.delegation] = f"{event.giver}\n{event.receiver}"
        case _:
            pass
