"""The command `keyturn people` lists who may decide what in a journal, and changes it, each change with who made it."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from ..core.encodable import moment
from ..core.people import Decider
from ..directory.events import shown
from ..directory.people import People
from ..directory.state import Directory, Person
from ..render.escape import escape
from .people_keys import confirm_key, enrol_key, key_line, list_keys
from .people_settings import change_setting, list_settings
from .with_journal import Told, author_of, describe_journal, hinting, login_of, run_with_journal

_Do = Callable[[People, argparse.Namespace, str | Decider], Awaitable[Any]]

_SETS = ("setting", "value", "--person")
_ENROLS = ("file", "--sign-with", "--label")
# Each word, what it does, and its arguments.
_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": ("list who is here, with their roles", ()),
    "show": ("tell all of one person", ("person",)),
    "log": ("list every change there was, and who made it", ()),
    "add": ("add a person", ("person", "--name", "--role", "--machine")),
    "remove": ("remove a person: tokens, keys, delegations and roles count no more", ("person",)),
    "give": ("give a role to a person, or to a group with --group", ("role", "to", "--group")),
    "take": ("take a role from a person, or from a group with --group", ("role", "to", "--group")),
    "join": ("have a person join a group", ("group", "person")),
    "leave": ("have a person leave a group", ("group", "person")),
    "delegate": ("let another decide in a person's place", ("person", "receiver", "--lasts", "--role", "--why")),
    "end-delegation": ("end a delegation before its time", ("id",)),
    "token": ("issue a token, shown this once", ("person", "--scope", "--label", "--expires")),
    "revoke-token": ("revoke a token, by its id or by itself", ("id",)),
    "link": ("make a link by which a person enters once", ("person",)),
    "address": (
        "say where a person is told of requests; no address for not any more",
        ("person", "channel", "address"),
    ),
    "mute": ("tell a person of nothing for so long; no time for as before", ("person", "lasts")),
    "set": ("change a setting, of everybody or with --person of one person; no value for as it was", _SETS),
    "settings": ("list the settings of everybody, or of one person", ("whose",)),
    "keys": ("list the people's own keys, of all or of one person", ("whose",)),
    "enrol-key": ("enrol your own ssh key: its .pub file; it counts when somebody has confirmed it", _ENROLS),
    "confirm-key": ("confirm that a key is its owner's, signed with a key of yours that counts", ("id", "--sign-with")),
    "revoke-key": ("revoke a person's own key", ("id",)),
}
_OPTIONAL = {
    "to": "the person",
    "value": "JSON such as true, 5 or [1]; other text is text",
    "whose": "the person",
    "address": "where, such as an e-mail address",
    "lasts": "for how long, such as 2h",
}
_SCOPES = ["decide", "read"]


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, (what, takes) in _WORDS.items():
        one = words.add_parser(word, help=what, description=what)
        for argument in takes:
            _add(one, argument)
        describe_journal(one, people=True)


def _add(parser: argparse.ArgumentParser, argument: str) -> None:
    if argument in ("--role", "--scope"):
        parser.add_argument(argument, action="append", default=[], metavar="NAME", help="may be given several times")
    elif argument == "--machine":
        parser.add_argument(argument, action="store_true", help="it acts by itself, and never decides")
    elif argument.startswith("--"):
        needed = argument == "--lasts"
        parser.add_argument(argument, default=None, required=needed, metavar=argument[2:].upper())
    elif argument in _OPTIONAL:
        parser.add_argument(argument, nargs="?", default="", metavar=argument.upper(), help=_OPTIONAL[argument])
    else:
        parser.add_argument(argument, metavar=argument.upper())


def run(arguments: argparse.Namespace) -> int:
    """Do what the word says; return 1 where that cannot be done."""

    async def work(store: Any) -> Told:
        people = People(store)
        reads = _READS.get(arguments.word)
        if reads is not None:
            return await reads(people, arguments)
        login = await login_of(people, arguments, "people")
        with hinting(login, ", or say who you are with --as"):
            said = await _CHANGES[arguments.word](people, arguments, author_of(login, arguments))
        if isinstance(said, Told):
            return said
        if isinstance(said, str):
            return Told([said, "it is shown this once"], {"secret": said})
        return Told(["done"], {"place": (await people.directory()).place})

    return run_with_journal(arguments, "people", work)


async def _list(people: People, _arguments: argparse.Namespace) -> Told:
    directory = await people.directory()
    found = await people.list()
    rows = [_line(directory, each) for each in found]
    return Told(rows or ["nobody: keyturn init adds the first person"], [_data(directory, each) for each in found])


async def _show(people: People, arguments: argparse.Namespace) -> Told:
    directory, person = await people.directory(), await people.get(arguments.person)
    return Told(list(_told(directory, person)), _data(directory, person))


async def _log(people: People, _arguments: argparse.Namespace) -> Told:
    entries = await people.entries()
    rows = [
        f"{place} {moment(entry.at):%Y-%m-%d %H:%M:%SZ} {escape(entry.by.id, keep='')} "
        + "; ".join(_words(event) for event in entry.events)
        for place, entry in enumerate(entries)
    ]
    return Told(rows or ["no changes"], [shown(entry) for entry in entries])


def _words(event: Any) -> str:
    said: list[str] = []
    for name in event.__struct_fields__:
        value: object = getattr(event, name)
        texts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        text = " and ".join(map(str, texts))
        if text not in ("", "None", "person") and name not in ("digest", "public", "hash"):
            said.append(f"{name} {escape(text, keep='')}")
    return f"{type(event).__name__} {', '.join(said)}"


def _line(directory: Directory, person: Person) -> str:
    roles = ", ".join(sorted(directory.roles_of(person.id))) or "no roles"
    name = f" ({escape(person.name, keep='')})" if person.name else ""
    kind = " machine" if person.kind == "machine" else ""
    return f"{escape(person.id, keep='')}{name}{kind}: {escape(roles, keep='')}"


def _told(directory: Directory, person: Person) -> Iterator[str]:
    yield _line(directory, person)
    for group in sorted(person.groups):
        yield f"  in group {escape(group, keep='')}"
    for token in directory.tokens.values():
        if token.person == person.id and token.revoked_at is None:
            ends = "" if token.expires_at is None else f", until {moment(token.expires_at):%Y-%m-%d %H:%MZ}"
            yield f"  token {token.id} {escape(token.label, keep='')} for {', '.join(token.scopes)}{ends}"
    for key in directory.keys.values():
        if key.person == person.id:
            yield f"  {key_line(key)}"
    for given in directory.delegations.values():
        if person.id in (given.giver, given.receiver) and given.ended_at is None:
            who = f"{escape(given.receiver, keep='')} decides for {escape(given.giver, keep='')}"
            yield f"  delegation {given.id}: {who} until {moment(given.until):%Y-%m-%d %H:%MZ}"
    for channel, address in person.addresses.items():
        yield f"  told by {escape(channel, keep='')} at {escape(address, keep='')}"


def _data(directory: Directory, person: Person) -> dict[str, Any]:
    return {
        "id": person.id,
        "name": person.name,
        "kind": person.kind,
        "roles": sorted(directory.roles_of(person.id)),
        "groups": sorted(person.groups),
        "addresses": person.addresses,
        "tokens": [each.id for each in directory.tokens.values() if each.person == person.id and not each.revoked_at],
        "keys": [each.id for each in directory.keys.values() if each.person == person.id and each.counts],
    }


_READS: dict[str, Callable[[People, argparse.Namespace], Awaitable[Told]]] = {
    "list": _list,
    "show": _show,
    "log": _log,
    "keys": list_keys,
    "settings": list_settings,
}


async def _delegate(people: People, given: argparse.Namespace, by: str | Decider) -> None:
    why = given.why or ""
    await people.delegate(given.person, given.receiver, lasts=given.lasts, roles=given.role, why=why, by=by)


async def _token(people: People, given: argparse.Namespace, by: str | Decider) -> str:
    scopes = given.scope or _SCOPES
    return await people.issue_token(given.person, scopes, by=by, label=given.label or "", expires=given.expires)


def _holder(given: argparse.Namespace) -> dict[str, str]:
    return {"group": given.group or ""}


_CHANGES: dict[str, _Do] = {
    "add": lambda people, given, by: people.add(
        given.person, given.name or "", by=by, roles=given.role, kind="machine" if given.machine else "person"
    ),
    "remove": lambda people, given, by: people.remove(given.person, by=by),
    "give": lambda people, given, by: people.give_role(given.role, to=given.to, by=by, **_holder(given)),
    "take": lambda people, given, by: people.take_role(given.role, of=given.to, by=by, **_holder(given)),
    "join": lambda people, given, by: people.join(given.group, given.person, by=by),
    "leave": lambda people, given, by: people.leave(given.group, given.person, by=by),
    "delegate": _delegate,
    "end-delegation": lambda people, given, by: people.end_delegation(given.id, by=by),
    "token": _token,
    "revoke-token": lambda people, given, by: people.revoke_token(given.id, by=by),
    "link": lambda people, given, by: people.make_link(given.person, by=by),
    "address": lambda people, given, by: people.set_address(given.person, given.channel, given.address, by=by),
    "mute": lambda people, given, by: people.mute(given.person, given.lasts or None, by=by),
    "set": change_setting,
    "enrol-key": enrol_key,
    "confirm-key": confirm_key,
    "revoke-key": lambda people, given, by: people.revoke_key(given.id, by=by),
}
