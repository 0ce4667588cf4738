"""Check at which addresses people are told: whose an address is, and how it is confirmed.

Pure, as `decide.py` is.
"""

from __future__ import annotations

import msgspec

from ..core.errors import Conflict, NotAllowed, UserError
from . import events as ev
from .bounds import LONGEST_ADDRESS, room_for
from .decide import Events, own_or_admin, somebody
from .spelling import named, one_line
from .state import ADMIN, Directory, Person


def set_address(directory: Directory, by: str, changed: ev.AddressSet, *, vouches: bool = True) -> Events:
    """Set an address of a person; it waits for a code that is sent there, unless an administrator vouches for it."""
    own_or_admin(directory, by, changed.person)
    person = somebody(directory, changed.person)
    named(changed.channel, "a channel")
    one_line(changed.address, "an address", LONGEST_ADDRESS)
    same = person.addresses.get(changed.channel, "") == changed.address
    if same and (not changed.address or changed.channel in person.confirmed):
        return []
    if not changed.address:
        return [ev.AddressSet(changed.person, changed.channel, "")]
    if changed.channel not in person.addresses:
        room_for("addresses", person.addresses)
    _not_anothers(directory, person, changed.channel, changed.address)
    sure = changed.confirmed is True or (vouches and ADMIN in directory.roles_of(by))
    return [msgspec.structs.replace(changed, confirmed=sure)]


def confirm_address(
    directory: Directory, by: str, person: str, channel: str, *, fits: bool, address: str = ""
) -> Events:
    """Confirm that an address is a person's: they themselves with the code that was sent there, or an administrator.

    An administrator names the address: another one may have been set since they looked.
    """
    own_or_admin(directory, by, person)
    found = somebody(directory, person)
    if channel not in found.addresses:
        raise UserError(f"{person!r} has no address on the channel {channel!r}")
    if address not in ("", found.addresses[channel]):
        raise Conflict(f"{person!r} has another address on the channel {channel!r}: look at it, and confirm that one")
    if channel in found.confirmed:
        return []
    if not fits and (not address or ADMIN not in directory.roles_of(by)):
        names = "; an administrator names the address in place of a code" if ADMIN in directory.roles_of(by) else ""
        raise NotAllowed(f"this is not the code that was sent there, or it is older than a day: send another{names}")
    _not_anothers(directory, found, channel, found.addresses[channel])
    return [ev.AddressConfirmed(person, channel)]


def _not_anothers(directory: Directory, person: Person, channel: str, address: str) -> None:
    if directory.holder(channel, address) not in (None, person.id):
        raise Conflict("this address is confirmed for another user; an administrator can remove it there")
