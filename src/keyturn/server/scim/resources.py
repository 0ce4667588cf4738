"""Show users and groups of the directory as SCIM does, and read what a client says of them.

A userName is the user's id here, and a group's displayName its name: both are given once. What a client says beside
the attributes of `schemas.py` is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from ...core.encodable import moment
from ...directory.finding import same_as
from ...directory.provisioning import Profile, has_group
from ...directory.state import Directory, Person
from .errors import ScimRefused
from .filters import part_of

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
_MOST_OPERATIONS = 1_000
_MOST_MEMBERS = 20_000


class GroupChange(NamedTuple):
    """Holds what a client says of a group: its own id of it, and who is in it."""

    external: str
    members: tuple[str, ...]


def shown_user(person: Person, base: str) -> dict[str, Any]:
    """Show a user."""
    where = f"{base}/Users/{quote(person.id, safe='')}"
    groups = [
        {"value": each, "display": each, "$ref": f"{base}/Groups/{quote(each, safe='')}", "type": "direct"}
        for each in sorted(person.provisioned)
    ]
    told: dict[str, Any] = {"schemas": [USER], "id": person.id, "userName": person.id, "active": person.here}
    told |= {"externalId": person.external} if person.external else {}
    told |= {"displayName": person.name} if person.name else {}
    told |= {"groups": groups} if groups else {}
    meta = {"resourceType": "User", "created": f"{moment(person.since):%Y-%m-%dT%H:%M:%SZ}", "location": where}
    return told | {"meta": meta}


def shown_group(directory: Directory, group: str, members: Iterable[str], base: str) -> dict[str, Any]:
    """Show a group with its members."""
    found = directory.provisioned[group]
    inside = [
        {"value": each, "$ref": f"{base}/Users/{quote(each, safe='')}", "type": "User"} for each in sorted(members)
    ]
    told: dict[str, Any] = {"schemas": [GROUP], "id": group, "displayName": group}
    told |= {"externalId": found.external} if found.external else {}
    told |= {"members": inside} if inside else {}
    where = f"{base}/Groups/{quote(group, safe='')}"
    return told | {"meta": {"resourceType": "Group", "location": where}}


def users_of(directory: Directory) -> list[Person]:
    """Return the users whom clients see, by id."""
    found = [each for each in directory.people.values() if each.kind == "person" and each.listed]
    return sorted(found, key=lambda each: each.id)


def groups_of(directory: Directory) -> dict[str, list[str]]:
    """Return the groups that clients keep, each with its members."""
    found: dict[str, list[str]] = {each: [] for each in sorted(directory.provisioned) if has_group(directory, each)}
    for person in directory.people.values():
        for group in person.provisioned:
            if group in found:
                found[group].append(person.id)
    return found


# Reading ------------------------------------------------------------------------------------------------------------


def _value_of(said: dict[str, Any], name: str) -> Any:
    """Return the value of an attribute, whose name is written in any case; None for none."""
    return next((value for key, value in said.items() if key.lower() == name.lower()), None)


def text_of(said: dict[str, Any], name: str) -> str:
    """Return a text that a client says, "" for none."""
    found = _value_of(said, name)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise ScimRefused(f"{name} is a string")
    return found


def _active(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):  # as Entra ID says it
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ScimRefused("active is true or false")
    return value


def _display(said: dict[str, Any]) -> str:
    """Return the display name: the one that is said, else what the parts of the name make."""
    name = _value_of(said, "name")
    parts = cast("dict[str, Any]", name) if isinstance(name, dict) else {}
    whole = f"{text_of(parts, 'givenName')} {text_of(parts, 'familyName')}".strip()
    return text_of(said, "displayName") or text_of(parts, "formatted") or whole


def profile_of(said: dict[str, Any], before: Person | None = None) -> Profile:
    """Return what a client says of a user as a whole; without a word of it they stay active, or not, as they were."""
    if before is not None:
        _same(text_of(said, "userName") or before.id, before.id, "userName")
    active = _value_of(said, "active")
    otherwise = True if before is None else before.here
    return Profile(_display(said), text_of(said, "externalId"), otherwise if active is None else _active(active))


def _same(said: str, kept: str, what: str) -> None:
    if same_as(said) != same_as(kept):
        raise ScimRefused(f"{what} is given once, and cannot be changed", "mutability")


def group_of(said: dict[str, Any], before: str | None = None) -> GroupChange:
    """Return what a client says of a group as a whole."""
    if before is not None:
        _same(text_of(said, "displayName") or before, before, "displayName")
    members = _value_of(said, "members")
    return GroupChange(text_of(said, "externalId"), tuple(_ids(members)))


def _ids(members: Any) -> list[str]:
    """Return whom a value of `members` names."""
    if members is None:
        return []
    listed = cast("list[Any]", members) if isinstance(members, list) else [members]
    if len(listed) > _MOST_MEMBERS:
        raise ScimRefused(f"a group is given at most {_MOST_MEMBERS} members at once", "tooMany")
    found = [cast("dict[str, Any]", each).get("value") if isinstance(each, dict) else each for each in listed]
    if not all(isinstance(each, str) for each in found):
        raise ScimRefused("members are objects with the id of a user as `value`")
    return cast("list[str]", found)


# Patching -----------------------------------------------------------------------------------------------------------


class Operation(NamedTuple):
    """Holds one operation of a PATCH: add, replace or remove, of which attribute, and with which value."""

    op: str
    path: str
    value: Any


def operations_of(said: dict[str, Any]) -> list[Operation]:
    """Return the operations of a PATCH, each about one attribute: a value without a path says several."""
    listed: Any = _value_of(said, "operations")
    if not isinstance(listed, list) or not 0 < len(cast("list[Any]", listed)) <= _MOST_OPERATIONS:
        raise ScimRefused(f"Operations is a list of 1 to {_MOST_OPERATIONS} operations", "invalidSyntax")
    made: list[Operation] = []
    for each in cast("list[Any]", listed):
        given = {key.lower(): value for key, value in cast("dict[str, Any]", each).items()} if _is(each) else {}
        op = str(given.get("op", "")).lower()
        path, value = given.get("path"), given.get("value")
        if op not in ("add", "replace", "remove") or not isinstance(path, str | None):
            raise ScimRefused("an operation has an op, which is add, replace or remove, and a path", "invalidSyntax")
        if path:
            made.append(Operation(op, path, value))
        elif op == "remove" or not _is(value):
            raise ScimRefused("without a path an operation has an object as its value", "noTarget")
        else:
            made += [Operation(op, name, inner) for name, inner in cast("dict[str, Any]", value).items()]
    return made


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def patched_user(before: Person, operations: Iterable[Operation]) -> Profile:
    """Return a user as operations leave them."""
    made = Profile(before.name, before.external, before.here)
    for op, path, value in operations:
        name = part_of(path).attribute
        given = None if op == "remove" else value
        if name == "active":
            made = made._replace(active=_active(given))
        elif name == "displayname":
            made = made._replace(name=text_of({"displayName": given}, "displayName"))
        elif name == "externalid":
            made = made._replace(external=text_of({"externalId": given}, "externalId"))
        elif name in ("username", "id"):
            _same(text_of({name: given}, name), before.id, name)
        elif name == "groups":
            raise ScimRefused("groups of a user are read-only: change the members of the group", "mutability")
    return made


def patched_group(group: str, external: str, members: Iterable[str], operations: Iterable[Operation]) -> GroupChange:
    """Return a group as operations leave it."""
    inside = dict.fromkeys(members)
    for op, path, value in operations:
        part = part_of(path)
        if part.attribute == "externalid":
            external = "" if op == "remove" else text_of({"externalId": value}, "externalId")
        elif part.attribute in ("displayname", "id"):
            _same("" if op == "remove" else text_of({"displayName": value}, "displayName"), group, "displayName")
        elif part.attribute == "members":
            meant = [each for each in inside if part.fits is None or part.fits({"value": each})]
            named = _ids(value)
            if op == "remove":
                meant = [each for each in meant if each in named] if named else meant
            inside = {each: None for each in inside if each not in meant} if op != "add" else inside
            inside |= dict.fromkeys([] if op == "remove" else named)
    return GroupChange(external, tuple(inside))
