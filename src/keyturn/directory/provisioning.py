"""Decide what an identity provider says of users and groups: by the claims of a sign-in, and by provisioning (SCIM).

Pure, as `decide.py` is. A provisioning client is a service account with a token of the scope "scim". It adds,
deactivates and names users, and keeps the members of groups; what a group may is for administrators to say, and nobody
becomes an administrator by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..core.errors import Conflict, NotAllowed, UserError
from ..core.lookalikes import looks_as
from . import events as ev
from .bounds import Pace, check_pace
from .decide import Events, after, keep_an_admin, own_id
from .spelling import named, one_line
from .state import ADMIN, SCIM, Directory, Person, Subject

#: How many changes a provisioning client makes in an hour: each is an entry that stays.
PROVISIONED_AN_HOUR = 20_000


class Claims(NamedTuple):
    """Names the groups and the roles that the claims of a sign-in give."""

    groups: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class Account(NamedTuple):
    """Holds what an identity provider says of a sign-in: its account, and what its claims give; None for neither."""

    subject: Subject | None = None
    claims: Claims | None = None


class Profile(NamedTuple):
    """Holds what a provisioning client says of a user."""

    name: str = ""
    external: str = ""
    active: bool = True


class Unknown(UserError):
    """Raised for a user or a group that a provisioning client does not keep.

    >>> issubclass(Unknown, UserError)
    True
    """


def map_claims(directory: Directory, person: str, claims: Claims) -> Events:
    """Give a person the groups and roles of their claims, and end those of before; the last administrator stays one."""
    found = directory.person(named(person, "a person"))
    if found is None or found.kind == "machine":
        raise NotAllowed(f"there is no user {person!r} in this directory")
    groups = tuple(sorted({named(each, "a group") for each in claims.groups}))
    roles = tuple(sorted({named(each, "a role") for each in claims.roles}))
    mapped = ev.ClaimsMapped(person, groups, roles)
    if directory.admins() == [person] and not after(directory, mapped).admins():
        mapped = ev.ClaimsMapped(person, groups, tuple(sorted({*roles, ADMIN})))
    same = (frozenset(mapped.groups), frozenset(mapped.roles)) == (found.claimed_groups, found.claimed_roles)
    return [] if same else [mapped]


def provisions(directory: Directory, by: str, now: int) -> None:
    """Refuse whoever has no token to provision with, or has provisioned too much within the hour."""
    tokens = directory.tokens.values()
    if not any(each.person == by and SCIM in each.scopes and directory.accepts(each, now) for each in tokens):
        raise NotAllowed(f"{by!r} needs a token of the scope {SCIM!r} for this")
    check_pace(directory.paces.get(by, Pace()), now, PROVISIONED_AN_HOUR)


# Users --------------------------------------------------------------------------------------------------------------


def user(directory: Directory, person: str) -> Person:
    """Return a user whom provisioning clients see, here or deactivated, or refuse the id."""
    found = directory.people.get(person)
    if found is None or found.kind == "machine" or not found.listed:
        raise Unknown(f"there is no user {person!r}")
    return found


def add_user(directory: Directory, person: str, profile: Profile) -> Events:
    """Add a user, or have one back who was deleted."""
    named(person, "userName")
    before = directory.people.get(person)
    if before is not None and (before.here or before.listed or before.kind == "machine"):
        raise Conflict(f"the user {person!r} exists already")
    like = directory.alike.get(looks_as(person), person)
    if like != person:
        raise Conflict(f"the userName {person!r} reads like {like!r}, whose it is or was")
    added = ev.PersonAdded(own_id(person), _line(profile.name)) if before is None else ev.PersonReturned(person)
    made: Events = [added, ev.UserProvisioned(person, _line(profile.name), _external(profile.external))]
    return made if profile.active else [*made, ev.PersonRemoved(person)]


def change_user(directory: Directory, person: str, profile: Profile) -> Events:
    """Change what is known of a user: deactivated they have left, reactivated they are back without credentials.

    They are in their groups again, but for those of administrators: nobody becomes one by a provisioning client.
    """
    found = user(directory, person)
    made: Events = []
    if profile.active and not found.here:
        of_admins = [each for each in sorted(found.provisioned) if ADMIN in directory.groups.get(each, ())]
        made += [ev.MembershipProvisioned(each, person, False) for each in of_admins]
        made.append(ev.PersonReturned(person))
    said = ev.UserProvisioned(person, _line(profile.name), _external(profile.external))
    if (said.name, said.external) != (found.name, found.external):
        made.append(said)
    if found.here and not profile.active:
        keep_an_admin(directory, person)
        made.append(ev.PersonRemoved(person))
    return made


def delete_user(directory: Directory, person: str) -> Events:
    """Delete a user: they have left, and are listed no more; their id is never given to another."""
    found = user(directory, person)
    gone: Events = [ev.MembershipProvisioned(each, person, False) for each in sorted(found.provisioned)]
    gone.append(ev.UserProvisioned(person, found.name, listed=False))
    if found.here:
        keep_an_admin(directory, person)
        gone.append(ev.PersonRemoved(person))
    return gone


def _line(name: str) -> str:
    return one_line(name, "displayName")


def _external(external: str) -> str:
    return one_line(external, "externalId")


# Groups -------------------------------------------------------------------------------------------------------------


def has_group(directory: Directory, group: str) -> bool:
    """Return whether a provisioning client keeps a group."""
    found = directory.provisioned.get(group)
    return found is not None and found.listed


def members_of(directory: Directory, group: str) -> list[str]:
    """Return whom provisioning clients put into a group."""
    return [each.id for each in directory.people.values() if group in each.provisioned]


def add_group(directory: Directory, group: str, external: str, members: Iterable[str]) -> Events:
    """Keep a group; one that administrators gave roles to has them still."""
    named(group, "displayName")
    alike = [name for name, each in directory.provisioned.items() if each.listed and looks_as(name) == looks_as(group)]
    if alike:
        raise Conflict(f"the group {alike[0]!r} exists already")
    joined = _membership(directory, group, members, ())
    return [ev.GroupProvisioned(group, _external(external)), *joined]


def change_group(directory: Directory, group: str, external: str, members: Iterable[str]) -> Events:
    """Change the id that a client has of a group, and who its members are."""
    kept(directory, group)
    made: Events = []
    if directory.provisioned[group].external != _external(external):
        made.append(ev.GroupProvisioned(group, external))
    return [*made, *_membership(directory, group, members, members_of(directory, group))]


def delete_group(directory: Directory, group: str) -> Events:
    """Delete a group: it has no provisioned members any more; its roles stay for administrators to change."""
    kept(directory, group)
    left = _membership(directory, group, (), members_of(directory, group))
    return [*left, ev.GroupProvisioned(group, listed=False)]


def kept(directory: Directory, group: str) -> None:
    """Refuse a group that no provisioning client keeps."""
    if not has_group(directory, group):
        raise Unknown(f"there is no group {group!r}")


def _membership(directory: Directory, group: str, wanted: Iterable[str], there: Collection[str]) -> Events:
    """Return the changes that make these people the members of a group."""
    members = dict.fromkeys(user(directory, each).id for each in wanted)
    before = set(there)
    joins = [each for each in members if each not in before]
    if joins and ADMIN in directory.groups.get(group, ()):
        raise NotAllowed(f"the group {group!r} has the role {ADMIN!r}: no provisioning client makes an administrator")
    leaves = sorted(before - set(members))
    made: Events = [ev.MembershipProvisioned(group, each, False) for each in leaves]
    if leaves and not after(directory, *made).admins():
        raise UserError(f"the group {group!r} has the last administrator: give another user the role {ADMIN!r} first")
    return [*made, *(ev.MembershipProvisioned(group, each) for each in joins)]
