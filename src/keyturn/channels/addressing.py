"""Turn notices into deliveries: one for each person and channel, or none where there is nothing to tell any more.

It only says what a step of the outbox changes. A notice that cannot be addressed, since `recipients` raised, becomes a
delivery by no channel, which is tried again like any other.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence

from msgspec.structs import replace

from ..core.request import Request
from ..journal.base import Store
from ..journal.rows import Delivery, DeliveryQuery, Dispatch, Notice, Query, RequestRow
from ..support.user_code import class_name
from .base import CLAIMED, RESOLVED, TOPICS, Recipient
from .plan import ChannelPlan

log = logging.getLogger("keyturn.channels")

#: Under this channel's name stands what was not addressed yet.
NOBODY = ""
LOOKED = "request.looked"
_TOPICS = frozenset({*TOPICS, CLAIMED, RESOLVED})
#: What is about no request that people see.
OTHERS = frozenset({"grant.revoked", RESOLVED})
_ABOUT_REQUESTS = _TOPICS - OTHERS
# What is no news any more once the request is over.
CALLS_FOR_DECISION = frozenset({"request.created", "request.expiring", "request.escalated", CLAIMED})
_PAGE = 200


class Addressing:
    """Names the recipients of notices, by an app's plan."""

    def __init__(self, store: Store, plan: ChannelPlan) -> None:
        self._store, self._plan = store, plan

    async def step(self, notices: Sequence[Notice]) -> Dispatch:
        """Return the step that turns notices into deliveries."""
        added, gone = list[Delivery](), set[int]()
        now = await self._store.now()
        for notice in notices:
            subject = _subject(notice)
            if notice.topic in (LOOKED, "request.decided"):
                person = notice.about.get("person") if notice.topic == LOOKED else None
                dropped = await self._given_up(subject, notice.topic, person)
                gone |= {row.number for row in dropped}
                added = [row for row in added if not _given_up(row, subject, notice.topic, person, self._books)]
            if notice.topic in _TOPICS:
                unaddressed = Delivery(NOBODY, "", notice.topic, notice.run, subject, notice.about, notice.number, now)
                added += await self.addressed(unaddressed, now)
        return Dispatch([notice.number for notice in notices], added, gone=sorted(gone))

    async def addressed(self, notice: Delivery, now: int) -> list[Delivery]:
        """Return the deliveries of one notice; itself, to be tried later, where nobody can be named now."""
        try:
            return await self._to_people(notice, now)
        except Exception as error:
            why = class_name(error)
            log.warning("the recipients of %s %s could not be determined, retrying: %s", *_named(notice), why)
            tried, attempts = notice.attempts + 1, self._plan.attempts
            state = "waiting" if tried < attempts.most else "dead"
            due = now + int(attempts.wait(tried) * 1_000)
            return [replace(notice, attempts=tried, state=state, due_at=due, error=why)]

    async def _to_people(self, notice: Delivery, now: int) -> list[Delivery]:
        request: Request | None = None
        if notice.topic in _ABOUT_REQUESTS:
            row = await self.row_of(notice)
            if row is None or (row.state != "open" and self._stale(notice, now)):
                return []
            request = row.request
        elif self._stale(notice, now):
            return []
        who = await self._plan.who_hears(self._store, notice, request)
        return [_to(notice, each, now) for each in who.values()]

    async def row_of(self, notice: Delivery) -> RequestRow | None:
        """Return the row of the request that a notice is about; None where it was erased or altered."""
        if notice.topic not in _ABOUT_REQUESTS or not notice.subject:
            return None
        found = await self._store.requests(Query(id=notice.subject))
        return found[0] if found and found[0].state != "damaged" else None

    def _stale(self, notice: Delivery, now: int) -> bool:
        at = notice.about.get("at")
        return isinstance(at, int) and now - at > self._plan.forget * 1_000

    async def _given_up(self, subject: str, topic: str, person: object) -> list[Delivery]:
        """Return the stored deliveries that are not needed any more, since somebody looked or decided."""
        found, after = list[Delivery](), 0
        while page := await self._store.deliveries(
            DeliveryQuery(subject=subject, state="waiting", after=after, limit=_PAGE)
        ):
            found += [row for row in page if _given_up(row, subject, topic, person, self._books)]
            after = page[-1].number
        return found

    @property
    def _books(self) -> frozenset[str]:
        """Return the channels that are told of everything, and what may be addressed to one of them yet."""
        books = frozenset(channel.name for channel in self._plan.channels if channel.every_event)
        return books | {NOBODY} if books else books


def _given_up(row: Delivery, subject: str, topic: str, person: object, books: frozenset[str]) -> bool:
    if row.subject != subject or row.topic not in CALLS_FOR_DECISION or row.channel in books:
        return False
    return topic != LOOKED or (row.delay > 0 and row.person == person)


def _to(notice: Delivery, who: Recipient, now: int) -> Delivery:
    """Return one delivery, due when its recipient wants it: at once, some time later, or with a digest.

    A warning before expiry does not wait: it would come when it is too late.
    """
    waits = notice.topic != "request.expiring"
    delay = int(who.after * 1_000) if waits and notice.topic in CALLS_FOR_DECISION else 0
    due = max(now + delay, int(notice.about.get("since", 0)))
    if who.digest and waits:
        window = max(int(who.digest * 1_000), 1)
        due = max(due, math.ceil((now + 1) / window) * window)
    return replace(
        notice, channel=who.channel, person=who.person, due_at=due, delay=delay, attempts=0, error="", number=0
    )


def _subject(notice: Notice) -> str:
    for name in ("request", "grant"):
        given = notice.about.get(name)
        if isinstance(given, str) and given.isascii() and given.isprintable():  # ours are hexadecimal
            return given
    return ""


def _named(notice: Delivery) -> tuple[str, str]:
    return notice.topic, notice.subject
