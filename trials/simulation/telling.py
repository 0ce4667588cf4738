"""Those who are told: a channel that fails or ends its process at times, and the books of what was told.

Every notice that became durable must be told at least once, whoever dies; that it is told twice is no fault.
"""

from __future__ import annotations

import asyncio
from typing import Any

from keyturn.channels.base import CLAIMED, TOPICS, Channel, Message, Recipient
from keyturn.channels.dispatcher import LEASE, Dispatcher
from keyturn.channels.plan import Attempts, ChannelPlan
from keyturn.core.errors import Conflict
from keyturn.journal.rows import DeliveryQuery

from .world import World

_ATTEMPTS = Attempts(most=60, first=1.0, longest=20.0)
_YEARS = 1e9


class Books(Channel):
    """Is told of everything, and writes it down in the world."""

    name = "books"
    every_event = True
    sends_topics = frozenset({*TOPICS, CLAIMED})

    def __init__(self, world: World) -> None:
        self._world = world

    async def callers(self, _store: Any, _run: str, _at: int) -> list[Recipient]:
        """It is what each caller outside is told by."""
        return [Recipient(person="", channel=self.name)]

    async def send(self, message: Message) -> None:
        world, dice = self._world, self._world.telling_dice
        roll = 1.0 if world.calm else dice.random()
        if roll < 0.1:
            raise OSError("the channel cannot be reached")
        if roll < 0.2:
            await asyncio.sleep(dice.choice((0.1, 5.0, 60.0)))
        if roll < 0.24 and world.plan.death_rate:
            await world.die()
        world.told_of.add((message.topic, message.run, message.request))
        world.count("told")
        if roll > 0.97 and world.plan.death_rate and not world.calm:
            await world.die()


def dispatcher(world: World, store: Any) -> Dispatcher:
    """One process's dispatcher."""
    plan = ChannelPlan([Books(world)], attempts=_ATTEMPTS, forget=_YEARS)
    return Dispatcher(store, plan, dice=world.telling_dice)


async def tell_all(world: World) -> None:
    """In the calm whatever is left is told; nothing was lost, and nobody holds the outbox any more."""
    store: Any = world.store
    at_work = dispatcher(world, store)
    task = asyncio.ensure_future(at_work.run())
    await asyncio.sleep(90.0)  # by now the lease of whoever died has run out
    for _ in range(2_000):
        await asyncio.sleep(1.0)
        if not await store.outbox(1) and not await store.deliveries(DeliveryQuery(limit=1)):
            break
    at_work.stop()
    await task
    for topic, run, request in sorted(world.noticed - world.told_of):
        world.wrong(f"run {run[:4]}: nobody was told {topic} of {request[:6]}")
    try:
        await store.release(await store.claim(LEASE, "who looks", 1_000))
    except Conflict as held:
        world.wrong(f"the outbox is still held: {held}")
