"""Hold who is who, as the entries of a directory say it, and answer who may decide as what.

Pure: the time is an argument. How entries are folded is in `fold.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from ..core.approval import Approval
from ..core.errors import Conflict
from ..core.people import Decider, Proof, Strength, barred
from . import events as ev
from .bounds import Pace

ADMIN = "admin"
#: Who makes the entries that no person makes.
OURS = "keyturn"
#: The keys of this scheme sign their users in.
PASSKEY = "passkey"
#: What a token may be used for.
SCOPES = ("decide", "read", "people", "run", "ask", "scim", "provision")
#: What no token is for of an account of each kind.
NOT_FOR: dict[str, tuple[str, ...]] = {"machine": ("decide",), "person": ("scim", "provision")}
#: What a token is for that keeps users and groups for an identity provider, by SCIM.
SCIM = "scim"
#: What a token is for that adds and removes instances of its own: service accounts that request approvals.
PROVISION = "provision"


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
    # On which channels the address is confirmed as theirs, and on which it waits for its code, and since when.
    confirmed: frozenset[str] = frozenset()
    unconfirmed: dict[str, int] = field(default_factory=dict[str, int])
    # How many entries there were when they came back after they had left; 0 for who never left.
    returned: int = 0
    # The groups and roles that the claims of an identity provider gave at the last sign-in.
    claimed_groups: frozenset[str] = frozenset()
    claimed_roles: frozenset[str] = frozenset()
    # The groups of a provisioning client, its own id of them, and whether it lists them still.
    provisioned: frozenset[str] = frozenset()
    external: str = ""
    listed: bool = True

    @property
    def all_groups(self) -> frozenset[str]:
        """Return the groups that they are in, whoever put them there."""
        return self.groups | self.claimed_groups | self.provisioned

    @property
    def told_at(self) -> dict[str, str]:
        """Return the addresses at which they are told; one that waits for its code is used for nothing."""
        return {channel: address for channel, address in self.addresses.items() if channel not in self.unconfirmed}


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
    issued_by: str = ""

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


class Subject(NamedTuple):
    """Names an account of a provider, which is never given to another person there."""

    issuer: str
    subject: str


class ProvisionedGroup(NamedTuple):
    """Holds what a provisioning client says of a group: its own id of it, and whether it lists it."""

    external: str = ""
    listed: bool = True


class Lent(NamedTuple):
    """Holds what a delegation lends now: the roles, and the giver's name unless it is of some roles only."""

    giver: str
    roles: frozenset[str]
    roles_only: bool


@dataclass(frozen=True)
class Link:
    """Describes a link for a first entrance."""

    id: str
    person: str
    digest: str
    expires_at: int
    used: bool = False
    made_by: str = ""
    revoked: bool = False


@dataclass
class Directory:
    """Holds who is who in one tenant, as of `place` entries.

    >>> from keyturn.directory.fold import fold
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
    # By which account of a provider people were first signed in, by person.
    subjects: dict[str, Subject] = field(default_factory=dict[str, Subject])
    # The groups that a provisioning client keeps, or kept.
    provisioned: dict[str, ProvisionedGroup] = field(default_factory=dict[str, ProvisionedGroup])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    # Whose id reads so, of everybody who ever had one.
    alike: dict[str, str] = field(default_factory=dict[str, str])
    # The ids of what was ever delegated to somebody, by receiver.
    received: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]], repr=False)
    # Who signs in by a link first: the store was restored from a copy, and their passkeys may have been revoked since.
    relink: frozenset[str] = frozenset()
    # How often people changed the directory lately.
    paces: dict[str, Pace] = field(default_factory=dict[str, Pace], repr=False)
    # What was asked lately under the names by which changes are made once, and when.
    named: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]], repr=False)
    # The id of the last restore that it was told of.
    restored: str = ""

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
            self.subjects.copy(),
            self.provisioned.copy(),
            self.settings,
            self.alike.copy(),
            self.received.copy(),
            self.relink,
            self.paces.copy(),
            self.named,
            self.restored,
        )

    def made_before(self, once: ev.Once) -> bool:
        """Return whether a change was made under its name before; another one under that name is refused."""
        asked, _at = self.named.get(once.name, ("", 0))
        if asked and asked != once.asked:
            raise Conflict("something else was done under this name; choose another name for this")
        return bool(asked)

    def person(self, name: str) -> Person | None:
        """Return somebody who is here; None for who is unknown or left."""
        found = self.people.get(name)
        return found if found is not None and found.here else None

    def roles_of(self, name: str) -> frozenset[str]:
        """Return the roles that somebody has, their own and those of their groups."""
        found = self.person(name)
        if found is None:
            return frozenset()
        return found.roles.union(found.claimed_roles, *(self.groups.get(group, ()) for group in found.all_groups))

    def accepts(self, token: Token, now: int) -> bool:
        """Return whether a token is good, and its holder here."""
        return token.good(now) and self.person(token.person) is not None and self.could_issue(token)

    def could_issue(self, token: Token) -> bool:
        """Return whether its issuer could issue a token now.

        Whoever issues a token has seen its secret. So a token that an administrator issued to another person is good as
        long as they are one. The tokens of machines are all issued by others, and stay.
        """
        own = token.issued_by in ("", token.person) or self.people[token.person].kind == "machine"
        return own or ADMIN in self.roles_of(token.issued_by)

    def holder(self, channel: str, address: str) -> str | None:
        """Return whose address on a channel this is, as far as it was confirmed, however it is spelt."""
        wanted = address.casefold()
        for person in self.people.values():
            if person.here and channel in person.confirmed and person.addresses[channel].casefold() == wanted:
                return person.id
        return None

    def can_sign_in(self, name: str) -> bool:
        """Return whether somebody has set up a password or a passkey, with which they sign in without a link."""
        keys = self.keys.values()
        return name in self.passwords or any(
            key.person == name and key.scheme == PASSKEY and key.revoked_at is None for key in keys
        )

    def admins(self) -> list[str]:
        """Return the people who may change the directory; a machine signs nobody in, and has no keys."""
        named = [name for name, person in self.people.items() if person.kind == "person"]
        return [name for name in named if ADMIN in self.roles_of(name)]

    def lent_to(self, name: str, now: int) -> list[Lent]:
        """Return in whose place somebody may decide, and with which of their roles."""
        found = [each for each in map(self.delegations.__getitem__, self.received.get(name, ())) if each.holds(now)]
        return [
            Lent(each.giver, held & frozenset(each.roles) if each.roles else held, bool(each.roles))
            for each, held in ((each, self.roles_of(each.giver)) for each in found)
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
            terms = terms.unsigned
        if terms is None or not barred(terms, own, requester):
            return own
        for each in self.lent_to(name, now):
            lent = own_in_place(own, each)
            if not barred(terms, lent, requester):
                return lent
        return own

    def lapsed(self, who: Decider, now: int, terms: Sequence[Approval], requester: str | None) -> str:
        """Return why somebody who gave a grant could not give it now for a call on these terms; "" where they could."""
        for name in filter(None, (who.id, who.acting_for)):
            person = self.person(name)
            if person is None or (who.place or 0) < person.returned:
                place = f" in the place of {name}, who" if who.acting_for == name else ", and"
                return f"{who.id} gave the grant{place} has left the directory since"
        roles = self.roles_of(who.id)
        if who.acting_for:
            lent = [each for each in self.lent_to(who.id, now) if each.giver == who.acting_for]
            if not lent:
                return f"{who.id} gave the grant in the place of {who.acting_for}, and decides for them no more"
            roles = frozenset[str]().union(*(each.roles for each in lent))
            who = msgspec.structs.replace(who, roles_only=all(each.roles_only for each in lent))
        giver = msgspec.structs.replace(who, roles=tuple(sorted(roles)))
        why = next(filter(None, (barred(each, giver, requester) for each in terms)), "")
        return why and f"{who.id} gave the grant, and could not give it now: {why}"

    def vouches(self, who: Decider, now: int) -> bool:
        """Return whether this directory, as of the place that a decision names, says of its decider what it says."""
        person = self.person(who.id)
        if person is None or person.kind == "machine":
            return False
        if not who.acting_for:
            return set(who.roles) <= self.roles_of(who.id)
        return any(
            each.giver == who.acting_for and set(who.roles) <= each.roles and (who.roles_only or not each.roles_only)
            for each in self.lent_to(who.id, now)
        )


def own_in_place(own: Decider, lent: Lent) -> Decider:
    """Return somebody as they decide in the place of who let them."""
    roles = tuple(sorted(lent.roles))
    return msgspec.structs.replace(own, roles=roles, acting_for=lent.giver, roles_only=lent.roles_only)


def replace_strength(who: Decider) -> Decider:
    """Return a machine as a decider: its name proves nothing of a person."""
    return Decider(who.id, (), "claimed", place=who.place)
