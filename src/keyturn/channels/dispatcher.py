"""The dispatcher: turns a journal's notices into messages, beside the worker and never in its way.

At least once: what was not written down as delivered is sent again, after a crash too. One dispatcher at a time works
for a tenant, under a lease like a run's; any number may stand by. It holds no more in memory than what it sends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from random import Random
from typing import Any

from msgspec.structs import replace

from ..core.errors import Conflict, StorageError
from ..journal.base import RESERVED, Store
from ..journal.rows import Delivery, DeliveryQuery, Dispatch, Notice
from ..support.user_code import class_name
from .addressing import NOBODY, Addressing
from .lane import Desk, Lane
from .plan import ChannelPlan

log = logging.getLogger("keyturn.channels")

#: What a dispatcher claims; no run is called like that.
LEASE = f"{RESERVED}outbox"
TTL_MS = 30_000
_PAGE = 100
_BACKOFF = 1.0
# How long what is being sent may take when the dispatcher is stopped, in seconds.
_GRACE = 3.0
# How long it takes at most to look again, in seconds.
_AT_MOST = 15.0


class Dispatcher:
    """Delivers a journal's notices by the channels of a plan.

    >>> from keyturn import MemoryJournal
    >>> from keyturn.channels.terminal import TerminalChannel
    >>> dispatcher = Dispatcher(MemoryJournal(), ChannelPlan([TerminalChannel()]))
    >>> dispatcher.stop()
    >>> asyncio.run(dispatcher.run())
    """

    def __init__(self, store: Store, plan: ChannelPlan, *, dice: Random | None = None) -> None:
        self._store, self._plan = store, plan
        self._name = f"dispatcher {socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._dice = dice or Random()
        self._leaving = asyncio.Event()

    def stop(self) -> None:
        """Stop: what is being sent may end, for a moment; the rest is sent by whoever comes next."""
        self._leaving.set()

    async def run(self) -> None:
        """Deliver until stopped, or until the journal is closed; a store that fails is tried again."""
        while not self._leaving.is_set():
            try:
                await self._hold()
            except Conflict as error:  # another dispatcher is at work, or took over
                log.debug("standing by: %s", error)
                await self._pause(TTL_MS / 2_000)
            except StorageError as error:
                log.warning("the outbox cannot be worked on, trying again: %s", error)
                await self._pause(_BACKOFF)
            except Exception:  # it must never end while its journal is open
                if getattr(self._store, "closed", False):
                    return
                log.exception("the dispatcher failed, trying again")
                await self._pause(_BACKOFF)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._leaving.wait()

    async def _hold(self) -> None:
        """Work under the lease until stopped, or until something fails."""
        claim = await self._store.claim(LEASE, self._name, TTL_MS)
        desk = Desk(self._store, self._plan, claim, Addressing(self._store, self._plan), self._dice)
        lanes = [Lane(channel, desk) for channel in self._plan.channels]
        left = [row async for row in _left_behind(self._store)]
        jobs = [self._renew(desk), self._intake(desk, lanes), self._readdress(desk, lanes)]
        jobs += [self._suspects(desk, lanes, left), *(lane.run() for lane in lanes)]
        tasks = [asyncio.ensure_future(job) for job in jobs]
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            await _first_failure(leaving, tasks)
            await asyncio.gather(*(lane.leave(_GRACE) for lane in lanes))
        finally:
            for task in (leaving, *tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(StorageError):
                await self._store.release(desk.claim)

    async def _renew(self, desk: Desk) -> None:
        while True:
            await asyncio.sleep(TTL_MS / 3_000)
            desk.claim = await self._store.renew(desk.claim, TTL_MS)

    async def _intake(self, desk: Desk, lanes: list[Lane]) -> None:
        """Turn notices into deliveries as they come, in their order."""
        while True:
            notices = await self._store.outbox(_PAGE)
            if notices:
                await self._take_in(desk, notices)
            else:
                await self._store.notified(_AT_MOST)
            for lane in lanes:
                lane.wake()

    async def _take_in(self, desk: Desk, notices: list[Notice]) -> None:
        """Address notices in one step; where that cannot be done one by one, so that a spoiled one stops no other."""
        try:
            await desk.apply(await desk.addressing.step(notices))
        except (Conflict, StorageError):
            raise
        except Exception as error:
            if len(notices) == 1:
                said = "notice %s is dropped, it cannot be worked on: %s"
                log.error(said, notices[0].number, class_name(error))
                await desk.apply(Dispatch([notices[0].number]))
                return
            for notice in notices:
                await self._take_in(desk, [notice])

    async def _readdress(self, desk: Desk, lanes: list[Lane]) -> None:
        """Try again to say who is told of what could not be addressed."""
        query = DeliveryQuery(channel=NOBODY, state="waiting", first=True, limit=_PAGE)
        while True:
            now = await self._store.now()
            for row in [row for row in await self._store.deliveries(query) if row.due_at <= now]:
                made = await desk.addressing.addressed(row, now)
                same = [each for each in made if each.channel == NOBODY]
                step = Dispatch(changed=same) if same else Dispatch(added=made, gone=[row.number])
                await desk.apply(step)
                for lane in lanes:
                    lane.wake()
            await asyncio.sleep(min(self._plan.attempts.first, _AT_MOST))

    async def _suspects(self, desk: Desk, lanes: list[Lane], left: list[Delivery]) -> None:
        """Try, one after another and with nothing else under way, what was being sent as a process ended."""
        by_name = {lane.name: lane for lane in lanes}
        for row in sorted((row for row in left if row.channel in by_name), key=lambda row: (row.attempts, row.number)):
            if row.attempts >= self._plan.attempts.most:
                log.warning("%s %s is kept: each attempt ended its process", row.topic, row.subject)
                gone = "the process ended during the attempt"
                await desk.apply(Dispatch(changed=[_dead(row, gone)]))
                continue
            await asyncio.sleep(max(row.due_at - await self._store.now(), 0) / 1_000)
            async with desk.alone.exclusively():
                await by_name[row.channel].deliver(row, alone=True)
            by_name[row.channel].wake()


async def _first_failure(leaving: asyncio.Future[Any], tasks: list[asyncio.Task[None]]) -> None:
    """Wait until it is time to leave, or until a task fails, and raise its error."""
    left = [*tasks]  # in their order: of several that failed, the first one says why
    while not leaving.done():
        done, _ = await asyncio.wait([leaving, *left], return_when=asyncio.FIRST_COMPLETED)
        for task in (task for task in left if task in done):
            task.result()
        left = [task for task in left if task not in done]


def _dead(row: Delivery, why: str) -> Delivery:
    return replace(row, state="dead", error=why)


async def _left_behind(store: Store) -> AsyncGenerator[Delivery]:
    """Yield the deliveries that were being sent when a dispatcher ended."""
    after = 0
    while page := await store.deliveries(DeliveryQuery(state="sending", after=after)):
        for row in page:
            yield row
        after = page[-1].number
