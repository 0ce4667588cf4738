"""The shared suite of the journal room's third seam: the outbox, from notices to deliveries.

A store that keeps an outbox subclasses it beside the other two. What it stands on is `journal_case.py`.
"""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from ...core.errors import Conflict
from ...journal.base import Claim, Store
from ...journal.rows import Changes, Delivery, DeliveryQuery, Dispatch, Notice
from .journal_case import JournalCase
from .records import run_row

_LEASE = "outbox/test"
_MINUTE = 60_000


def delivery(subject: str = "q1", channel: str = "mail", person: str = "ada", due_at: int = 0) -> Delivery:
    """Make a delivery, for tests of stores.

    >>> delivery("q2").subject
    'q2'
    """
    return Delivery(channel, person, "request.created", "run", subject, {"n": [1, "é"]}, 3, due_at)


class OutboxSuite(JournalCase):
    """Tests the outbox of a store; subclass it beside `JournalSuite` and `RecordsSuite`.

    >>> issubclass(OutboxSuite, JournalCase)
    True
    """

    async def held(self, journal: Store) -> Claim:
        """Claim what a dispatcher claims."""
        return await journal.claim(_LEASE, "dispatcher", _MINUTE)

    async def test_notices_become_deliveries_in_one_step(self, journal: Store) -> None:
        claim = await self.held(journal)
        await journal.tell([Notice("t", "run", {"n": place}) for place in range(3)])
        told = await journal.outbox()
        await journal.dispatch(claim, Dispatch([told[0].number, told[1].number], [delivery("q1"), delivery("q2")]))
        assert [notice.about for notice in await journal.outbox()] == [{"n": 2}]
        one, two = await journal.deliveries(DeliveryQuery())
        assert msgspec.structs.replace(one, number=0) == delivery("q1")
        assert (one.number < two.number, two.subject) == (True, "q2")

    async def test_only_the_notices_that_were_read_are_deleted(self, journal: Store) -> None:
        """One with a lower number may be committed later."""
        claim = await self.held(journal)
        await journal.tell([Notice("t", "run", {"n": place}) for place in range(3)])
        told = await journal.outbox()
        await journal.dispatch(claim, Dispatch([told[2].number]))
        assert [notice.about for notice in await journal.outbox(done=[told[1].number])] == [{"n": 0}]

    async def test_a_dispatcher_that_was_replaced_changes_nothing(self, journal: Store) -> None:
        old = await self.held(journal)
        await journal.tell([Notice("t", "run")])
        [told] = await journal.outbox()
        await journal.release(old)
        await self.held(journal)
        with pytest.raises(Conflict):
            await journal.dispatch(old, Dispatch([told.number], [delivery()]))
        assert (len(await journal.outbox()), await journal.deliveries(DeliveryQuery())) == (1, [])

    async def test_what_a_dispatcher_claims_is_no_run(self, journal: Store) -> None:
        await journal.release(await self.held(journal), await journal.now())
        await self.held(journal)
        await self.pass_time(2 * _MINUTE)
        assert (await journal.due(), await journal.runs(), await journal.read(_LEASE)) == ([], [], [])

    async def test_changes_and_ends_are_kept(self, journal: Store) -> None:
        claim = await self.held(journal)
        await journal.dispatch(claim, Dispatch(added=[delivery(), delivery("q2"), delivery("q3")]))
        one, two, three = await journal.deliveries(DeliveryQuery())
        failed = msgspec.structs.replace(one, due_at=9, attempts=2, state="sending", error="no \U0001f512")
        lost = msgspec.structs.replace(two, number=2**40)
        await journal.dispatch(claim, Dispatch(changed=[failed, lost], gone=[three.number, 2**40]))
        assert await journal.deliveries(DeliveryQuery()) == [failed, two]
        assert await journal.deliveries(DeliveryQuery(state="sending")) == [failed]
        assert await journal.deliveries(DeliveryQuery(subject="q2", person="ada", channel="mail")) == [two]
        assert await journal.deliveries(DeliveryQuery(after=one.number, limit=1)) == [two]

    async def test_what_was_sent_is_kept_and_holds_up_nothing(self, journal: Store) -> None:
        claim = await self.held(journal)
        await journal.dispatch(claim, Dispatch(added=[delivery(), delivery(due_at=1)]))
        one, two = await journal.deliveries(DeliveryQuery())
        sent = msgspec.structs.replace(one, state="sent", sent_at=5)
        await journal.dispatch(claim, Dispatch(changed=[sent]))
        assert await journal.deliveries(DeliveryQuery()) == await journal.deliveries(DeliveryQuery(first=True)) == [two]
        assert await journal.deliveries(DeliveryQuery(sent=True, subject="q1")) == [sent, two]
        assert await journal.deliveries(DeliveryQuery(state="sent", sent=True)) == [sent]
        assert await journal.send_again([one.number]) == 0

    async def test_one_about_the_same_thing_waits_for_the_former(self, journal: Store) -> None:
        """The order per request, person and channel holds; nothing else waits."""
        claim = await self.held(journal)
        others = [delivery("q2", due_at=7), delivery("q1", "push", due_at=8), delivery("q1", person="bob", due_at=9)]
        await journal.dispatch(claim, Dispatch(added=[delivery("q1", due_at=50), delivery("q1", due_at=1), *others]))
        first = await journal.deliveries(DeliveryQuery(first=True))
        assert [row.due_at for row in first] == [7, 8, 9, 50]
        assert [row.due_at for row in await journal.deliveries(DeliveryQuery(first=True, channel="mail"))] == [7, 9, 50]
        dead = msgspec.structs.replace(first[-1], state="dead")
        await journal.dispatch(claim, Dispatch(changed=[dead]))
        assert [row.due_at for row in await journal.deliveries(DeliveryQuery(first=True))] == [1, 7, 8, 9]
        bob = await journal.deliveries(DeliveryQuery(first=True, without=("ada", "eve")))
        assert [row.due_at for row in bob] == [9]

    async def test_dead_ones_are_sent_again(self, journal: Store) -> None:
        claim = await self.held(journal)
        await journal.dispatch(claim, Dispatch(added=[delivery(), delivery("q2")]))
        one, two = await journal.deliveries(DeliveryQuery())
        dead = msgspec.structs.replace(one, attempts=5, state="dead", error="gone")
        await journal.dispatch(claim, Dispatch(changed=[dead]))
        assert await journal.send_again([one.number, one.number, two.number, 2**40]) == 1
        again = (await journal.deliveries(DeliveryQuery(subject="q1")))[0]
        assert (again.state, again.attempts, again.error) == ("waiting", 0, "")
        assert abs(again.due_at - await self.now()) <= max(self.slack, 0)

    async def test_tenants_are_apart(self, journal: Store) -> None:
        other: Store = self.of(journal, "other")  # type: ignore[assignment]  # of a store comes a store
        mine, theirs = await self.held(journal), await self.held(other)
        await journal.tell([Notice("t", "run")])
        [notice] = await journal.outbox()
        await journal.dispatch(mine, Dispatch(added=[delivery()]))
        row = (await journal.deliveries(DeliveryQuery()))[0]
        dead = msgspec.structs.replace(row, state="dead")
        await other.dispatch(theirs, Dispatch([notice.number], changed=[dead], gone=[row.number]))
        assert await other.send_again([row.number]) == 0
        assert (await other.deliveries(DeliveryQuery()), await journal.deliveries(DeliveryQuery())) == ([], [row])
        assert await journal.outbox() == [notice]

    async def test_what_no_store_can_keep_is_asked_for_in_vain(self, journal: Store) -> None:
        await journal.tell([Notice("t\0", "run\ud800")])
        assert [(notice.topic, notice.run) for notice in await journal.outbox()] == [("t?", "run?")]
        assert await journal.deliveries(DeliveryQuery(person="a\0")) == []

    async def test_an_erasure_takes_what_is_under_way(self, journal: Store) -> None:
        claim = await self.held(journal)
        await journal.append("run", 0, [b"1"], None, Changes(run_row("run")))
        await journal.dispatch(claim, Dispatch(added=[delivery()]))
        await journal.erase("run")
        assert await journal.deliveries(DeliveryQuery()) == []

    async def test_who_delivers_is_woken(self, journal: Store) -> None:
        door: Store = await self.door(journal)  # type: ignore[assignment]  # a door to a store is a store
        claim = await self.held(journal)
        for wakes in (
            lambda: journal.tell([Notice("t", "run")]),
            lambda: journal.append("run", 0, [b"1"], None, Changes(run_row("run"), notices=[Notice("t", "run")])),
        ):
            waiting = asyncio.ensure_future(door.notified(20))
            await asyncio.sleep(0)
            await wakes()
            async with asyncio.timeout(10):
                await waiting
                await door.notified(20)  # at once: they are still there
            await journal.dispatch(claim, Dispatch([notice.number for notice in await journal.outbox()]))
        await journal.notified(0.01)
