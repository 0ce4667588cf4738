"""Slots that several tenants share are given in turn, and none is lost."""

from __future__ import annotations

import asyncio

from keyturn.engine.turns import SlotTurns
from tests.waiting import turns_of_the_loop


class Tenant:
    """Moves so many runs at most, and notes in a log when it is served."""

    def __init__(self, turns: SlotTurns, name: str, log: list[str], most: int = 100) -> None:
        self.turns, self.name, self.log = turns, name, log
        self.most, self.busy, self.promised = most, 0, 0
        self.leaving = False

    @property
    def own_free(self) -> int:
        return self.most - self.busy - self.promised

    async def run(self) -> bool:
        served = await self.turns.wait(self)
        if served:
            self.log.append(self.name)
            self.take(1)
        return served

    def take(self, more: int) -> None:
        self.busy += more
        self.turns.taking(more)


async def test_each_tenant_that_waits_has_one_turn_before_another_has_two() -> None:
    log = list[str]()
    turns = SlotTurns(1)
    huge, small, tiny = (Tenant(turns, name, log) for name in ("huge", "small", "tiny"))
    assert await huge.run()
    waiting = [asyncio.ensure_future(each.run()) for each in (huge, huge, huge, small, tiny, small)]
    served = {"huge": huge, "small": small, "tiny": tiny}
    while len(log) < 7:
        await turns_of_the_loop(3)
        assert turns.taken == 1
        served[log[-1]].take(-1)
    assert await asyncio.gather(*waiting) == [True] * 6
    assert log == ["huge", "huge", "small", "tiny", "huge", "small", "huge"]
    assert turns.free == 1


async def test_a_tenant_without_room_of_its_own_waits_for_no_slot() -> None:
    """Neither where it had none before, nor where what it waited for was given to another of its runs."""
    log = list[str]()
    turns = SlotTurns(1)
    one, other = Tenant(turns, "one", log, 1), Tenant(turns, "other", log)
    assert await one.run()
    assert not await one.run()
    one.take(-1)
    other.take(1)
    waiting = [asyncio.ensure_future(one.run()) for _ in range(2)]
    await turns_of_the_loop(3)
    other.take(-1)
    assert await asyncio.gather(*waiting) == [True, False]
    assert turns.free == 0


async def test_one_who_gives_up_leaves_the_slot_to_the_next() -> None:
    log = list[str]()
    turns = SlotTurns(1)
    one, other = Tenant(turns, "one", log), Tenant(turns, "other", log)
    one.take(1)
    before, at, after = (asyncio.ensure_future(each.run()) for each in (one, other, one))
    await turns_of_the_loop(3)
    before.cancel()
    await turns_of_the_loop(3)
    one.take(-1)  # it is promised to one that gives up before it takes it
    at.cancel()
    assert await after
    assert (turns.free, one.promised, other.promised) == (0, 0, 0)
    assert log == ["one"]
