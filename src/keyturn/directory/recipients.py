"""Name the recipients of a request: the users of the directory who may decide it, at their addresses, as they wish.

It is asked again as each message goes out, so a role that was taken away, a person who left and an address that changed
apply from then on. Users who may not decide a request are not notified of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ..channels.base import Channel, QuietHours, Recipient
from ..core.errors import UserError
from ..core.gate.reviews import kept_from_review
from ..core.people import barred
from ..core.request import Request
from ..journal.rows import RequestRow
from .on_call import notified_first
from .people import People
from .state import ADMIN, Directory, Person

log = logging.getLogger("keyturn.directory")

#: Under this setting stands until when somebody is told nothing, in milliseconds since 1970.
MUTED = "muted_until"
#: Under these stand their other wishes; `quiet` is two times and a zone.
WISHES = ("quiet", "digest", "rate", "topics", "details", "zone")


class DirectoryRecipients:
    """Names the recipients of a request: the users who may decide it, on each channel on which they have an address.

    Where their role has an on-call schedule, the people on call are notified first. `after` delays notifications by so
    many seconds, by channel. `otherwise` are notified of what no user can be notified of, such as an operators' room.

    >>> import asyncio
    >>> from keyturn import MemoryJournal
    >>> async def main():
    ...     people = People(MemoryJournal())
    ...     await people.start("ada")
    ...     await people.set_address("ada", "mail", "ada@example.org", by="ada")
    ...     return await DirectoryRecipients(people, after={"mail": 60})(None)
    >>> [(who.person, who.channel, who.address, who.after) for who in asyncio.run(main())]
    [('ada', 'mail', 'ada@example.org', 60.0)]
    """

    def __init__(
        self, people: People, *, after: Mapping[str, float] | None = None, otherwise: Sequence[Recipient] = ()
    ) -> None:
        self._people = people
        self._after = {name: float(seconds) for name, seconds in (after or {}).items()}
        self._otherwise = [msgspec.structs.replace(each, otherwise=True) for each in otherwise]
        for name, seconds in self._after.items():
            Recipient(person="", channel=name, after=seconds)  # what is no delay is refused here

    async def __call__(self, request: Request | None) -> list[Recipient]:
        """Return who is told of a request; of what is about no request, those who administer the directory."""
        directory, now = await self._people.directory(), await self._people.now()
        may = [person for person in directory.people.values() if may_hear(directory, person, request, now)]
        first = _first(directory, request, now, {person.id for person in may})
        told = [recipient for person in may if person.id in first for recipient in self._of(person)]
        return [*told, *self._otherwise]

    def _of(self, person: Person) -> list[Recipient]:
        wishes = wishes_of(person)
        return [
            Recipient(person=person.id, channel=channel, address=address, after=self._after.get(channel, 0.0), **wishes)
            for channel, address in person.told_at.items()
        ]


def _first(directory: Directory, request: Request | None, now: int, may: set[str]) -> set[str]:
    """Return who is notified of those who may decide: the people on call, where their role has a schedule."""
    try:
        return may if request is None else notified_first(directory.settings, request.terms_now, now, may)
    except UserError:  # a schedule that an earlier version took
        log.warning("the setting 'on_call' cannot be read: all approvers are notified")
        return may


def may_hear(directory: Directory, person: Person, request: Request | None, now: int) -> bool:
    """Return whether somebody is told of a request: whether they may decide it, themselves or for who let them."""
    if not person.here or person.kind == "machine":
        return False
    if request is None:
        return ADMIN in directory.roles_of(person.id)
    return _may_decide(directory, person.id, request, now)


def still_asked(directory: Directory, row: RequestRow, now: int) -> list[str]:
    """Return who can still approve an open request, by name; none before the first vote where one is enough."""
    shown = row.request
    terms = shown.terms_now
    said = {vote.by for vote in shown.votes} | {*shown.not_for}
    if row.state != "open" or terms is None or not (said or terms.quorum > 1):
        return []
    due = terms.unsigned
    found = (directory.decider(name, now, "authenticated", terms, shown.requester) for name in sorted(directory.people))
    able = (who for who in found if who is not None and not barred(due, who, shown.requester))
    return [who.id for who in able if not said & {who.id, who.principal} and directory.people[who.id].kind == "person"]


def _may_decide(directory: Directory, person: str, request: Request, now: int) -> bool:
    """Return whether somebody may decide a request once they are logged in and, where that is asked, have signed.

    Of a request in several steps it is the one that is due, and nobody who voted in an earlier one.
    """
    terms, requester = request.terms_now, request.requester
    bare = None if terms is None else terms.unsigned
    who = directory.decider(person, now, "authenticated", bare, requester)
    if who is None:
        return False
    if request.kind == "review":
        return not kept_from_review(request.terms, request.not_for, who, requester)
    return not barred(bare, who, requester) and not who.is_any_of(request.not_for)


def wishes_of(person: Person) -> dict[str, Any]:
    """Return what somebody's settings say of how they are told; what cannot be read counts as not said."""
    found = dict[str, Any]()
    for name in (MUTED, *WISHES):
        said = person.settings.get(name)
        if said is None:
            continue
        try:
            value = QuietHours(*said) if name == "quiet" else frozenset(said) if name == "topics" else said
            Recipient(person=person.id, channel="any", **{name: _typed(name, value)})
        except (UserError, TypeError, ValueError, AttributeError):
            log.warning("the setting %r of %r cannot be read and is ignored", name, person.id)
            continue
        found[name] = value
    return found


def _typed(name: str, value: object) -> Any:
    kinds: dict[str, Any] = {"digest": int | float, "rate": int, "details": bool, "zone": str, MUTED: int}
    if name in kinds and (not isinstance(value, kinds[name]) or (isinstance(value, bool) and name != "details")):
        raise TypeError(name)
    return value


def reached_by(directory: Directory, channel: Channel | str, address: str) -> str | None:
    """Return the one person who is here and has this address on a channel, confirmed; None where nobody has."""
    name = channel if isinstance(channel, str) else channel.name
    people = [person for person in directory.people.values() if person.here and name in person.confirmed]
    found = [person.id for person in people if person.addresses.get(name) == address]
    return found[0] if address and len(found) == 1 else None
