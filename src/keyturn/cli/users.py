"""The command `keyturn users` lists and changes users, roles, groups, tokens and keys; each change is recorded."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterator
from difflib import get_close_matches
from typing import Any, cast

from ..core.errors import UserError
from ..directory.finding import find, id_from
from ..presenting.clock import here
from ..render.escape import Escaped, escape, quote
from ..wire.people import PersonSeen
from .seats.base import PeopleSeat, Seat, SeenDirectory
from .seats.sitting import run_at
from .users_keys import confirm_key, enrol_key, key_line, list_keys
from .users_links import make_link
from .users_settings import change_setting, list_settings
from .with_journal import Told, describe_journal

_Do = Callable[[PeopleSeat, argparse.Namespace], Awaitable[Any]]

_SETS = ("setting", "value", "--person")
_ENROLS = ("file", "--sign-with", "--label")
# Each word, what it does, and its arguments.
_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "list": ("list users and their roles", ()),
    "show": ("show one user in full", ("person",)),
    "log": ("list every change of the directory, and who made it", ()),
    "add": ("add a user, or a service account with --machine", ("person", "--name", "--role", "--machine")),
    "remove": ("remove a user and revoke their tokens, keys, delegations and roles", ("person",)),
    "give": ("assign a role to a user, or to a group with --group", ("role", "to", "--group")),
    "take": ("remove a role from a user, or from a group with --group", ("role", "to", "--group")),
    "join": ("add a user to a group", ("group", "person")),
    "leave": ("remove a user from a group", ("group", "person")),
    "delegate": ("delegate a user's decisions to another user", ("person", "receiver", "--lasts", "--role", "--why")),
    "end-delegation": ("end a delegation early", ("id",)),
    "token": ("issue a token; it is shown only once", ("person", "--scope", "--label", "--expires")),
    "revoke-token": ("revoke a token, by its id or its text", ("id",)),
    "link": ("create a one-time sign-in link for a user, as a URL and a QR code", ("person", "--url")),
    "forget-subject": ("unlink a user from their single sign-on (SSO) account; its sessions end", ("person",)),
    "address": (
        "set a user's notification address; omit the address to remove it",
        ("person", "channel", "address"),
    ),
    "confirm-address": (
        "confirm an address with the code that was sent to it; administrators name the address instead",
        ("person", "channel", "code", "--address"),
    ),
    "mute": ("mute a user's notifications; omit the duration to unmute", ("person", "lasts")),
    "set": ("change a setting, for all users or with --person for one; omit the value to reset it", _SETS),
    "settings": ("list the settings for all users, or of one user", ("whose",)),
    "keys": ("list signing keys, of all users or of one", ("whose",)),
    "enrol-key": ("enrol your own ssh key by its .pub file; it is valid once it is confirmed", _ENROLS),
    "confirm-key": ("confirm that a key belongs to its user, signed with your own valid key", ("id", "--sign-with")),
    "revoke-key": ("revoke a user's signing key", ("id",)),
}
_OPTIONAL = {
    "to": "the user",
    "value": "JSON such as true, 5 or [1]; other text is text",
    "whose": "the user",
    "address": "such as an e-mail address",
    "code": "the code",
    "lasts": "a duration, such as 2h",
}
_SCOPES = ["decide", "read"]
# The arguments that name a user.
_USERS = ("person", "to", "receiver", "whose")


def describe(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    words = parser.add_subparsers(dest="word", required=True, metavar="WORD")
    for word, (what, takes) in _WORDS.items():
        one = words.add_parser(word, help=what, description=what)
        for argument in takes:
            _add(one, argument)
        describe_journal(one, people=True, server=True)


def _add(parser: argparse.ArgumentParser, argument: str) -> None:
    if argument in ("--role", "--scope"):
        parser.add_argument(argument, action="append", default=[], metavar="NAME", help="may be given several times")
    elif argument == "--machine":
        parser.add_argument(argument, action="store_true", help="a service account, which cannot decide")
    elif argument == "--url":
        said = "the address at which users open the server (default: KEYTURN_URL, else the server that is asked)"
        parser.add_argument(argument, dest="public_url", default=None, metavar="URL", help=said)
    elif argument.startswith("--"):
        needed = argument == "--lasts"
        parser.add_argument(argument, default=None, required=needed, metavar=argument[2:].upper())
    elif argument in _OPTIONAL:
        parser.add_argument(argument, nargs="?", default="", metavar=argument.upper(), help=_OPTIONAL[argument])
    else:
        parser.add_argument(argument, metavar=argument.upper())


def run(arguments: argparse.Namespace) -> int:
    """Do what the word says; return 1 where that cannot be done."""

    async def work(seat: Seat) -> Told:
        people = seat.people
        meant = await _meant(people, arguments)
        reads = _READS.get(arguments.word)
        if reads is not None:
            return await reads(people, arguments)
        hint = await _misspelt(people, arguments)
        said = await _CHANGES[arguments.word](people, arguments)
        if isinstance(said, Told):
            return said
        if isinstance(said, str):
            return Told([said], {"secret": said}, note="Copy it now. It will not be shown again.")
        return Told([*meant, "done"], {"place": (await people.book()).place}, note=hint)

    return run_at(arguments, "users", work)


async def _meant(people: PeopleSeat, arguments: argparse.Namespace) -> list[str]:
    """Put the ids of the users that are meant in the place of other spellings; return rows that say who they are.

    A display name is not the user's alone to choose: who is meant by one is said.
    """
    given = {name: value for name in _USERS if isinstance(value := getattr(arguments, name, None), str) and value}
    if arguments.word == "add":
        person, name = id_from(arguments.person)
        arguments.person, arguments.name = person, arguments.name or name
        return []
    if not given:
        return []
    known = (await people.book()).people
    found = {name: find(known, value) for name, value in given.items()}
    for name, value in found.items():
        setattr(arguments, name, value)
    changed = dict.fromkeys(value for name, value in found.items() if value != given[name])
    return [f"the user {escape(each, keep='')}" for each in changed]


async def _misspelt(people: PeopleSeat, arguments: argparse.Namespace) -> Escaped:
    """Return a hint where a role is assigned that no user has, and that reads much like one that somebody has."""
    if arguments.word not in ("add", "give"):
        return Escaped()
    known = {role for each in (await people.book()).people for role in each.roles}
    given: Any = arguments.role
    for role in [given] if isinstance(given, str) else list(given or ()):
        close = [] if role in known else get_close_matches(role, known, 1)
        if close:
            return Escaped(f"No other user has the role {quote(role)}. Did you mean {quote(close[0])}?")
    return Escaped()


async def _list(people: PeopleSeat, _arguments: argparse.Namespace) -> Told:
    book = await people.book()
    rows = [_line(each) for each in book.people]
    return Told(rows or ["no users: keyturn init adds the first one"], [_data(book, each) for each in book.people])


async def _show(people: PeopleSeat, arguments: argparse.Namespace) -> Told:
    book = await people.book()
    person = somebody(book, arguments.person)
    return Told(list(_told(book, person)), _data(book, person))


def somebody(book: SeenDirectory, person: str) -> PersonSeen:
    """Return one person who is here, or raise `UserError`."""
    found = next((each for each in book.people if each.id == person and each.here), None)
    if found is None:
        raise UserError(f"no user named {person!r} is in this directory")
    return found


async def _log(people: PeopleSeat, _arguments: argparse.Namespace) -> Told:
    entries = await people.log()
    rows = [_entry(place, entry) for place, entry in enumerate(entries)]
    return Told(rows or ["no changes"], entries)


def _entry(place: int, entry: dict[str, Any]) -> str:
    words = "; ".join(_words(event) for event in entry["events"])
    return f"{place} {here(entry['at'])} {escape(str(entry['by']['id']), keep='')} {words}"


def _words(event: dict[str, Any]) -> str:
    said: list[str] = []
    for name, value in event.items():
        texts = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
        text = " and ".join(map(str, texts))
        if text not in ("", "None", "person") and name not in ("e", "digest", "public"):
            said.append(f"{escape(name, keep='')} {escape(text, keep='')}")
    return f"{escape(str(event['e']), keep='')} {', '.join(said)}"


def _line(person: PersonSeen) -> str:
    roles = ", ".join(sorted(person.roles)) or "no roles"
    name = f" ({escape(person.name, keep='')})" if person.name else ""
    kind = " service account" if person.kind == "machine" else ""
    return f"{escape(person.id, keep='')}{name}{kind}: {escape(roles, keep='')}"


def _told(book: SeenDirectory, person: PersonSeen) -> Iterator[str]:
    yield _line(person)
    for group in sorted(person.groups):
        yield f"  in group {escape(group, keep='')}"
    for token in book.tokens or ():
        if token.person == person.id and not token.revoked:
            ends = "" if token.expires_at is None else f", until {here(token.expires_at)}"
            scopes = escape(", ".join(token.scopes), keep="")
            issuer = "" if token.issued_by == person.id else f", issued by {escape(token.issued_by, keep='')}"
            yield f"  token {escape(token.id, keep='')} {escape(token.label, keep='')} for {scopes}{ends}{issuer}"
    for key in book.keys:
        if key.person == person.id:
            yield f"  {key_line(key)}"
    for given in book.delegations:
        if person.id in (given.giver, given.receiver) and not given.ended:
            who = f"{escape(given.receiver, keep='')} decides for {escape(given.giver, keep='')}"
            yield f"  delegation {escape(given.id, keep='')}: {who} until {here(given.until)}"
    for channel, address in (person.addresses or {}).items():
        waits = " (not confirmed)" if channel in (person.unconfirmed or ()) else ""
        yield f"  notified by {escape(channel, keep='')} at {escape(address, keep='')}{waits}"


def _data(book: SeenDirectory, person: PersonSeen) -> dict[str, Any]:
    tokens = None
    if book.tokens is not None:
        tokens = [each.id for each in book.tokens if each.person == person.id and not each.revoked]
    return {
        "id": person.id,
        "name": person.name,
        "kind": person.kind,
        "roles": sorted(person.roles),
        "groups": sorted(person.groups),
        "addresses": person.addresses,
        "tokens": tokens,
        "keys": [each.id for each in book.keys if each.person == person.id and each.counts],
    }


_READS: dict[str, Callable[[PeopleSeat, argparse.Namespace], Awaitable[Told]]] = {
    "list": _list,
    "show": _show,
    "log": _log,
    "keys": list_keys,
    "settings": list_settings,
}


async def _delegate(people: PeopleSeat, given: argparse.Namespace) -> None:
    why = given.why or ""
    await people.change("delegate", given.person, given.receiver, lasts=given.lasts, roles=given.role, why=why)


async def _token(people: PeopleSeat, given: argparse.Namespace) -> str:
    more: dict[str, Any] = {"label": given.label or "", "expires": given.expires}
    return str(await people.change("issue_token", given.person, given.scope or _SCOPES, **more))


def _holder(given: argparse.Namespace) -> dict[str, str]:
    return {"group": given.group or ""}


_CHANGES: dict[str, _Do] = {
    "add": lambda people, given: people.change(
        "add", given.person, given.name or "", roles=given.role, kind="machine" if given.machine else "person"
    ),
    "remove": lambda people, given: people.change("remove", given.person),
    "give": lambda people, given: people.change("give_role", given.role, to=given.to, **_holder(given)),
    "take": lambda people, given: people.change("take_role", given.role, of=given.to, **_holder(given)),
    "join": lambda people, given: people.change("join", given.group, given.person),
    "leave": lambda people, given: people.change("leave", given.group, given.person),
    "delegate": _delegate,
    "end-delegation": lambda people, given: people.change("end_delegation", given.id),
    "token": _token,
    "revoke-token": lambda people, given: people.change("revoke_token", given.id),
    "link": make_link,
    "forget-subject": lambda people, given: people.change("forget_subject", given.person),
    "address": lambda people, given: people.change("set_address", given.person, given.channel, given.address),
    "confirm-address": lambda people, given: people.change(
        "confirm_address", given.person, given.channel, given.code or "", address=given.address or ""
    ),
    "mute": lambda people, given: people.change("mute", given.person, given.lasts or None),
    "set": change_setting,
    "enrol-key": enrol_key,
    "confirm-key": confirm_key,
    "revoke-key": lambda people, given: people.change("revoke_key", given.id),
}
