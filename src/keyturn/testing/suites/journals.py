"""The shared suite of the journal room: what every journal promises, whoever wrote it.

Subclass `JournalSuite`, say how a journal is made, and pytest runs the rest with pytest-asyncio. What only one store
can promise (a file that outlives the process, a server that goes away) is tested beside that store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest

from ...core.errors import Conflict
from ...journal.base import Claim, Journal, Lease, LostRace, leases_along
from .journal_case import JournalCase, seen

ODD_IDS = (
    "run", "Run", "run ", "RUN%", "r_n", "run%", "%", "_", "*", "o'brien\"; --", "'; DROP TABLE events; --", "a\\'b",
    "$.run", "run[0]", "../run", "run/../run", "{run}", "run\n", "東京/京都", "é", "e\u0301", "\u202e", "🔑", "r" * 200,
)  # fmt: skip
MINUTE = 60_000


class JournalSuite(JournalCase):
    """Tests a journal: subclass it in a test module, name the class `Test...`, and implement `make_journal`.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> class TestMemoryJournal(JournalSuite):
    ...     async def make_journal(self):
    ...         return MemoryJournal(self.clock)
    >>> hasattr(TestMemoryJournal, "test_a_new_run_is_empty")
    True
    """

    async def test_it_is_a_journal(self, journal: Journal) -> None:
        assert isinstance(journal, Journal)

    async def test_a_new_run_is_empty(self, journal: Journal) -> None:
        assert (await journal.head("new"), await journal.read("new"), await journal.read("new", 5)) == (0, [], [])
        assert await journal.due() == []
        with pytest.raises(LostRace):
            await journal.append("new", 1, [b"second"])
        assert await journal.head("new") == 0

    async def test_lines_come_back_in_order(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1", b"2"])
        await journal.append("run", 2, [b"3"])
        await journal.append("run", 3, [])
        assert await journal.head("run") == 3
        assert [await journal.read("run", after) for after in range(5)] == [
            [b"1", b"2", b"3"], [b"2", b"3"], [b"3"], [], [],
        ]  # fmt: skip
        assert [await journal.read("run", after, 2) for after in range(5)] == [
            [b"1", b"2"], [b"2", b"3"], [b"3"], [], [],
        ]  # fmt: skip
        assert await journal.read("none", 0, 2) == []

    async def test_what_is_read_is_a_copy(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1"])
        (await journal.read("run")).clear()
        assert await journal.read("run") == [b"1"]

    @pytest.mark.parametrize("expected", [0, 1, 3, 99, -1])
    async def test_a_lost_race_changes_nothing(self, journal: Journal, expected: int) -> None:
        await journal.append("run", 0, [b"1", b"2"])
        for lines in ([b"3"], []):
            with pytest.raises(LostRace):
                await journal.append("run", expected, lines)
        assert await journal.read("run") == [b"1", b"2"]

    async def test_a_batch_is_all_or_nothing(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1"])
        bad: Any = [b"2", None, b"3"]
        with pytest.raises(Exception, match=r"\S"):
            await journal.append("run", 1, bad)
        assert await journal.read("run") == [b"1"]
        await journal.append("run", 1, [b"2", b"3"])
        assert await journal.read("run") == [b"1", b"2", b"3"]

    async def test_many_appenders_keep_every_line_once_and_in_order(self, journal: Journal) -> None:
        doors = [await self.door(journal) for _ in range(4)]
        final = 50 * 3

        async def appends(name: int) -> None:
            door = doors[name % len(doors)]
            for part in range(2):
                lines = [b"%d.%d.%d" % (name, part, line) for line in range(1 + part)]
                while True:
                    head = await door.head("run")
                    await asyncio.sleep(0)  # let the others in between, even where the store never waits
                    try:
                        await door.append("run", head, lines)
                    except LostRace:
                        continue
                    break

        watched = asyncio.ensure_future(seen(doors[-1], "run", final))
        await asyncio.gather(*(appends(name) for name in range(50)))
        lines = await journal.read("run")
        assert await watched == lines
        wanted = sorted(b"%d.%d.%d" % (n, p, line) for n in range(50) for p in range(2) for line in range(1 + p))
        assert sorted(lines) == wanted
        places = {line: place for place, line in enumerate(lines)}
        for name in range(50):
            first, *batch = (places[b"%d.%d.%d" % (name, *part)] for part in ((0, 0), (1, 0), (1, 1)))
            assert first < batch[0] == batch[1] - 1

    async def test_runs_whose_ids_look_alike_are_different_runs(self, journal: Journal) -> None:
        for run in ODD_IDS:
            await journal.append(run, 0, [run.encode()])
        assert [await journal.read(run) for run in ODD_IDS] == [[run.encode()] for run in ODD_IDS]
        claims = [await journal.claim(run, run, MINUTE) for run in ODD_IDS]
        assert [(claim.run, claim.worker, claim.epoch) for claim in claims] == [(run, run, 1) for run in ODD_IDS]
        await journal.release(claims[0], due=await self.now())
        assert await journal.due() == [ODD_IDS[0]]

    async def test_tenants_do_not_see_each_other(self, journal: Journal) -> None:
        other, odd = self.of(journal, "other"), self.of(journal, "o'brien_%")
        await journal.append("run", 0, [b"1"])
        await other.append("run", 0, [b"2", b"3"])
        mine, theirs = await journal.claim("run", "w1", MINUTE), await other.claim("run", "w2", MINUTE)
        assert [await view.read("run") for view in (journal, other, odd)] == [[b"1"], [b"2", b"3"], []]
        with pytest.raises(Conflict):
            await odd.append("run", 0, [b"4"], mine)
        with pytest.raises(Conflict):
            await journal.append("run", 1, [b"4"], theirs)
        await other.release(theirs, due=await self.now())
        assert [await view.due() for view in (journal, other, odd)] == [[], ["run"], []]
        assert await self.of(journal, "other").read("run") == [b"2", b"3"]

    async def test_a_claim_is_exclusive(self, journal: Journal) -> None:
        doors = [await self.door(journal) for _ in range(4)]
        tried = [door.claim("run", f"w{number}", MINUTE) for number, door in enumerate(doors * 5)]
        won, lost = await _settled(tried)
        assert (len(won), len(lost), won[0].epoch) == (1, 19, 1)
        assert {error.winner for error in lost} == {won[0].worker}
        with pytest.raises(Conflict):
            await journal.claim("run", won[0].worker, MINUTE)
        await journal.claim("another run", "w", MINUTE)

    async def test_each_claim_has_a_higher_epoch(self, journal: Journal) -> None:
        claims: list[Claim] = []
        for number in range(6):
            claims.append(await journal.claim("run", f"w{number % 2}", MINUTE))
            if number % 2:
                await journal.release(claims[-1])
            else:
                await self.pass_time(MINUTE)
        assert all(before.epoch < after.epoch for before, after in pairwise(claims))

    async def test_a_claim_ends_when_its_time_is_up(self, journal: Journal) -> None:
        first = await journal.claim("run", "w1", MINUTE)
        assert 0 <= MINUTE - (first.until - await self.now()) <= self.slack
        await self.pass_time(MINUTE - self.slack - 1)
        with pytest.raises(Conflict, match="w1"):
            await journal.claim("run", "w2", MINUTE)
        await self.pass_time(self.slack + 1)
        await journal.append("run", 0, [b"late, but nobody took over"], first)
        assert (await journal.claim("run", "w2", MINUTE)).worker == "w2"

    async def test_a_claim_says_how_many_holders_before_it_died_without_a_line(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1"])
        for lost in range(3):
            assert (await journal.claim("run", f"w{lost}", MINUTE)).lost == lost
            await self.pass_time(MINUTE)
        await journal.append("run", 1, [b"what others append tells nothing of a holder"])
        last = await journal.claim("run", "w3", MINUTE)
        assert last.lost == 3
        await journal.append("run", 2, [b"3"], last)
        await self.pass_time(MINUTE)
        after = await journal.claim("run", "w4", MINUTE)
        assert after.lost == 0
        await self.pass_time(MINUTE)
        released = await journal.claim("run", "w5", MINUTE)
        assert released.lost == 1
        await journal.release(released)
        assert (await journal.claim("run", "w6", MINUTE)).lost == 0

    async def test_a_claim_can_be_renewed(self, journal: Journal) -> None:
        first = await journal.claim("run", "w1", MINUTE)
        await self.pass_time(MINUTE - self.slack - 1)
        longer = await journal.renew(first, MINUTE)
        assert (longer.run, longer.worker, longer.epoch) == ("run", "w1", first.epoch)
        assert 0 <= MINUTE - (longer.until - await self.now()) <= self.slack
        await self.pass_time(MINUTE - self.slack - 1)
        with pytest.raises(Conflict, match="w1"):
            await journal.claim("run", "w2", MINUTE)
        await journal.append("run", 0, [b"1"], first)
        await journal.append("run", 1, [b"2"], longer)

    async def test_an_outdated_claim_is_fenced_off(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1"])
        old = await journal.claim("run", "old", MINUTE)
        await self.pass_time(MINUTE)
        new = await journal.claim("run", "new", MINUTE)
        await journal.append("run", 1, [b"2"], new)
        # Both positions: losing the race as well must not hide that the run was taken over.
        for refused in (journal.append("run", 2, [b"x"], old), journal.append("run", 1, [b"x"], old)):
            with pytest.raises(Conflict, match="new") as caught:
                await refused
            assert caught.value.winner == "new"
        with pytest.raises(Conflict, match="new"):
            await journal.renew(old, MINUTE)
        await journal.release(old, due=0)
        await journal.append("run", 2, [b"3"], new)
        await journal.release(new)
        await journal.claim("run", "new", MINUTE)
        with pytest.raises(Conflict):
            await journal.append("run", 3, [b"x"], new)
        assert await journal.read("run") == [b"1", b"2", b"3"]

    async def test_a_claim_is_for_one_run_and_once(self, journal: Journal) -> None:
        mine, theirs = await journal.claim("mine", "w", MINUTE), await journal.claim("theirs", "w", MINUTE)
        for run, claim in (("mine", theirs), ("unknown", mine)):
            with pytest.raises(Conflict):
                await journal.append(run, 0, [b"x"], claim)
        await journal.release(mine)
        await journal.release(mine)
        with pytest.raises(Conflict):
            await journal.append("mine", 0, [b"x"], mine)
        with pytest.raises(Conflict):
            await journal.renew(mine, MINUTE)

    async def test_due_runs_come_oldest_first(self, journal: Journal) -> None:
        now = await self.now()
        for run, due in (("c", now - 10), ("a", now - 30), ("later", now + MINUTE), ("b", now - 20), ("never", None)):
            await journal.append(run, 0, [b"1"])
            await journal.release(await journal.claim(run, "w", MINUTE), due)
        assert await journal.due() == ["a", "b", "c"]
        assert await journal.due(limit=2) == ["a", "b"]
        held = await journal.claim("b", "w", MINUTE)
        assert await journal.due() == ["a", "c"]
        await journal.release(held)
        await self.pass_time(MINUTE)
        assert await journal.due() == ["a", "c", "later"]

    async def test_a_run_whose_worker_died_is_due(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"1"])
        held = await journal.claim("run", "w1", MINUTE)
        await self.pass_time(MINUTE - self.slack - 1)
        assert await journal.due() == []
        await self.pass_time(self.slack + 1)
        assert await journal.due() == ["run"]
        await journal.release(held)
        assert await journal.due() == []

    async def test_what_others_append_makes_a_run_due(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"started"])
        assert await journal.due() == ["run"]
        held = await journal.claim("run", "w", MINUTE)
        await journal.append("run", 1, [b"decided"])
        assert await journal.due() == []
        await journal.release(held)
        assert await journal.due() == ["run"], "a decision between a worker's last look and its release is lost"
        held = await journal.claim("run", "w", MINUTE)
        await journal.append("run", 2, [b"decided"])
        await journal.append("run", 3, [b"seen"], held)
        await journal.release(held)
        await journal.append("run", 4, [])
        assert await journal.due() == []

    async def test_a_lease_is_taken_and_given_back_along_with_lines(self, journal: Journal) -> None:
        if not leases_along(journal):
            return
        first = await journal.append("run", 0, [b"1"], lease=Lease("w1", MINUTE))
        assert first is not None
        assert (first.run, first.worker, first.epoch, first.head, first.lost) == ("run", "w1", 1, 0, 0)
        assert 0 <= MINUTE - (first.until - await self.now()) <= self.slack
        with pytest.raises(Conflict, match="w1"):
            await journal.claim("run", "w2", MINUTE)
        assert await journal.due() == []
        later = await self.now() + MINUTE
        assert await journal.append("run", 1, [b"2"], first, lease=Lease(ends=True, due=later)) is None
        with pytest.raises(Conflict):
            await journal.append("run", 2, [b"x"], first)
        assert await journal.due() == []
        await self.pass_time(MINUTE)
        assert await journal.due() == ["run"]
        both = await journal.append("run", 2, [b"3"], lease=Lease("w3", MINUTE, ends=True))
        assert both is not None
        assert (both.epoch, both.head) == (2, 2)
        assert await journal.due() == []
        assert (await journal.claim("run", "w4", MINUTE)).epoch == 3

    async def test_a_lease_along_with_lines_that_are_refused_is_not_held(self, journal: Journal) -> None:
        if not leases_along(journal):
            return
        await journal.append("run", 0, [b"1"])
        for refused in ("run", "new"):
            with pytest.raises(LostRace):
                await journal.append(refused, 5, [b"x"], lease=Lease("w1", MINUTE))
        assert await journal.due() == ["run"]
        held = await journal.claim("run", "w2", MINUTE)
        assert (held.epoch, held.lost) == (1, 0)
        with pytest.raises(Conflict, match="w2") as caught:
            await journal.append("run", 1, [b"x"], lease=Lease("w1", MINUTE))
        assert caught.value.winner == "w2"
        await journal.append("run", 1, [b"decided"])
        with pytest.raises(LostRace):
            await journal.append("run", 1, [b"x"], held, lease=Lease(ends=True))
        await journal.renew(held, MINUTE)
        await journal.release(held)
        assert await journal.due() == ["run"], "what was decided before a release that was refused is lost"
        assert await journal.read("run") == [b"1", b"decided"]

    async def test_a_lease_along_with_lines_fences_and_is_fenced_off(self, journal: Journal) -> None:
        if not leases_along(journal):
            return
        old = await journal.append("run", 0, [b"1"], lease=Lease("old", MINUTE))
        assert old is not None
        await self.pass_time(MINUTE)
        new = await journal.append("run", 1, [b"2"], lease=Lease("new", MINUTE))
        assert new is not None
        assert (new.epoch, new.lost) == (old.epoch + 1, 0)
        for lease in (None, Lease(ends=True)):
            with pytest.raises(Conflict, match="new"):
                await journal.append("run", 2, [b"x"], old, lease=lease)
        await journal.append("run", 2, [b"3"], new, lease=Lease(ends=True))
        await journal.append("run", 3, [b"decided"])
        assert await journal.due() == ["run"], "what is decided after a release that went along is lost"

    async def test_a_lease_along_in_order_is_not_taken_of_a_holder_who_left(self, journal: Journal) -> None:
        if leases_along(journal):
            held = await journal.append("run", 0, [b"1"], lease=Lease("w1", MINUTE, orderly=True))
            for lost in (0, 1):  # once after a line, and once after a claim without one
                await self.pass_time(MINUTE)
                with pytest.raises(LostRace):
                    await journal.append("run", 1, [b"x"], lease=Lease("w2", MINUTE, orderly=True))
                held = await journal.claim("run", "w3", MINUTE)
                assert held.lost == lost, "nothing is lost sight of"
            assert held is not None
            await journal.release(held)
            await journal.append("run", 1, [b"2"], lease=Lease("w4", MINUTE, orderly=True))

    async def test_of_many_leases_along_with_the_same_line_one_is_held(self, journal: Journal) -> None:
        if not leases_along(journal):
            return
        doors = [journal, await self.door(journal)]
        tried = [
            door.append("run", 0, [b"%d" % number], lease=Lease(f"w{number}", MINUTE))
            for number, door in enumerate(doors * 4)
        ]
        ends = await asyncio.gather(*tried, return_exceptions=True)
        [won] = [end for end in ends if isinstance(end, Claim)]
        assert all(isinstance(end, Conflict) for end in ends if end is not won)
        assert await journal.read("run") == [won.worker[1:].encode()]
        await journal.renew(won, MINUTE)

    async def test_a_watcher_sees_old_and_new_lines(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"0", b"1"])
        waiting = [asyncio.ensure_future(seen(journal, "run", 6 - after, after)) for after in (0, 1, 2, 4)]
        await asyncio.sleep(0)
        await journal.append("other", 0, [b"not this"])
        door = await self.door(journal)
        for head, batch in ((2, [b"2"]), (3, [b"3", b"4"]), (5, [b"5"])):
            await door.append("run", head, batch)
        whole = [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert await asyncio.gather(*waiting) == [whole, whole[1:], whole[2:], whole[4:]]

    async def test_a_watcher_misses_nothing_while_it_looks_away(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"0"])
        async with asyncio.timeout(20), aclosing(journal.watch("run")) as watched:
            for number in range(3):
                assert await anext(watched) == b"%d" % number
                await journal.append("run", number + 1, [b"%d" % (number + 1)])

    async def test_a_cancelled_watcher_leaves_nothing(self, journal: Journal) -> None:
        await journal.append("run", 0, [b"0"])
        tasks = len(asyncio.all_tasks())
        leaving, staying = (asyncio.ensure_future(seen(journal, "run", 2)) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await journal.append("run", 1, [b"1"])
        assert await staying == [b"0", b"1"]
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) <= tasks

    @pytest.mark.parametrize("line", [b"", b"\x00\xff\n\r'\"\\", b"\xed\xa0\x80", bytes(range(256)) * 20_000])
    async def test_a_line_is_kept_byte_for_byte(self, journal: Journal, line: bytes) -> None:
        await journal.append("run", 0, [line, b"after"])
        assert await journal.read("run") == [line, b"after"]
        assert await seen(journal, "run", 2) == [line, b"after"]


async def _settled(tried: Sequence[Coroutine[Any, Any, Claim]]) -> tuple[list[Claim], list[Conflict]]:
    done = await asyncio.gather(*tried, return_exceptions=True)
    won = [one for one in done if isinstance(one, Claim)]
    lost = [one for one in done if isinstance(one, Conflict)]
    assert len(won) + len(lost) == len(done), done
    return won, lost
