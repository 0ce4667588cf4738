"""Deliver what waits for one channel: in order for each request and person, several people at once, each at most once.

An attempt is written down before it is made, so that a message which ends the process each time is counted, too.
Whoever cannot be reached is left alone for a while, longer each time (backoff), and holds up nobody else; what is given
up in the end is a dead letter.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from msgspec.structs import replace

from ..core.encodable import in_milliseconds, moment
from ..core.errors import Conflict, StorageError, UserError
from ..journal.base import Claim, Store
from ..journal.rows import Delivery, DeliveryQuery, Dispatch
from ..support.user_code import RaisedByUser, answer_of, class_name, contained
from .addressing import CALLS_FOR_DECISION, OTHERS, Addressing
from .base import Channel, ChannelBusy, ChannelRefused, Recipient
from .messages import NoticedRequest, message_of
from .plan import ChannelPlan

log = logging.getLogger("keyturn.channels")

_PAGE = 20
# The most that one digest tells of.
_TOGETHER = 100
_HOUR_MS = 3_600_000
# After so many attempts a delivery goes by itself, or for its last one: what spoils a digest spoils no others then.
_ALONE_AFTER = 6
# How long a delivery is put off at most before its recipient's wishes are looked at again: they may have changed.
_PUT_OFF = 900_000
# How long a receiver may ask to be left alone, in seconds.
_LONGEST_BUSY = 86_400.0


@dataclass(slots=True)
class Desk:
    """Holds what all lanes of a dispatcher share."""

    store: Store
    plan: ChannelPlan
    claim: Claim
    addressing: Addressing
    dice: Random
    #: Held by a suspect alone: what may end the process is tried while nothing else is under way.
    alone: Shared = field(default_factory=lambda: Shared())

    async def apply(self, step: Dispatch) -> None:
        """Apply a step under the dispatcher's claim as it is now."""
        await self.store.dispatch(self.claim, step)


class Shared:
    """A lock that many share, or one has alone.

    >>> async def both():
    ...     lock = Shared()
    ...     async with lock.together():
    ...         return lock.count
    >>> asyncio.run(both())
    1
    """

    def __init__(self) -> None:
        self.count = 0
        self._changed = asyncio.Condition()
        self._alone = False

    def together(self) -> _Held:
        """Hold it beside others, once nobody has it alone."""
        return _Held(self, alone=False)

    def exclusively(self) -> _Held:
        """Hold it alone, once the others are done."""
        return _Held(self, alone=True)

    async def take(self, *, alone: bool) -> None:
        """Wait until it can be held."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            if not alone:
                self.count += 1
                return
            self._alone = True
            try:
                await self._changed.wait_for(lambda: not self.count)
            except BaseException:
                self._alone = False
                self._changed.notify_all()
                raise

    async def drop(self, *, alone: bool) -> None:
        """Let go of it."""
        async with self._changed:
            self._alone = self._alone and not alone
            self.count -= 0 if alone else 1
            self._changed.notify_all()


class _Held:
    """Holds a shared lock for the time of a block."""

    def __init__(self, lock: Shared, *, alone: bool) -> None:
        self._lock, self._how = lock, alone

    async def __aenter__(self) -> None:
        await self._lock.take(alone=self._how)

    async def __aexit__(self, *_raised: object) -> None:
        await asyncio.shield(self._lock.drop(alone=self._how))


class Lane:
    """Delivers by one channel, until it is cancelled."""

    def __init__(self, channel: Channel, desk: Desk) -> None:
        self._channel, self._desk = channel, desk
        self._busy = dict[str, asyncio.Task[None]]()
        # Until when each person is left alone, and which deliveries failed since they were reached.
        self._held = dict[str, tuple[int, frozenset[int]]]()
        self._sent = dict[str, deque[int]]()
        self._woken = asyncio.Event()
        self._leaving = False

    @property
    def name(self) -> str:
        """Return the name of its channel."""
        return self._channel.name

    async def leave(self, seconds: float) -> None:
        """Begin nothing more, and let what was begun end for some seconds."""
        self._leaving = True
        if self._busy:
            await asyncio.wait([*self._busy.values()], timeout=seconds)

    def wake(self) -> None:
        """Look again: there may be more to deliver."""
        self._woken.set()

    async def run(self) -> None:
        """Deliver what is due, and wait for more."""
        try:
            while True:
                self._woken.clear()
                wait = await self._fill()
                await self._rest(wait)
        finally:
            for task in self._busy.values():
                task.cancel()
            if self._busy:
                await asyncio.wait(self._busy.values())

    async def _fill(self) -> float | None:
        """Begin what is due as far as there is room; return after how many seconds there is more, if that is known."""
        now = await self._desk.store.now()
        self._held = {person: held for person, held in self._held.items() if held[0] > now - _HOUR_MS}
        waits = [until for until, _ in self._held.values() if until > now]
        if self._leaving:
            return None
        while (before := len(self._busy)) < self._channel.at_once:  # a page may be of one person, whom others follow
            for row in await self._waiting(now):
                if row.due_at > now:
                    waits.append(row.due_at)
                    break
                if row.person not in self._busy and len(self._busy) < self._channel.at_once:
                    self._busy[row.person] = asyncio.ensure_future(self._turn(row))
            if len(self._busy) == before:
                break
        return (min(waits) - now) / 1_000 if waits else None

    async def _waiting(self, now: int) -> list[Delivery]:
        """Return what waits longest, for those who are told of nothing now and are not left alone."""
        left_alone = tuple({*self._busy, *(person for person, (until, _) in self._held.items() if until > now)})
        query = DeliveryQuery(channel=self._channel.name, state="waiting", first=True, without=left_alone, limit=_PAGE)
        return await self._desk.store.deliveries(query)

    async def _rest(self, wait: float | None) -> None:
        """Wait until something is done, somebody wakes the lane, or the time has come."""
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            ends = [woken, *self._busy.values()]
            await asyncio.wait(ends, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        for person, task in list(self._busy.items()):
            if task.done():
                del self._busy[person]
                task.result()

    async def _turn(self, row: Delivery) -> None:
        async with self._desk.alone.together():
            await self.deliver(row)

    async def deliver(self, row: Delivery, *, alone: bool = False) -> None:
        """Try one delivery once, and write down what came of it; `alone` it takes no others along."""
        desk, attempts = self._desk, self._desk.plan.attempts
        now, tried = await desk.store.now(), row.attempts + 1
        wait = attempts.wait(tried) * desk.dice.uniform(0.5, 1.5)
        begun = replace(row, state="sending", attempts=tried, due_at=now + int(wait * 1_000))
        await desk.apply(Dispatch(changed=[begun]))
        rows = [begun]
        try:
            with contained:
                outcome = await self._tried(row, rows, now, alone=alone)
        except (Conflict, StorageError):
            raise
        except asyncio.CancelledError:  # it did not end its process, and is no suspect
            with suppress(Conflict, StorageError):
                await asyncio.shield(desk.apply(Dispatch(changed=[_waits(each) for each in rows])))
            raise
        except Exception as error:
            outcome = await self._failed(rows, error, wait)
        await desk.apply(outcome)

    async def _tried(self, row: Delivery, rows: list[Delivery], now: int, *, alone: bool) -> Dispatch:
        """Send a delivery, together with what else waits for its recipient; or put it off, or give it up."""
        noticed = await self._noticed(row)
        if noticed is None:
            return Dispatch(gone=[row.number])
        who = await self._recipient(row, noticed)
        if who is None:
            return Dispatch(added=await self._instead(row, noticed, now), gone=[row.number])
        until = self._put_off(who, now)
        if until is not None:
            later = min(until, now + _PUT_OFF)
            return Dispatch(
                changed=[replace(each, state="waiting", due_at=later) for each in [row, *await self._due(row, now)]]
            )
        told = [noticed]
        if not alone and self._combines(who):
            told += await self._others(row, now)
        if len(told) > 1:
            rows[1:] = [replace(rows[0], **_counted(each.delivery)) for each in told[1:]]
            await self._desk.apply(Dispatch(changed=rows[1:]))
        tenant = getattr(self._desk.store, "tenant", "default")
        message = await asyncio.to_thread(message_of, told, who, tenant, self._desk.plan.link)
        async with asyncio.timeout(self._channel.timeout):
            await answer_of(self._channel.send, message)
        self._held.pop(row.person, None)
        self._sent.setdefault(row.person, deque(maxlen=10_000)).append(now)
        sent_at = await self._desk.store.now()
        return Dispatch(changed=[replace(each, state="sent", sent_at=sent_at, error="") for each in rows])

    async def _noticed(self, row: Delivery) -> NoticedRequest | None:
        """Return a delivery with its request as it is now; None where it is no news any more."""
        found = await self._desk.addressing.row_of(row)
        if found is None:
            return NoticedRequest(row) if row.topic in OTHERS else None
        asks = found.request.revision
        over = found.state != "open" or row.about.get("revision", asks) != asks  # which has a notice of its own
        drops = over and row.topic in CALLS_FOR_DECISION and not self._channel.every_event
        return None if drops else NoticedRequest(row, found)

    async def _others(self, row: Delivery, now: int) -> list[NoticedRequest]:
        """Return what else is due for the same recipient, but for what was tried too often.

        Somebody who could not be reached is told one thing first: where that is taken, the rest goes together.
        """
        if row.attempts >= self._alone_after or row.person in self._held:
            return []
        due = [each for each in await self._due(row, now) if each.attempts < self._alone_after]
        found = [(each, await self._noticed(each)) for each in due]
        return [noticed for each, noticed in found if noticed and await self._recipient(each, noticed) is not None]

    @property
    def _alone_after(self) -> int:
        """Return after how many attempts a delivery goes by itself; it has one by itself before it is given up."""
        return max(min(_ALONE_AFTER, self._desk.plan.attempts.most - 1), 1)

    async def _due(self, row: Delivery, now: int) -> list[Delivery]:
        """Return what else is due for the person of a delivery, as much as one message tells of."""
        query = DeliveryQuery(channel=row.channel, person=row.person, state="waiting", first=True, limit=_TOGETHER)
        found = await self._desk.store.deliveries(query)
        return [each for each in found if each.due_at <= now and each.number != row.number]

    async def _recipient(self, row: Delivery, noticed: NoticedRequest) -> Recipient | None:
        """Return the recipient of a delivery as they are now; None where they are not to hear of it any more."""
        who = await self._desk.plan.who_hears(self._desk.store, row, noticed.request)
        return who.get((row.channel, row.person))

    async def _instead(self, row: Delivery, noticed: NoticedRequest, now: int) -> list[Delivery]:
        """Return the deliveries to those who hear of it where nobody else is left who can be told."""
        left = (await self._desk.plan.who(noticed.request)).values()
        if row.topic not in CALLS_FOR_DECISION or not all(each.otherwise for each in left):
            return []
        return await self._desk.addressing.addressed(row, now)

    def _combines(self, who: Recipient) -> bool:
        """Return whether what else waits for a recipient goes into the same message."""
        return self._channel.combine and any(wish is not None for wish in (who.digest, who.quiet, who.rate))

    def _put_off(self, who: Recipient, now: int) -> int | None:
        """Return until when a recipient does not want to be told; None if they do."""
        if who.muted_until is not None and who.muted_until > now:
            return who.muted_until
        quiet = None if who.quiet is None else who.quiet.until(moment(now))
        if quiet is not None:
            return in_milliseconds(quiet)
        sent = self._sent.setdefault(who.person, deque(maxlen=10_000))
        while sent and sent[0] <= now - _HOUR_MS:
            sent.popleft()
        return sent[0] + _HOUR_MS if who.rate is not None and len(sent) >= who.rate else None

    async def _failed(self, rows: list[Delivery], error: BaseException, wait: float) -> Dispatch:
        """Say what becomes of deliveries that failed: later, or dead; leave their recipient alone meanwhile.

        What is refused of several is refused of none of them yet: each goes by itself.
        """
        now, most = await self._desk.store.now(), self._desk.plan.attempts.most
        refused = isinstance(error, ChannelRefused)
        busy = min(error.seconds, _LONGEST_BUSY) if isinstance(error, ChannelBusy) else 0.0
        wait = max(wait, busy)
        changed = list[Delivery]()
        for row in rows:
            dead = len(rows) == 1 if refused else row.attempts >= most
            tried = max(row.attempts, self._alone_after) if refused else row.attempts
            told = {"state": "dead" if dead else "waiting", "attempts": row.attempts if dead else tried}
            changed.append(replace(row, **told, due_at=now + int(wait * 1_000), error=_words(error)))
            if dead:
                said = "%s to %s by %r was not delivered, it is a dead letter (`keyturn notifications list`): %s"
                log.warning(said, row.topic, row.person or "the channel", row.channel, _words(error))
        if not refused:
            self._leave_alone(rows, now, busy)
        return Dispatch(changed=changed)

    def _leave_alone(self, rows: list[Delivery], now: int, busy: float) -> None:
        """Leave somebody alone for longer the more of their messages failed: of one message it may be the fault."""
        person = rows[0].person
        failed = self._held.get(person, (0, frozenset[int]()))[1] | {rows[0].number}
        pause = max(busy, self._desk.plan.attempts.wait(len(failed)) * self._desk.dice.uniform(0.5, 1.5))
        self._held[person] = (now + int(pause * 1_000), failed)


def _waits(row: Delivery) -> Delivery:
    return replace(row, state="waiting")


def _counted(other: Delivery) -> dict[str, Any]:
    """Return what of a delivery is its own, where all else is that of the one it goes with."""
    return {
        "number": other.number,
        "topic": other.topic,
        "run": other.run,
        "subject": other.subject,
        "about": other.about,
        "notice": other.notice,
        "attempts": other.attempts + 1,
    }


def _words(error: BaseException) -> str:
    """Return why an attempt failed: in our own words, else by its kind alone, since others quote addresses."""
    ours = isinstance(error, ChannelRefused | ChannelBusy | UserError) and not isinstance(error, RaisedByUser)
    words = f"{class_name(error)}: {error}" if ours else class_name(error)
    return words[:300].encode("ascii", "backslashreplace").decode().replace("\0", "?")
