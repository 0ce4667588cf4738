"""The shared suite of the journal room's other seam: rows about runs, kept in step with their logs.

A store that keeps rows subclasses both suites. What it stands on is `journal_case.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence

import msgspec
import pytest

from ...core.errors import Conflict, UserError
from ...core.seal import parted
from ...engine.run.log_cache import verify_run
from ...engine.run.open_run import chain_of
from ...journal.base import Claim, ClaimFilter, Journal, LostRace, Store, filters_due
from ...journal.optional import Backlog
from ...journal.rows import DAY_MS, Changes, Closing, GrantRow, Notice, Period, Query, RequestRow, RunRow, Tally
from .journal_case import JournalCase

MINUTE = 60_000


async def _until_written(door: Journal, told: AsyncGenerator[None, None], runs: Sequence[str]) -> None:
    async for _ in told:
        if all([await door.head(run) for run in runs]):
            return


def run_row(run: str, at: int = 0, status: str = "running") -> RunRow:
    """Make a row of a run, for tests of stores.

    >>> run_row("r1", 5).started_at
    5
    """
    return RunRow(run, "desk", status, at, at, waiting=1, turns=2, workflow="Refunds")


def request_row(name: str, run: str, at: int, tool: str = "pay") -> RequestRow:
    """Make a row of a request, for tests of stores.

    >>> request_row("5e1f", "r1", 5).tool
    'pay'
    """
    return RequestRow(
        name, run, "r/1.0", "approval", tool, "desk", "d" * 64, at, at + MINUTE, "over", "high", '{"a":1}'
    )


def sealed_lines(journal: Journal, run: str, bodies: Sequence[bytes]) -> list[bytes]:
    """Seal the lines with which a run begins, as whoever appends does.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> [line.partition(b"\\t")[0] for line in sealed_lines(MemoryJournal(), "r1", [b"one"])]
    [b'one']
    """
    chain, lines = chain_of(journal, run), list[bytes]()
    for body in bodies:
        lines.append(chain.seal(body))
        chain.kept(lines[-1])
    return lines


class RecordsSuite(JournalCase):
    """Tests the rows of a store; subclass it beside `JournalSuite`.

    >>> from keyturn.journal.memory import MemoryJournal
    >>> class TestRows(RecordsSuite):
    ...     async def make_journal(self):
    ...         return MemoryJournal(self.clock)
    >>> hasattr(TestRows, "test_rows_come_with_their_lines")
    True
    """

    async def test_what_is_said_of_a_run_that_is_over_wakes_nobody(self, journal: Store) -> None:
        """A grant of a finished run may be used a thousand times, and its end is looked at once."""
        first, second, third = sealed_lines(journal, "run", [b"one", b"two", b"three"])
        await journal.append("run", 0, [first], None, Changes(run_row("run")))
        await journal.append("run", 1, [second], None, Changes(run_row("run", status="finished")))
        assert await journal.due() == ["run"], "whoever holds it wants to know that it is over"
        await journal.release(await journal.claim("run", "worker", 60_000))
        await journal.append("run", 2, [third], None, Changes(run_row("run", status="finished")))
        assert await journal.due() == []

    async def test_due_runs_are_selected_by_what_a_worker_can_move(self, journal: Store) -> None:
        """Workers of two apps, or of two versions, share a journal: neither keeps the other's runs from it."""
        if not filters_due(journal):
            return
        for run, agent, format in (("a", "desk", 2), ("b", "other", 2), ("c", "desk", 3), ("d", "desk", 0)):
            row = msgspec.structs.replace(run_row(run), agent=agent)
            await journal.append(run, 0, [b"1"], None, Changes(row, format=format))
        await journal.append("@log", 0, [b"1"])
        held = await journal.claim("d", "worker", MINUTE)
        selected = {
            ClaimFilter(): ["@log", "a", "b", "c"],
            ClaimFilter(("desk",), 2): ["@log", "a"],
            ClaimFilter(("desk",), 3, ("a", "@log")): ["c"],
            ClaimFilter((), 3): ["@log"],
            ClaimFilter(None, 1): ["@log"],
        }
        for only, runs in selected.items():
            assert sorted(await journal.due(10, only)) == runs
        others = ClaimFilter(("none",), 3, ("@log",))
        began = await journal.now()
        async with asyncio.timeout(10):
            await journal.wait_until_due(0.05, others)
            await journal.wait_until_due(None, ClaimFilter(("other",), 2))
        assert await journal.due(10, others) == [], f"it waits since {began}"
        await self.pass_time(MINUTE)
        assert "d" in await journal.due(10, ClaimFilter(("desk",), 2)), "its worker died"
        await journal.release(held)
        if isinstance(journal, Backlog):
            known = {each.run: (each.agent, each.format) for each in await journal.overdue()}
            assert known == {"a": ("desk", 2), "b": ("other", 2), "c": ("desk", 3), "@log": ("", 0)}

    async def test_rows_come_with_their_lines(self, journal: Store) -> None:
        asked, grant = request_row("q1", "run", 5), GrantRow("g1", "run", "pay", "desk", '{"where":{}}', uses=1)
        opened = Changes(run_row("run"), [asked], grants=[grant])
        await journal.append("run", 0, [b"1"], None, opened)
        assert await journal.runs() == [opened.run]
        assert (await journal.requests(), await journal.grants()) == ([asked], [grant])
        closing = Closing("q1", "approve", 9, "ada")
        await journal.append("run", 1, [b"2"], None, Changes(run_row("run"), closed=[closing], revoked=["g1"]))
        [closed] = await journal.requests()
        assert (closed.state, closed.closed_at, closed.by, closed.body) == ("approve", 9, "ada", asked.body)
        assert await journal.requests(Query(state="open")) == []
        assert [row.id for row in await journal.grants(Query(state="revoked"))] == ["g1"]
        assert await journal.grants(Query(state="open")) == []

    async def test_a_request_that_asks_again_is_open_again(self, journal: Store) -> None:
        await journal.append("run", 0, [b"1"], None, Changes(run_row("run"), [request_row("q1", "run", 5)]))
        again = request_row("q1", "run", 8)
        await journal.append("run", 1, [b"2"], None, Changes(run_row("run"), [again], [Closing("q1", "void", 8)]))
        assert await journal.requests() == [again]

    async def test_a_refused_append_changes_no_row(self, journal: Store) -> None:
        await journal.append("run", 0, [b"1"], None, Changes(run_row("run")))
        other = Changes(run_row("run", status="finished"), [request_row("q1", "run", 5)], notices=[Notice("t", "run")])
        with pytest.raises(LostRace):
            await journal.append("run", 0, [b"2"], None, other)
        with pytest.raises(Conflict):
            await journal.append("run", 1, [b"2"], Claim("run", "nobody", 9, 9), other)
        assert [row.status for row in await journal.runs()] == ["running"]
        assert (await journal.requests(), await journal.outbox()) == ([], [])

    async def test_queries_are_exact(self, journal: Store) -> None:
        names = ("pay", "PAY", "pay%", "p_y", "' OR '1'='1", "$.pay", "päy")
        for place, tool in enumerate(names):
            run = f"run {place}"
            await journal.append(run, 0, [b"1"], None, Changes(run_row(run), [request_row(f"q{place}", run, 5, tool)]))
        for place, tool in enumerate(names):
            assert [row.id for row in await journal.requests(Query(tool=tool))] == [f"q{place}"]
            assert [row.id for row in await journal.requests(Query(run=f"run {place}", agent="desk"))] == [f"q{place}"]
            assert [row.run for row in await journal.runs(Query(run=f"run {place}"))] == [f"run {place}"]
        assert await journal.requests(Query(tool="%", kind="approval")) == []

    async def test_requests_of_a_shape_are_selected_and_those_without_one(self, journal: Store) -> None:
        shapes = ("one", "two", "one", "")
        rows = [
            msgspec.structs.replace(request_row(f"q{at}", "run", at), shape=shape) for at, shape in enumerate(shapes)
        ]
        await journal.append("run", 0, [b"1"], None, Changes(run_row("run"), rows))
        assert await journal.requests(Query(state="open", shape="one")) == [rows[0], rows[2]]
        assert await journal.requests(Query(state="open", shape="one", tool="pay", after=(0, "q0"))) == [rows[2]]
        assert await journal.requests(Query(state="open", shape="one", newest=True, limit=1)) == [rows[2]]
        assert await journal.requests(Query(state="open", shape="", kind="approval", tool="pay")) == [rows[3]]
        assert await journal.requests(Query(shape="two", agent="another")) == []
        await journal.append("run", 1, [b"2"], None, Changes(run_row("run"), closed=[Closing("q0", "approve", 9)]))
        assert await journal.requests(Query(state="open", shape="one")) == [rows[2]]
        assert [row.state for row in await journal.requests(Query(shape="one"))] == ["approve", "open"]

    async def test_pages_skip_and_repeat_nothing_while_rows_come(self, journal: Store) -> None:
        for place in range(20):
            row = request_row(f"q{place:02}", f"run {place}", 5 + place // 4)
            await journal.append(row.run, 0, [b"1"], None, Changes(run_row(row.run, place), [row]))
        for newest in (False, True):
            after, seen = None, list[str]()
            while page := await journal.requests(Query(after=after, limit=3, newest=newest)):
                seen += [row.id for row in page]
                after = (page[-1].asked_at, page[-1].id)
                late = request_row(
                    f"late {newest} {len(seen):02}", f"late {newest} {len(seen)}", 1 if not newest else 99
                )
                await journal.append(late.run, 0, [b"1"], None, Changes(run_row(late.run, 99), [late]))
            known = [name for name in seen if name.startswith("q")]
            assert known == sorted((f"q{place:02}" for place in range(20)), reverse=newest)
            assert len(set(seen)) == len(seen)
        runs = await journal.runs(Query(limit=5, newest=True, after=(19, "run 19")))
        assert [row.run for row in runs] == [f"run {place}" for place in (18, 17, 16, 15, 14)]

    async def test_texts_that_not_every_store_can_keep_are_kept_alike(self, journal: Store) -> None:
        """L1: NUL and half characters, in whatever people and programs say of a run, are "?" on every store."""
        odd, kept = "a\0b\ud800c", "a?b?c"
        asked = msgspec.structs.replace(request_row("q1", "run", 5), reason=odd, risk=odd)
        change = Changes(
            msgspec.structs.replace(run_row("run"), workflow=odd, error=odd),
            [asked],
            grants=[GrantRow("g1", "run", odd, "desk")],
            notices=[Notice("t", "run", {"said": "\0"})],
        )
        await journal.append("run", 0, [b"1"], None, change)
        await journal.append("run", 1, [b"2"], None, Changes(change.run, closed=[Closing("q1", "approve", 9, odd)]))
        [row], [request], [grant] = await journal.runs(), await journal.requests(), await journal.grants()
        assert (row.workflow, row.error, grant.tool) == (kept, kept, kept)
        assert (request.reason, request.risk, request.by) == (kept, kept, kept)
        assert [notice.about for notice in await journal.outbox()] == [{"said": "\0"}]

    async def test_names_that_not_every_store_can_keep_are_refused_alike(self, journal: Store) -> None:
        """L1: a name is compared and so never altered; who asks for one finds nothing."""
        for name in ("a\0b", "\ud800"):
            for door in (
                journal.append(name, 0, [b"1"]),
                journal.claim(name, "w", MINUTE),
                journal.claim("run", name, MINUTE),
            ):
                with pytest.raises(UserError):
                    await door
            with pytest.raises(UserError):
                self.of(journal, name)
            assert (await journal.head(name), await journal.read(name), await journal.hashes(name)) == (0, [], [])
            await journal.erase(name)
            for query in (Query(run=name), Query(id=name), Query(tool=name), Query(after=(0, name))):
                found = [*await journal.runs(query), *await journal.requests(query), *await journal.grants(query)]
                assert found == []

    async def test_a_lost_line_is_told_and_not_read_past(self, journal: Store) -> None:
        """H4: as many lines are read as the journal counts."""
        await journal.append("run", 0, [b"1", b"2", b"3"])
        assert [await journal.read("run", after) for after in (-1, 3, 4, 2**40)] == [[b"1", b"2", b"3"], [], [], []]

    async def test_the_outbox_keeps_order_until_it_is_told(self, journal: Store) -> None:
        for place in range(3):
            notice = Notice("opened", "run", {"n": place})
            await journal.append("run", place, [b"%d" % place], None, Changes(run_row("run"), notices=[notice] * 2))
        told = await journal.outbox(limit=4)
        assert [notice.about["n"] for notice in told] == [0, 0, 1, 1]
        assert len({notice.number for notice in told}) == 4
        left = await journal.outbox(done=[notice.number for notice in told[:3]])
        assert [notice.about["n"] for notice in left] == [1, 2, 2]
        assert await journal.outbox() == left

    async def test_tallies_are_added_up_with_their_lines_and_outlive_them(self, journal: Store) -> None:
        other: Store = self.of(journal, "other")  # type: ignore[assignment]  # of a store comes a store
        days = [Tally.once("approve", 1_500, at=day * DAY_MS, tool="pay", person="ada") for day in (3, 4, 4)]
        slow = Tally.once("reject", 1 << 60, at=1 << 60, tool="pay" * 3_000, person="a\0b\ud800c")
        for place, counted in enumerate([days[:2], [*days[2:], slow]]):
            await journal.append("run", place, [b"1"], None, Changes(run_row("run"), tallies=counted))
        with pytest.raises(LostRace):
            await journal.append("run", 0, [b"2"], None, Changes(run_row("run"), tallies=days))
        await journal.erase("run")
        found = {each.what: each for each in await journal.tallies(Period())}
        assert (found["approve"].count, found["approve"].ms, sum(found["approve"].times)) == (3, 4_500, 3)
        assert (found["reject"].tool, found["reject"].person, found["reject"].times[-1]) == (slow.tool, "a?b?c", 1)
        daily = await journal.tallies(Period(since=3, until=4, daily=True))
        assert sorted((each.day, each.count) for each in daily) == [(3, 1), (4, 2)]
        assert [each.count for each in await journal.tallies(Period(since=4, until=4))] == [2]
        assert (await other.tallies(Period()), await journal.tallies(Period(until=2))) == ([], [])

    async def test_appends_at_once_count_each_other_in(self, journal: Store) -> None:
        once = [Tally.once(word, 5, at=0, tool="pay") for word in ("approve", "read", "reject")]
        for half in (once, once[::-1]):
            runs = [f"run {half is once} {number}" for number in range(20)]
            appends = [journal.append(run, 0, [b"1"], None, Changes(run_row(run), tallies=half)) for run in runs]
            await asyncio.gather(*appends)
        assert [each.count for each in await journal.tallies(Period())] == [40, 40, 40]

    async def test_rows_of_tenants_are_apart(self, journal: Store) -> None:
        other: Store = self.of(journal, "other")  # type: ignore[assignment]  # of a store comes a store
        await journal.append("run", 0, [b"1"], None, Changes(run_row("run"), [request_row("q1", "run", 5)]))
        await other.append("run", 0, [b"2"], None, Changes(run_row("run", 7), notices=[Notice("t", "run")]))
        assert ([row.started_at for row in await other.runs()], await other.requests()) == ([7], [])
        assert (len(await journal.outbox()), len(await other.outbox())) == (0, 1)
        await other.erase("run")
        assert await journal.read("run") == [b"1"]

    async def test_what_is_erased_is_gone_and_its_chain_stays(self, journal: Store) -> None:
        change = Changes(run_row("run"), [request_row("q1", "run", 5)], notices=[Notice("t", "run", {"secret": 1})])
        lines = sealed_lines(journal, "run", [b"1", b"2"])
        await journal.append("run", 0, lines, None, change)
        before = await journal.hashes("run")
        assert before == list(map(parted, lines))
        assert await verify_run(journal, "run") is None
        held = await journal.claim("run", "worker", MINUTE)
        with pytest.raises(Conflict):
            await journal.erase("run")
        await journal.release(held)
        await journal.erase("run")
        assert (await journal.read("run"), await journal.hashes("run")) == ([], before)
        assert await verify_run(journal, "run") is None
        assert [(row.status, row.workflow) for row in await journal.runs()] == [("erased", "")]
        assert (await journal.requests(), await journal.outbox(), await journal.due()) == ([], [], [])
        with pytest.raises(Conflict):
            await journal.append("run", 2, [b"3"])
        await journal.release(await journal.claim("run", "worker", MINUTE), await journal.now())
        assert await journal.due() == [], "nothing of an erased run can be moved"

    async def test_who_waits_is_stirred_by_an_append(self, journal: Store) -> None:
        door: Store = await self.door(journal)  # type: ignore[assignment]  # a door to a store is a store
        waits = asyncio.ensure_future(door.wait_until_due(30))
        await asyncio.sleep(0.05)
        assert not waits.done()
        await journal.append("run", 0, [b"1"])
        async with asyncio.timeout(10):
            await waits
        assert await door.due() == ["run"]
        async with asyncio.timeout(10):
            await door.wait_until_due()

    async def test_who_watches_all_is_told_of_every_append(self, journal: Store) -> None:
        door: Store = await self.door(journal)  # type: ignore[assignment]  # a door to a store is a store
        async with asyncio.timeout(10), contextlib.aclosing(door.watch_all()) as told:
            seen = asyncio.ensure_future(_until_written(door, told, ["one", "two"]))
            await asyncio.sleep(0.05)
            await journal.append("one", 0, [b"1"])
            claim = await journal.claim("two", "worker", MINUTE)
            await journal.append("two", 0, [b"1"], claim)
            await seen

    async def test_who_waits_is_stirred_by_time(self, journal: Store) -> None:
        claim = await journal.claim("run", "worker", MINUTE)
        await journal.append("run", 0, [b"1"], claim)
        await journal.release(claim, due=await journal.now() + 5)
        await self.pass_time(10)
        async with asyncio.timeout(10):
            await journal.wait_until_due()
        assert await journal.due() == ["run"]

    async def test_a_wait_ends_when_it_was_to_end(self, journal: Store) -> None:
        async with asyncio.timeout(10):
            await journal.wait_until_due(0.02)
        assert await journal.due() == []
