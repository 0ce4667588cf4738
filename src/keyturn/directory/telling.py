"""Say who is told of requests: the people who may decide them, at the addresses that they keep in the directory."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from ..channels.base import Recipient
from ..core.people import barred
from ..core.request import Request
from ..journal import opened
from ..journal.base import Store
from .people import People

#: The setting of a person until when they are told of nothing, in milliseconds since 1970.
MUTED = "muted_until"
_LONGEST_MS = 31 * 86_400_000


def deciders(store: Store | str) -> Callable[[Request | None], Coroutine[Any, Any, list[Recipient]]]:
    """Return the `recipients` of a `ChannelPlan` that tells whoever may decide a request, at all their addresses.

    Who has muted themselves is told when that time is over.

    >>> from keyturn import MemoryJournal
    >>> deciders(MemoryJournal()).__name__
    'told'
    """
    kept = opened(store) if isinstance(store, str) else store
    people = People(kept)

    async def told(request: Request | None) -> list[Recipient]:
        now, directory = await kept.now(), await people.directory()
        terms = None if request is None else request.terms_now
        if terms is not None:  # whether it is signed is seen where it is said
            terms = msgspec.structs.replace(terms, signed=False, step_up=False)
        requester = None if request is None else request.requester
        found = list[Recipient]()
        for person in directory.people.values():
            who = directory.decider(person.id, now, "authenticated", terms, requester)
            if who is None or person.kind == "machine" or barred(terms, who, requester):
                continue
            muted = _muted(person.settings.get(MUTED), now)
            for channel, address in person.addresses.items():
                found.append(Recipient(person=person.id, channel=channel, address=address, muted_until=muted))
        return found

    return told


def _muted(until: object, now: int) -> int | None:
    """Return until when somebody is told of nothing, a month at most: what they set themselves keeps nobody waiting."""
    if not isinstance(until, int) or isinstance(until, bool) or until <= now:
        return None
    return min(until, now + _LONGEST_MS)
