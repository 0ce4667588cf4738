"""Read the entries of a directory again, by rules of its own: who may have made each, and whether it could be made.

Only data types are shared with the code that decides.
"""

from __future__ import annotations

import unicodedata
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
    kinds: dict[str, str] = field(default_factory=dict[str, str])
    read: set[str] = field(default_factory=set[str])
    owned: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    confirmed: dict[str, str] = field(default_factory=dict[str, str])
    revoked: set[str] = field(default_factory=set[str])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    # Groups and roles by what an identity provider says; who provisions, by their tokens.
    claimed: dict[str, ev.ClaimsMapped] = field(default_factory=dict[str, ev.ClaimsMapped])
    provisioned: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    provisioners: dict[str, str] = field(default_factory=dict[str, str])
    # Who adds instances, by their tokens; and which accounts are instances.
    instancers: dict[str, str] = field(default_factory=dict[str, str])
    instances: set[str] = field(default_factory=set[str])
    at: int = 0

    def all_roles(self, person: str) -> set[str]:
        if person not in self.here:
            return set()
        claims = self.claimed.get(person, ev.ClaimsMapped(person))
        joined = {*self.members.get(person, ()), *self.provisioned.get(person, ()), *claims.groups}
        inherited = (self.groups.get(name, set[str]()) for name in joined)
        return set[str]().union(self.roles.get(person, set[str]()), claims.roles, *inherited)

    def is_admin(self, person: str) -> bool:
        return _ADMIN in self.all_roles(person)


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
            what = _impossible(known, event)
            if not what:
                first = not place and isinstance(event, ev.PersonAdded | ev.RoleGiven)
                what = "" if first else _fault(known, entry, event)
            if what:
                yield place, f"{type(event).__name__} by {entry.by.id!r}: {what}"
            _learn(known, event)
        if not any(map(known.is_admin, known.here)):
            yield place, "no administrator is left"


def _fault(known: _Known, entry: ev.Entry, event: ev.AnyDirectoryEvent) -> str:
    """Return why this person could not have made this event; "" where they could."""
    by = entry.by.id
    match event:
        case ev.Restored():
            return "" if by == "keyturn" and by not in known.kinds else "no person says that a store was restored"
        case ev.LinkUsed():
            return "" if known.owned.get(("link", event.link)) == by else "the link is not theirs"
        case ev.KeyEnrolled():
            owner = event.person == by and known.kinds[by] == "person"
            return "" if owner else "a key is enrolled by the person whose it is"
        case ev.KeyConfirmed():
            return _confirmation(known, by, event)
        case ev.TokenIssued() | ev.AddressSet() | ev.AddressConfirmed():
            mine = event.person == by and by in known.here
        case ev.SettingChanged():
            mine = bool(event.person) and event.person == by and by in known.here
        case ev.TokenRevoked():
            mine = known.owned.get(("token", event.token)) == by
        case ev.KeyCounted():
            return "" if known.owned.get(("key", event.key)) == by else "the key is not theirs"
        case ev.ClaimsMapped():
            mine = event.person == by and by in known.here and known.kinds[by] == "person"
            return "" if mine else "claims are mapped as their person signs in"
        case ev.SubjectBound():
            mine = event.person == by and by in known.here and known.kinds[by] == "person"
            return "" if mine else "a person is bound to an account as they sign in"
        case ev.PasswordSet() if event.hash:
            mine = event.person == by and by in known.here and known.kinds[by] == "person"
            return "" if mine else "a password is chosen by its person"
        case ev.PasswordSet():
            mine = event.person == by and by in known.here
        case ev.KeyRevoked():
            mine = known.owned.get(("key", event.key)) == by
        case ev.Delegated():
            mine = event.giver == by and by in known.here
        case ev.DelegationEnded():
            mine = by in known.owned.get(("delegation", event.delegation), "").split("\n")
        case _:
            mine = by in known.here and by in known.provisioners.values() and _provisions(known, event)
    allowed = mine or known.is_admin(by) or _of_own_instance(known, entry, event)
    return "" if allowed else "they were no administrator"


def _of_own_instance(known: _Known, entry: ev.Entry, event: ev.AnyDirectoryEvent) -> bool:
    """Return whether a provisioner may make this: of service accounts that it added, which ask alone."""
    by, person = entry.by.id, getattr(event, "person", "")
    if by not in known.instancers.values() or by not in known.here or person.rpartition(".")[0] != by:
        return False
    added = any(isinstance(each, ev.PersonAdded) and each.person == person for each in entry.events)
    if not (added or person in known.instances):
        return False
    match event:
        case ev.PersonAdded():
            return event.kind == "machine"
        case ev.SettingChanged():
            return event.name == "instance" and event.value is not None
        case ev.TokenIssued():
            return event.scopes == ("ask",)
        case _:
            return isinstance(event, ev.PersonRemoved)


def _provisions(known: _Known, event: ev.AnyDirectoryEvent) -> bool:
    """Return whether a provisioning client may make this: users and groups, no roles, and nobody an administrator."""
    match event:
        case ev.UserProvisioned() | ev.GroupProvisioned():
            return True
        case ev.PersonAdded():
            return event.kind == "person"
        case ev.PersonRemoved():
            return known.kinds[event.person] == "person"
        case ev.PersonReturned():
            groups = known.provisioned.get(event.person, set())
            made_admin = any(_ADMIN in known.groups.get(each, ()) for each in groups)
            return known.kinds[event.person] == "person" and not made_admin
        case ev.MembershipProvisioned():
            return not event.member or _ADMIN not in known.groups.get(event.group, ())
        case _:
            return False


def _confirmation(known: _Known, by: str, event: ev.KeyConfirmed) -> str:
    if not known.is_admin(by):
        return "they were no administrator"
    if not known.confirmed:
        return ""
    if known.owned.get(("key", event.key)) == by:
        return "they confirmed their own key"
    signer = "" if event.proof is None else event.proof.key
    counts = known.confirmed.get(signer) == by and signer not in known.revoked
    return "" if counts else "it is not signed with a confirmed key of theirs"


def _impossible(known: _Known, event: ev.AnyDirectoryEvent) -> str:
    """Return why nobody at all could have made this event; "" where somebody could."""
    about = {getattr(event, name, "") for name in ("person", "giver", "receiver")} - {""}
    if isinstance(event, ev.SubjectForgotten | ev.UserProvisioned | ev.MembershipProvisioned):  # also of who left
        return "" if event.person in known.kinds else "it is about a user who was never there"
    if not isinstance(event, ev.PersonAdded | ev.PersonReturned) and about - known.here:
        return "it is about a user who is not there"
    match event:
        case ev.PersonAdded():
            taken = _read(event.person) in known.read
            return "an id is given once, and none that reads like it" if taken else ""
        case ev.PersonReturned():
            return "" if event.person in known.kinds and event.person not in known.here else "they had not left"
        case ev.RoleGiven() | ev.RoleTaken():
            return "" if bool(event.person) != bool(event.group) else "a role is of a person or of a group"
        case ev.TokenIssued():
            return _token(known, event)
        case ev.LinkMade():
            return "" if ("link", event.link) not in known.owned else "an id is given once"
        case ev.KeyEnrolled():
            return "" if ("key", event.key) not in known.owned else "a key is enrolled once"
        case ev.Delegated():
            return _delegation(known, event)
        case _:
            return _of_another(known, event)


def _of_another(known: _Known, event: ev.AnyDirectoryEvent) -> str:
    """Return why an event could not be made of a token, key, link or delegation; "" where it could, or is of none."""
    kind = _OF.get(type(event))
    name = "" if kind is None else str(getattr(event, kind))
    if kind is not None and (kind, name) not in known.owned:
        return f"there is no such {kind}"
    if isinstance(event, ev.KeyConfirmed) and (name in known.confirmed or name in known.revoked):
        return "a key is confirmed once, and never after it was revoked"
    if isinstance(event, ev.KeyCounted) and event.count <= known.counts.get(name, 0):
        return "a key counts forward"
    return ""


def _token(known: _Known, event: ev.TokenIssued) -> str:
    if ("token", event.token) in known.owned:
        return "an id is given once"
    if event.session and (known.kinds[event.person] == "machine" or event.expires_at is None):
        return "a login is a person's, and ends"
    alone = {"scim", "provision"} & {*event.scopes}
    if alone and (known.kinds[event.person] == "person" or len(event.scopes) > 1):
        return "a token to provision with is a machine's, and good for nothing else"
    if "decide" in event.scopes and (known.kinds[event.person] == "machine" or "run" in event.scopes):
        return "neither a machine decides, nor a token that starts runs"
    return ""


def _delegation(known: _Known, event: ev.Delegated) -> str:
    if ("delegation", event.delegation) in known.owned:
        return "an id is given once"
    if event.giver == event.receiver or "machine" in (known.kinds[event.giver], known.kinds[event.receiver]):
        return "one person delegates to another"
    return "" if set(event.roles) <= known.all_roles(event.giver) else "a role is lent by a user who does not have it"


def _read(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


_OF: dict[type[ev.DirectoryEvent], str] = {
    ev.TokenRevoked: "token",
    ev.LinkUsed: "link",
    ev.KeyConfirmed: "key",
    ev.KeyRevoked: "key",
    ev.KeyCounted: "key",
    ev.DelegationEnded: "delegation",
}


def _learn(known: _Known, event: ev.AnyDirectoryEvent) -> None:
    match event:
        case ev.PersonAdded():
            known.here.add(event.person)
            known.kinds[event.person] = event.kind
            known.read.add(_read(event.person))
        case ev.PersonReturned():
            known.here.add(event.person)
        case ev.PersonRemoved():
            known.here.discard(event.person)
            known.claimed.pop(event.person, None)
            known.provisioners = {name: who for name, who in known.provisioners.items() if who != event.person}
            known.instancers = {name: who for name, who in known.instancers.items() if who != event.person}
            known.instances.discard(event.person)
            known.roles.pop(event.person, None)
            known.members.pop(event.person, None)
            known.revoked |= {
                key for (kind, key), owner in known.owned.items() if (kind, owner) == ("key", event.person)
            }
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
            if "scim" in event.scopes:
                known.provisioners[event.token] = event.person
            if "provision" in event.scopes:
                known.instancers[event.token] = event.person
        case ev.TokenRevoked():
            known.provisioners.pop(event.token, None)
            known.instancers.pop(event.token, None)
        case ev.LinkMade():
            known.owned["link", event.link] = event.person
        case ev.KeyEnrolled():
            known.owned["key", event.key] = event.person
        case ev.KeyConfirmed():
            known.confirmed[event.key] = known.owned.get(("key", event.key), "")
        case ev.KeyRevoked():
            known.revoked.add(event.key)
        case ev.KeyCounted():
            known.counts[event.key] = event.count
        case ev.Delegated():
            known.owned["delegation", event.delegation] = f"{event.giver}\n{event.receiver}"
        case _:
            _learn_elsewhere(known, event)


def _learn_elsewhere(known: _Known, event: ev.AnyDirectoryEvent) -> None:
    """Learn what an identity provider says, and that a restore ends its tokens."""
    match event:
        case ev.SettingChanged() if event.person and event.name == "instance":
            known.instances.add(event.person)
        case ev.ClaimsMapped():
            known.claimed[event.person] = event
        case ev.MembershipProvisioned():
            groups = known.provisioned.setdefault(event.person, set())
            groups.add(event.group) if event.member else groups.discard(event.group)
        case ev.Restored():
            known.provisioners.clear()
            known.instancers.clear()
        case _:
            pass
