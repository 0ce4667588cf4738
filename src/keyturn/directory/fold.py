"""Fold the entries of a directory into its state: an entry that could be made is folded without a question.

A directory at an earlier place is the fold of the entries up to there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ..core.lookalikes import looks_as
from . import events as ev
from .bounds import Pace, weight_of
from .state import ADMIN, Delegation, Directory, Key, Link, Person, ProvisionedGroup, Subject, Token

# How long a name under which something was changed is remembered.
_NAMED_MS = 24 * 3_600_000


def fold(entries: Iterable[ev.Entry], directory: Directory | None = None) -> Directory:
    """Fold entries into a copy of a directory, or into an empty one; what is not changed is shared with it."""
    made = Directory() if directory is None else directory.copy()
    for entry in entries:
        admins = {name for event in entry.events if isinstance(event, _TAKES) for name in _admins_of(made, event)}
        for event in entry.events:
            _FOLD[type(event)](made, event, entry)
        if any(ADMIN not in made.roles_of(name) for name in admins):
            _end_what_they_issued(made, entry)
        if isinstance(entry.once, ev.Once):
            recent = {name: each for name, each in made.named.items() if each[1] > entry.at - _NAMED_MS}
            made.named = {**recent, entry.once.name: (entry.once.asked, entry.at)}
        made.place += 1
        made.at = entry.at
        made.paces[entry.by.id] = made.paces.get(entry.by.id, Pace()).more(entry.at, weight_of(entry.events))
    return made


# What may leave an administrator without that role.
_TAKES = (ev.PersonRemoved, ev.RoleTaken, ev.GroupLeft, ev.ClaimsMapped, ev.MembershipProvisioned)


def _admins_of(d: Directory, event: Any) -> list[str]:
    """Return the administrators whom an event is about: a person, or all of them where it is about a group's role."""
    named = [event.person] if event.person else d.people
    return [name for name in named if ADMIN in d.roles_of(name)]


def _end_what_they_issued(d: Directory, entry: ev.Entry) -> None:
    """End the tokens and links whose issuer is no administrator any more: they stay so where that one returns."""
    for token in [each for each in d.tokens.values() if each.revoked_at is None and not d.could_issue(each)]:
        _change(d.tokens, token.id, revoked_at=entry.at)
    for link in [each for each in d.links.values() if not each.used and ADMIN not in d.roles_of(each.made_by)]:
        _change(d.links, link.id, revoked=True)


# Nobody changes what a directory holds: an earlier one shares it. An entry puts another one in its place.


def _person_added(d: Directory, e: ev.PersonAdded, entry: ev.Entry) -> None:
    d.people[e.person] = Person(e.person, e.name, e.kind, entry.at)
    d.alike[looks_as(e.person)] = e.person


def _person_removed(d: Directory, e: ev.PersonRemoved, entry: ev.Entry) -> None:
    _change(d.people, e.person, here=False, roles=frozenset(), groups=frozenset(), addresses={}, settings={})
    _change(d.people, e.person, confirmed=frozenset(), unconfirmed={})
    _change(d.people, e.person, claimed_groups=frozenset(), claimed_roles=frozenset())
    d.passwords.pop(e.person, None)  # their account of a provider stays theirs, as their id does
    for token in [token for token in d.tokens.values() if token.person == e.person and token.revoked_at is None]:
        _change(d.tokens, token.id, revoked_at=entry.at)
    for key in [key for key in d.keys.values() if key.person == e.person and key.revoked_at is None]:
        _change(d.keys, key.id, revoked_at=entry.at, revoked_place=d.place)
    for given in [each for each in d.delegations.values() if e.person in (each.giver, each.receiver)]:
        if given.ended_at is None:
            _change(d.delegations, given.id, ended_at=entry.at)
    for link in [link for link in d.links.values() if link.person == e.person]:
        _change(d.links, link.id, used=True)


def _change(table: dict[str, Any], name: str, /, **changes: Any) -> None:
    table[name] = replace(table[name], **changes)


def _person_returned(d: Directory, e: ev.PersonReturned, _entry: ev.Entry) -> None:
    _change(d.people, e.person, here=True, returned=d.place + 1, listed=True)
    d.relink -= {e.person}


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
    about = (e.token, e.person, e.digest, e.scopes, e.label, entry.at, e.expires_at)
    made = Token(*about, session=e.session, issued_by=entry.by.id)
    d.tokens[e.token] = made


def _over(token: Token, entry: ev.Entry) -> bool:
    return token.expires_at is not None and token.expires_at <= entry.at


def _token_revoked(d: Directory, e: ev.TokenRevoked, entry: ev.Entry) -> None:
    _change(d.tokens, e.token, revoked_at=entry.at)


def _key_enrolled(d: Directory, e: ev.KeyEnrolled, entry: ev.Entry) -> None:
    if e.key in d.keys:  # whose key it is was said once; nobody could make this entry
        raise ValueError("a key that is enrolled already")
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
    d.received[e.receiver] = (*d.received.get(e.receiver, ()), e.delegation)


def _delegation_ended(d: Directory, e: ev.DelegationEnded, entry: ev.Entry) -> None:
    _change(d.delegations, e.delegation, ended_at=entry.at)


def _link_made(d: Directory, e: ev.LinkMade, entry: ev.Entry) -> None:
    d.links[e.link] = Link(e.link, e.person, e.digest, e.expires_at, made_by=entry.by.id)


def _link_used(d: Directory, e: ev.LinkUsed, _entry: ev.Entry) -> None:
    _change(d.links, e.link, used=True)
    d.relink -= {d.links[e.link].person}


def _password_set(d: Directory, e: ev.PasswordSet, entry: ev.Entry) -> None:
    d.passwords.pop(e.person, None)
    if e.hash:
        d.passwords[e.person] = e.hash
    if e.keeps == ev.ALL_SESSIONS:
        return
    for token in [token for token in d.tokens.values() if token.person == e.person and token.session]:
        if token.id != e.keeps and token.revoked_at is None:
            _change(d.tokens, token.id, revoked_at=entry.at)


def _changed(table: dict[str, Any], name: str, value: object) -> dict[str, Any]:
    others = {key: kept for key, kept in table.items() if key != name}
    return others if value is None else {**others, name: value}


def _address_set(d: Directory, e: ev.AddressSet, entry: ev.Entry) -> None:
    person = d.people[e.person]
    since = entry.at if e.address and e.confirmed is False else None
    _change(
        d.people,
        e.person,
        addresses=_changed(person.addresses, e.channel, e.address or None),
        confirmed=person.confirmed | {e.channel} if e.address and e.confirmed else person.confirmed - {e.channel},
        unconfirmed=_changed(person.unconfirmed, e.channel, since),
    )


def _address_confirmed(d: Directory, e: ev.AddressConfirmed, _entry: ev.Entry) -> None:
    person = d.people[e.person]
    known = frozenset(person.addresses) & {e.channel}
    unconfirmed = _changed(person.unconfirmed, e.channel, None)
    _change(d.people, e.person, confirmed=person.confirmed | known, unconfirmed=unconfirmed)


def _setting_changed(d: Directory, e: ev.SettingChanged, _entry: ev.Entry) -> None:
    if e.person:
        _change(d.people, e.person, settings=_changed(d.people[e.person].settings, e.name, e.value))
    else:
        d.settings = _changed(d.settings, e.name, e.value)


def _subject_bound(d: Directory, e: ev.SubjectBound, _entry: ev.Entry) -> None:
    d.subjects[e.person] = Subject(e.issuer, e.subject)


def _subject_forgotten(d: Directory, e: ev.SubjectForgotten, entry: ev.Entry) -> None:
    d.subjects.pop(e.person, None)
    for token in [token for token in d.tokens.values() if token.person == e.person and token.session == ev.BY_PROVIDER]:
        if token.revoked_at is None:
            _change(d.tokens, token.id, revoked_at=entry.at)


def _claims_mapped(d: Directory, e: ev.ClaimsMapped, _entry: ev.Entry) -> None:
    for group in e.groups:
        d.groups.setdefault(group, frozenset())
    _change(d.people, e.person, claimed_groups=frozenset(e.groups), claimed_roles=frozenset(e.roles))


def _user_provisioned(d: Directory, e: ev.UserProvisioned, _entry: ev.Entry) -> None:
    _change(d.people, e.person, name=e.name, external=e.external, listed=e.listed)


def _group_provisioned(d: Directory, e: ev.GroupProvisioned, _entry: ev.Entry) -> None:
    d.groups.setdefault(e.group, frozenset())
    d.provisioned[e.group] = ProvisionedGroup(e.external, e.listed)


def _membership_provisioned(d: Directory, e: ev.MembershipProvisioned, _entry: ev.Entry) -> None:
    d.groups.setdefault(e.group, frozenset())
    before = d.people[e.person].provisioned
    _change(d.people, e.person, provisioned=before | {e.group} if e.member else before - {e.group})


def _restored(d: Directory, e: ev.Restored, entry: ev.Entry) -> None:
    d.restored = e.nonce
    for token in [token for token in d.tokens.values() if token.revoked_at is None]:
        _change(d.tokens, token.id, revoked_at=entry.at)
    for given in [given for given in d.delegations.values() if given.ended_at is None]:
        _change(d.delegations, given.id, ended_at=entry.at)
    for link in list(d.links):
        _change(d.links, link, used=True)
    d.passwords.clear()
    for person in [person for person in d.people.values() if person.confirmed]:
        _change(d.people, person.id, confirmed=frozenset())
    d.relink = frozenset(name for name, person in d.people.items() if person.here)


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
    ev.AddressConfirmed: _address_confirmed,
    ev.SettingChanged: _setting_changed,
    ev.SubjectBound: _subject_bound,
    ev.SubjectForgotten: _subject_forgotten,
    ev.ClaimsMapped: _claims_mapped,
    ev.UserProvisioned: _user_provisioned,
    ev.GroupProvisioned: _group_provisioned,
    ev.MembershipProvisioned: _membership_provisioned,
    ev.Restored: _restored,
}
