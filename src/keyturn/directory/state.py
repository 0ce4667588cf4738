"""Fold the entries of a directory to who is who, and answer who may decide as what.

Pure: the time is an argument. A directory at an earlier place is the fold of the entries up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..core.lookalikes import looks_as
from ..core.people import Decider, Proof, Strength, barred
from ..core.policy import Approval
from . import events as ev

ADMIN = "admin"
#: Who makes the entries that no person makes.
OURS = "keyturn"
#: What a token may be used for.
SCOPES = ("decide", "read", "people", "run")


@dataclass(frozen=True)
class Person:
    """Describes a person, or a machine that acts by itself."""

    id: str
    name: str
    kind: ev.Kind
    since: int
    here: bool = True
    roles: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    addresses: dict[str, str] = field(default_factory=dict[str, str])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Token:
    """Describes a token; the token itself is not kept."""

    id: str
    person: str
    digest: str
    scopes: tuple[str, ...]
    label: str
    issued_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    # By what a login was proven; "" for a token that is none.
    session: str = ""

    def good(self, now: int) -> bool:
        """Return whether the token still counts."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class Key:
    """Describes a person's own key: it counts from when it was confirmed until it was revoked."""

    id: str
    person: str
    scheme: str
    public: str
    label: str
    enrolled_at: int
    confirmed_at: int | None = None
    confirmed_by: str = ""
    confirmed_place: int = 0
    proof: Proof | None = None
    revoked_at: int | None = None
    revoked_place: int | None = None
    # The count of the last signature that was accepted, for keys that count.
    count: int | None = None

    @property
    def counts(self) -> bool:
        """Return whether the key is confirmed and was not revoked."""
        return self.confirmed_at is not None and self.revoked_at is None


@dataclass(frozen=True)
class Delegation:
    """Describes that one person may decide in another's place."""

    id: str
    giver: str
    receiver: str
    roles: tuple[str, ...]
    begins_at: int
    until: int
    why: str = ""
    ended_at: int | None = None

    def holds(self, now: int) -> bool:
        """Return whether it holds at this time."""
        return self.ended_at is None and now < self.until


@dataclass(frozen=True)
class Link:
    """Describes a link for a first entrance."""

    id: str
    person: str
    digest: str
    expires_at: int
    used: bool = False


@dataclass
class Directory:
    """Holds who is who in one tenant, as of `place` entries.

    >>> directory = fold([ev.Entry(5, Decider("ada"), [ev.PersonAdded("ada"), ev.RoleGiven("admin", person="ada")])])
    >>> directory.decider("ada", 9, "authenticated").roles
    ('admin',)
    """

    place: int = 0
    at: int = 0
    people: dict[str, Person] = field(default_factory=dict[str, Person])
    groups: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    tokens: dict[str, Token] = field(default_factory=dict[str, Token])
    keys: dict[str, Key] = field(default_factory=dict[str, Key])
    delegations: dict[str, Delegation] = field(default_factory=dict[str, Delegation])
    links: dict[str, Link] = field(default_factory=dict[str, Link])
    # Hashes of passwords, by person.
    passwords: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    # Whose id reads so, of everybody who ever had one.
    alike: dict[str, str] = field(default_factory=dict[str, str])

    def copy(self) -> Directory:
        """Return a directory that can be changed, and shares what it holds with this one."""
        return Directory(
            self.place,
            self.at,
            self.people.copy(),
            self.groups.copy(),
            self.tokens.copy(),
            self.keys.copy(),
            self.delegations.copy(),
            self.links.copy(),
            self.passwords.copy(),
            self.settings,
            self.alike.copy(),
        )

    def person(self, name: str) -> Person | None:
        """Return somebody who is here; None for who is unknown or left."""
        found = self.people.get(name)
        return found if found is not None and found.here else None

    def roles_of(self, name: str) -> frozenset[str]:
        """Return the roles that somebody has, their own and those of their groups."""
        found = self.person(name)
        if found is None:
            return frozenset()
        return found.roles.union(*(self.groups.get(group, ()) for group in found.groups))

    def admins(self) -> list[str]:
        """Return who may change the directory."""
        return [name for name in self.people if ADMIN in self.roles_of(name)]

    def lent_to(self, name: str, now: int) -> list[tuple[str, frozenset[str]]]:
        """Return in whose place somebody may decide, and with which of their roles."""
        found = [each for each in self.delegations.values() if each.receiver == name and each.holds(now)]
        return [
            (each.giver, self.roles_of(each.giver) & frozenset(each.roles) if each.roles else self.roles_of(each.giver))
            for each in found
            if self.person(each.giver) is not None
        ]

    def decider(
        self,
        name: str,
        now: int,
        strength: Strength = "claimed",
        terms: Approval | None = None,
        requester: str | None = None,
    ) -> Decider | None:
        """Return somebody as they decide under these terms: as themselves, else in the place of who let them.

        None for somebody who is not here. A machine decides nothing that takes a person.
        """
        found = self.person(name)
        if found is None:
            return None
        own = Decider(name, tuple(sorted(self.roles_of(name))), strength, place=self.place)
        if found.kind == "machine":
            return replace_strength(own)
        if terms is not None:  # whether it is signed is seen where it is said
            terms = msgspec.structs.replace(terms, signed=False, step_up=False)
        if terms is None or not barred(terms, own, requester):
            return own
        for giver, roles in self.lent_to(name, now):
            lent = Decider(name, tuple(sorted(roles)), strength, place=self.place, acting_for=giver)
            if not barred(terms, lent, requester):
                return lent
        return own

    def vouches(self, who: Decider, now: int) -> bool:
        """Return whether this directory, as of the place that a decision names, says of its decider what it says."""
        person = self.person(who.id)
        if person is None or person.kind == "machine":
            return False
        if not who.acting_for:
            return set(who.roles) <= self.roles_of(who.id)
        return any(giver == who.acting_for and set(who.roles) <= roles for giver, roles in self.lent_to(who.id, now))


def replace_strength(who: Decider) -> Decider:
    """Return a machine as a decider: its name proves nothing of a person."""
    return Decider(who.id, (), "claimed", place=who.place)


def fold(entries: Iterable[ev.Entry], directory: Directory | None = None) -> Directory:
    """Fold entries into a copy of a directory, or into an empty one; what is not changed is shared with it."""
    made = Directory() if directory is None else directory.copy()
    for entry in entries:
        for event in entry.events:
            _FOLD[type(event)](made, event, entry)
        made.place += 1
        made.at = entry.at
    return made


# Nobody changes what a directory holds: an earlier one shares it. An entry puts another one in its place.


def _person_added(d: Directory, e: ev.PersonAdded, entry: ev.Entry) -> None:
    d.people[e.person] = Person(e.person, e.name, e.kind, entry.at)
    d.alike[looks_as(e.person)] = e.person


def _person_removed(d: Directory, e: ev.PersonRemoved, entry: ev.Entry) -> None:
    _change(d.people, e.person, here=False, roles=frozenset(), groups=frozenset(), addresses={}, settings={})
    d.passwords.pop(e.person, None)
    for token in [token for token in d.tokens.values() if token.person == e.person and token.revoked_at is None]:
        _change(d.tokens, token.id, revoked_at=entry.at)
    for key in [key for key in d.keys.values() if key.person == e.person and key.revoked_at is None]:
        _change(d.keys, key.id, revoked_at=entry.at, revoked_place=d.place)
    for given in [each for each in d.delegations.values() if e.person in (each.giver, each.receiver)]:
        if given.ended_at is None:
            _change(d.delegations, given.id, ended_at=entry.at)
    for link in [link for link in d.links.values() if link.person == e.person]:
        _change(d.links, link.id, used=True)


def _change(table: dict[str, Any], name: str, **changes: Any) -> None:
    table[name] = replace(table[name], **changes)


def _person_returned(d: Directory, e: ev.PersonReturned, _entry: ev.Entry) -> None:
    _change(d.people, e.person, here=True)


def _role_given(d: Directory, e: ev.RoleGiven, _entry: ev.Entry) -> None:
    if e.person:
        _change(d.people, e.person, roles=d.people[e.person].roles | {e.role})
    else:
        d.groups[e.group] = d.groups.get(e.group, frozenset[str]()) | {e.role}


def _role_taken(d: Directory, e: ev.RoleTaken, _entry: ev.Entry) -> None:
    if e.person:
        _change(d.people, e.person, roles=d.people[e.person].roles - {e.role})
    else:
        d.groups[e.group] = d.groups.get(e.group, frozenset[str]()) - {e.role}


def _group_joined(d: Directory, e: ev.GroupJoined, _entry: ev.Entry) -> None:
    d.groups.setdefault(e.group, frozenset())
    _change(d.people, e.person, groups=d.people[e.person].groups | {e.group})


def _group_left(d: Directory, e: ev.GroupLeft, _entry: ev.Entry) -> None:
    _change(d.people, e.person, groups=d.people[e.person].groups - {e.group})


def _token_issued(d: Directory, e: ev.TokenIssued, entry: ev.Entry) -> None:
    over = [each.id for each in d.tokens.values() if each.session and each.person == e.person and _over(each, entry)]
    for name in over:  # a login that is out of time is of no use to anybody; the log remembers it
        del d.tokens[name]
    made = Token(e.token, e.person, e.digest, e.scopes, e.label, entry.at, e.expires_at, session=e.session)
    d.tokens[e.token] = made


def _over(token: Token, entry: ev.Entry) -> bool:
    return token.expires_at is not None and token.expires_at <= entry.at


def _token_revoked(d: Directory, e: ev.TokenRevoked, entry: ev.Entry) -> None:
    _change(d.tokens, e.token, revoked_at=entry.at)


def _key_enrolled(d: Directory, e: ev.KeyEnrolled, entry: ev.Entry) -> None:
    if e.key in d.keys:  # whose key it is was said once; nobody could make this entry
        raise ValueError("a key that is somebody's already")
    d.keys[e.key] = Key(e.key, e.person, e.scheme, e.public, e.label, entry.at)


def _key_confirmed(d: Directory, e: ev.KeyConfirmed, entry: ev.Entry) -> None:
    if d.keys[e.key].confirmed_at is not None:
        raise ValueError("a key that was confirmed already")
    said = {"confirmed_at": entry.at, "confirmed_by": entry.by.id, "confirmed_place": d.place, "proof": e.proof}
    _change(d.keys, e.key, **said)


def _key_revoked(d: Directory, e: ev.KeyRevoked, entry: ev.Entry) -> None:
    if d.keys[e.key].revoked_at is None:  # the first word counts: nothing makes it later
        _change(d.keys, e.key, revoked_at=entry.at, revoked_place=d.place)


def _key_counted(d: Directory, e: ev.KeyCounted, _entry: ev.Entry) -> None:
    _change(d.keys, e.key, count=max(e.count, d.keys[e.key].count or 0))


def _delegated(d: Directory, e: ev.Delegated, entry: ev.Entry) -> None:
    d.delegations[e.delegation] = Delegation(e.delegation, e.giver, e.receiver, e.roles, entry.at, e.until, e.why)


def _delegation_ended(d: Directory, e: ev.DelegationEnded, entry: ev.Entry) -> None:
    _change(d.delegations, e.delegation, ended_at=entry.at)


def _link_made(d: Directory, e: ev.LinkMade, _entry: ev.Entry) -> None:
    d.links[e.link] = Link(e.link, e.person, e.digest, e.expires_at)


def _link_used(d: Directory, e: ev.LinkUsed, _entry: ev.Entry) -> None:
    _change(d.links, e.link, used=True)


def _password_set(d: Directory, e: ev.PasswordSet, entry: ev.Entry) -> None:
    d.passwords.pop(e.person, None)
    if e.hash:
        d.passwords[e.person] = e.hash
    if e.keeps == ev.ALL_SESSIONS:
        return
    for token in [token for token in d.tokens.values() if token.person == e.person and token.session]:
        if token.id != e.keeps and token.revoked_at is None:
            _change(d.tokens, token.id, revoked_at=entry.at)


def _changed(table: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    others = {key: kept for key, kept in table.items() if key != name}
    return others if value is None else {**others, name: value}


def _address_set(d: Directory, e: ev.AddressSet, _entry: ev.Entry) -> None:
    _change(d.people, e.person, addresses=_changed(d.people[e.person].addresses, e.channel, e.address or None))


def _setting_changed(d: Directory, e: ev.SettingChanged, _entry: ev.Entry) -> None:
    if e.person:
        _change(d.people, e.person, settings=_changed(d.people[e.person].settings, e.name, e.value))
    else:
        d.settings = _changed(d.settings, e.name, e.value)


def _restored(d: Directory, _e: ev.Restored, entry: ev.Entry) -> None:
    for token in [token for token in d.tokens.values() if token.revoked_at is None]:
        _change(d.tokens, token.id, revoked_at=entry.at)
    for given in [given for given in d.delegations.values() if given.ended_at is None]:
        _change(d.delegations, given.id, ended_at=entry.at)
    for link in list(d.links):
        _change(d.links, link, used=True)
    d.passwords.clear()


_FOLD: dict[type[Any], Callable[[Directory, Any, ev.Entry], None]] = {
    ev.PersonAdded: _person_added,
    ev.PersonRemoved: _person_removed,
    ev.PersonReturned: _person_returned,
    ev.RoleGiven: _role_given,
    ev.RoleTaken: _role_taken,
    ev.GroupJoined: _group_joined,
    ev.GroupLeft: _group_left,
    ev.TokenIssued: _token_issued,
    ev.TokenRevoked: _token_revoked,
    ev.KeyEnrolled: _key_enrolled,
    ev.KeyConfirmed: _key_confirmed,
    ev.KeyRevoked: _key_revoked,
    ev.KeyCounted: _key_counted,
    ev.Delegated: _delegated,
    ev.DelegationEnded: _delegation_ended,
    ev.LinkMade: _link_made,
    ev.LinkUsed: _link_used,
    ev.PasswordSet: _password_set,
    ev.AddressSet: _address_set,
    ev.SettingChanged: _setting_changed,
    ev.Restored: _restored,
}
