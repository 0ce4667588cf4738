"""The entries of a directory: who is who in one tenant, as a log of its own.

An entry is one change, by one person: one line of the log, sealed as the lines of runs are. Nothing is ever taken out
of it, so that it says who held which role when something was decided.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..core.people import Decider, Proof

VERSION = 1
ALL_SESSIONS = "*"
#: By what the login of a provider's account is proven.
BY_PROVIDER = "oidc"
#: By what the login of an app that this server is mounted in is proven.
BY_HOST = "host"
#: By what the login of a one-time sign-in link is proven.
BY_LINK = "link"
Kind = Literal["person", "machine"]


class DirectoryEvent(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag_field="e", gc=False
):
    """The base of all events of a directory."""


class PersonAdded(DirectoryEvent, frozen=True):
    """Somebody was added; an id is given once, and is theirs after they left."""

    person: str
    name: str = ""
    kind: Kind = "person"


class PersonRemoved(DirectoryEvent, frozen=True):
    """Somebody left: their roles, tokens, keys and delegations count no more."""

    person: str


class PersonReturned(DirectoryEvent, frozen=True):
    """Somebody who had left is back, with no role, token or key of before."""

    person: str


class RoleGiven(DirectoryEvent, frozen=True):
    """A person, or a group, was given a role."""

    role: str
    person: str = ""
    group: str = ""


class RoleTaken(DirectoryEvent, frozen=True):
    """A role was taken from a person or a group."""

    role: str
    person: str = ""
    group: str = ""


class GroupJoined(DirectoryEvent, frozen=True):
    """A person joined a group, and has its roles."""

    group: str
    person: str


class GroupLeft(DirectoryEvent, frozen=True):
    """A person left a group."""

    group: str
    person: str


class TokenIssued(DirectoryEvent, frozen=True):
    """A token was issued to a person; of the token itself only a digest is kept.

    `session` says of a login by what it was proven: a password, a passkey, a link.
    """

    token: str
    person: str
    digest: str
    scopes: tuple[str, ...]
    label: str = ""
    expires_at: int | None = None
    session: str = ""


class TokenRevoked(DirectoryEvent, frozen=True):
    """A token counts no more."""

    token: str


class KeyEnrolled(DirectoryEvent, frozen=True):
    """A person named a key as theirs; it counts when somebody else has confirmed it.

    `proof` is a signature by that very key, which shows that they have it.
    """

    key: str
    person: str
    scheme: str
    public: str
    label: str = ""
    proof: Proof | None = None


class KeyConfirmed(DirectoryEvent, frozen=True):
    """A key was confirmed as the person's own; `proof` is the signature of whoever confirmed it, by a key of theirs."""

    key: str
    proof: Proof | None = None


class KeyRevoked(DirectoryEvent, frozen=True):
    """A key counts no more from now on; what it signed before stays signed."""

    key: str


class KeyCounted(DirectoryEvent, frozen=True):
    """A key that counts its signatures made one that was accepted; one with no higher count is refused from now on."""

    key: str
    count: int


class Delegated(DirectoryEvent, frozen=True):
    """A person lets another decide in their place until a time, with some of their roles or with all (none named)."""

    delegation: str
    giver: str
    receiver: str
    until: int
    roles: tuple[str, ...] = ()
    why: str = ""


class DelegationEnded(DirectoryEvent, frozen=True):
    """A delegation was ended before its time."""

    delegation: str


class LinkMade(DirectoryEvent, frozen=True):
    """A link was made by which a person enters for the first time, once; of its secret only a digest is kept."""

    link: str
    person: str
    digest: str
    expires_at: int


class LinkUsed(DirectoryEvent, frozen=True):
    """A link was used, and is good for nothing any more."""

    link: str


class PasswordSet(DirectoryEvent, frozen=True):
    """A person chose a password, of which only a slow hash is kept; "" for none any more.

    Their logins of before count no more, but for the one of this token; "*" for all: it is the same password.
    """

    person: str
    hash: str
    keeps: str = ""


class AddressSet(DirectoryEvent, frozen=True):
    """A person is told of requests over this channel at this address; "" for not over this channel any more.

    `confirmed` says whether it is theirs beyond doubt: an administrator wrote it, or it cannot be guessed. False waits
    for a code that is sent there; None stands in entries from before there were codes.
    """

    person: str
    channel: str
    address: str
    confirmed: bool | None = None


class AddressConfirmed(DirectoryEvent, frozen=True):
    """The address of a person on a channel was confirmed as theirs.

    They repeated the code that was sent there, or an administrator says so.
    """

    person: str
    channel: str


class SettingChanged(DirectoryEvent, frozen=True):
    """A setting of a person, or of everybody (no person), was changed; None for as it was before it was ever set."""

    name: str
    value: Any
    person: str = ""


class SubjectBound(DirectoryEvent, frozen=True):
    """A person was signed in by a provider for the first time, as its account `subject`: no other one signs them in."""

    person: str
    issuer: str
    subject: str


class SubjectForgotten(DirectoryEvent, frozen=True):
    """A person is bound to no account of a provider: the next one that says it is theirs is.

    The logins of the account that was bound count no more.
    """

    person: str


class ClaimsMapped(DirectoryEvent, frozen=True):
    """The claims of an identity provider give a person these groups and roles now; those that they gave before end."""

    person: str
    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class UserProvisioned(DirectoryEvent, frozen=True):
    """A provisioning client (SCIM) said how it calls a user, and by which id of its own; not `listed`: it deleted them.

    A user who is deactivated is a person who left: see `PersonRemoved` and `PersonReturned`.
    """

    person: str
    name: str = ""
    external: str = ""
    listed: bool = True


class GroupProvisioned(DirectoryEvent, frozen=True):
    """A provisioning client keeps a group under an id of its own; not `listed`: it deleted the group."""

    group: str
    external: str = ""
    listed: bool = True


class MembershipProvisioned(DirectoryEvent, frozen=True):
    """A provisioning client put a person into a group, or took them out of it."""

    group: str
    person: str
    member: bool = True


class Restored(DirectoryEvent, frozen=True):
    """The store was brought back from a copy: tokens, links, passwords and delegations of before count no more.

    They may have been revoked meanwhile, and the copy does not know it. So no address is confirmed any more, and a
    passkey signs nobody in who has not used a link since. `nonce` is the id of the restore, which is told once.
    """

    why: str
    nonce: str = ""


AnyDirectoryEvent = (
    PersonAdded
    | PersonRemoved
    | PersonReturned
    | RoleGiven
    | RoleTaken
    | GroupJoined
    | GroupLeft
    | TokenIssued
    | TokenRevoked
    | KeyEnrolled
    | KeyConfirmed
    | KeyRevoked
    | KeyCounted
    | Delegated
    | DelegationEnded
    | LinkMade
    | LinkUsed
    | PasswordSet
    | AddressSet
    | AddressConfirmed
    | SettingChanged
    | SubjectBound
    | SubjectForgotten
    | ClaimsMapped
    | UserProvisioned
    | GroupProvisioned
    | MembershipProvisioned
    | Restored
)


class Once(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Holds the digests of the name under which a change is made once, and of what was asked under it."""

    name: str
    asked: str


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Holds one change: when, by whom, and what became true; `once` has the name under which it is made once.

    >>> entry = Entry(5, Decider("ada"), [PersonAdded("ada")])
    >>> read_entry(written(entry)) == entry
    True
    """

    at: int
    by: Decider
    events: list[AnyDirectoryEvent]
    v: int = VERSION
    once: Once | msgspec.UnsetType = msgspec.UNSET


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry, strict=True)


def written(entry: Entry) -> bytes:
    """Write an entry as the body of a line."""
    return _encoder.encode(entry)


def shown(entry: Entry) -> dict[str, Any]:
    """Return an entry as plain data for people and programs: all of it but the hashes of passwords, and its name.

    >>> shown(Entry(5, Decider("ada"), [PasswordSet("ada", "$argon2id$...")]))["events"]
    [{'e': 'PasswordSet', 'person': 'ada'}]
    """
    data: dict[str, Any] = msgspec.to_builtins(entry)
    data.pop("once", None)
    for event in data["events"]:
        if event["e"] == PasswordSet.__name__:
            event.pop("hash")
    return data


def read_entry(body: bytes) -> Entry:
    """Read the body of a line, or raise `ValueError` for what is none."""
    entry = _decoder.decode(body)
    if entry.v != VERSION:
        raise ValueError(f"version {entry.v}")
    return entry
