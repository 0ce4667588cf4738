"""What a server tells of people: who is here, their tokens, keys and delegations; no secret is among it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from ..core.encodable import moment
from ..directory.state import Delegation, Directory, Key, Person, Token


class PersonSeen(msgspec.Struct, frozen=True):
    """Describes a person or a machine; where they are told, and their settings, only they and administrators see."""

    id: str
    name: str
    kind: Literal["person", "machine"]
    here: bool
    roles: list[str]
    groups: list[str]
    addresses: dict[str, str] | None
    settings: dict[str, Any] | None
    #: On which channels the address waits to be confirmed.
    unconfirmed: list[str] | None = None

    @classmethod
    def of(cls, directory: Directory, person: Person, *, closely: bool) -> PersonSeen:
        """Show a person."""
        return cls(
            person.id,
            person.name,
            person.kind,
            person.here,
            sorted(directory.roles_of(person.id)),
            sorted(person.all_groups),
            dict(person.addresses) if closely else None,
            dict(person.settings) if closely else None,
            sorted(person.unconfirmed) if closely else None,
        )


class TokenSeen(msgspec.Struct, frozen=True):
    """Describes a token, which itself is shown to nobody any more."""

    id: str
    person: str
    scopes: list[str]
    label: str
    issued_at: datetime
    expires_at: datetime | None
    good: bool
    revoked: bool = False
    issued_by: str = ""

    @classmethod
    def of(cls, directory: Directory, token: Token, now: int) -> TokenSeen:
        """Show a token."""
        expires = None if token.expires_at is None else moment(token.expires_at)
        issued = moment(token.issued_at)
        about = token.id, token.person, list(token.scopes), token.label
        good, revoked = directory.accepts(token, now), token.revoked_at is not None
        return cls(*about, issued, expires, good, revoked, token.issued_by)


class KeySeen(msgspec.Struct, frozen=True):
    """Describes a person's own key: its public half, and whether it counts."""

    id: str
    person: str
    scheme: str
    public: str
    label: str
    counts: bool
    confirmed_at: datetime | None = None
    confirmed_by: str = ""
    revoked: bool = False

    @classmethod
    def of(cls, key: Key) -> KeySeen:
        """Show a key."""
        confirmed = None if key.confirmed_at is None else moment(key.confirmed_at)
        about = key.id, key.person, key.scheme, key.public, key.label, key.counts
        return cls(*about, confirmed, key.confirmed_by, key.revoked_at is not None)


class DelegationSeen(msgspec.Struct, frozen=True):
    """Describes that one person may decide in another's place."""

    id: str
    giver: str
    receiver: str
    roles: list[str]
    until: datetime
    why: str
    holds: bool
    ended: bool = False

    @classmethod
    def of(cls, given: Delegation, now: int) -> DelegationSeen:
        """Show a delegation."""
        until = moment(given.until)
        about = given.id, given.giver, given.receiver, list(given.roles)
        return cls(*about, until, given.why, given.holds(now), given.ended_at is not None)


class PeopleSeen(msgspec.Struct, frozen=True):
    """Lists people, and the roles that groups have; `place` counts the changes there were so far."""

    people: list[PersonSeen]
    groups: dict[str, list[str]]
    place: int = 0


class PeopleLog(msgspec.Struct, frozen=True):
    """Holds changes of who is who, each with who made it; `next` is the place of the one that follows, null if none."""

    entries: list[dict[str, Any]]
    next: int | None


class TokensSeen(msgspec.Struct, frozen=True):
    """Lists tokens."""

    tokens: list[TokenSeen]


class KeysSeen(msgspec.Struct, frozen=True):
    """Lists people's own keys."""

    keys: list[KeySeen]


class DelegationsSeen(msgspec.Struct, frozen=True):
    """Lists delegations."""

    delegations: list[DelegationSeen]


class SettingsSeen(msgspec.Struct, frozen=True):
    """Holds the settings that are everybody's."""

    settings: dict[str, Any]


class Me(msgspec.Struct, frozen=True):
    """Says who one is to the server, and what one's token is good for."""

    person: PersonSeen
    scopes: list[str]
    tenant: str
    sees_all: bool


class Secret(msgspec.Struct, frozen=True):
    """Holds a secret that is shown this once."""

    secret: str


class Named(msgspec.Struct, frozen=True):
    """Names what was made."""

    id: str
