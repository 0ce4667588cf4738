"""What a store adds up of its requests is what its logs say: counted twice, for any run there may be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyturn import Agent, App, Approval, Decider, Inbox, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.audit.tallies import Recount
from keyturn.core.folding import fold
from keyturn.core.run import new_run
from keyturn.engine.views.rows import changes, known_open, open_after, replayed
from keyturn.journal import open_journal
from keyturn.journal.rows import COUNTED_FROM, DAY_MS, EDGES, Period, Tally, summed
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.audit.test_rows import derived
from tests.core.samples import Pen
from tests.core.world import World, complete
from tests.effort import some
from tests.journal.older import WITHOUT_SHAPES, altered, rewrite


def by_name(tallies: list[Tally]) -> dict[Any, Tally]:
    return {(each.day, each.names): each for each in tallies}


def counted_step_by_step(pen: Pen, remembered: bool) -> list[Tally]:
    """What a writer would have had a store count, whether it remembers what is open or reads it off the run."""
    run, open, found = new_run(), {}, list[Tally]()
    for step in pen.log.steps:
        fold(run, [step])
        made = changes(run, open, step.events, 0)
        found += made.tallies
        open = open_after(open, made) if remembered else known_open(run)
    return summed(found)


@settings(max_examples=some(25))
@given(seed=st.integers(0, 2**32), remembered=st.booleans())
def test_whoever_counts_any_run_comes_to_the_same(seed: int, remembered: bool) -> None:
    world, pen = World(seed), Pen()
    pen(world.begin())
    complete(pen, world)
    made = replayed(list(pen.log.steps)).tallies
    assert by_name(made) == by_name(counted_step_by_step(pen, remembered))
    recount = derived(list(pen.log.steps)).tallies
    assert list(recount.faults(made, made)) == []
    for left_out in range(len(made)):
        less = [*made[:left_out], *made[left_out + 1 :]]
        assert list(recount.faults(less, less)), "what is missing is noticed"


@settings(max_examples=some(50))
@given(st.lists(st.integers(0, 1 << 41), min_size=1))
def test_sums_of_tallies_lose_nothing(times: list[int]) -> None:
    [total] = summed(Tally.once("approve", each, at=0) for each in times)
    assert (total.count, sum(total.times)) == (len(times), len(times))
    assert total.ms == sum(min(each, 1 << 40) for each in times)


# On every store ----------------------------------------------------------------------------------------------------


@function_tool(needs_approval=True, approval=Approval(expires="1h"))
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@function_tool(needs_approval=True, approval=Approval(quorum=2), risk="high")
def wire(amount: int) -> str:
    """Wire."""
    return f"wired {amount}"


def clerk(*tools: str) -> Agent[Any]:
    calls = [function_call(tool, {"amount": place}, call_id=f"c{place}") for place, tool in enumerate(tools)]
    return Agent("clerk", model=ScriptedModel([calls, "done", "done"]), tools=[pay, wire])


def person(name: str) -> Decider:
    return Decider(name, strength="authenticated")


async def decided(store: Any, streamed: bool = False) -> str:
    """A run with an approval, an edit by two and a rejection."""
    agent = clerk("pay", "wire", "pay")
    if streamed:
        result: Any = Runner.run_streamed(agent, "go", journal=store)
        async for _event in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, "go", journal=store)
    inbox = Inbox(store, {"clerk": agent})
    first, second, third = sorted(await inbox.list(), key=lambda row: row.call)
    await inbox.approve(first, by=person("ada"))
    await inbox.approve(second, by=person("ada"))
    await inbox.approve(second, by=person("bob"))
    await inbox.reject(third, by=person("bob"))
    await Runner.run(agent, await RunState.load(store, result.run_id, agent))
    return result.run_id


def words(tallies: list[Tally]) -> dict[tuple[str, str, str], int]:
    return {(each.what, each.tool, each.person): each.count for each in tallies}


ALL_OF_IT = {
    ("approve", "pay", "ada"): 1,
    ("read", "pay", "ada"): 1,
    ("vote approve", "wire", "ada"): 1,
    ("read", "wire", "ada"): 1,
    ("approve", "wire", "bob"): 1,
    ("read", "wire", "bob"): 1,
    ("reject", "pay", "bob"): 1,
}


async def test_what_is_decided_is_counted_once_and_outlives_its_run(store: Any, streamed: bool) -> None:
    run = await decided(store, streamed)
    assert words(await store.tallies(Period())) == ALL_OF_IT
    assert {each.risk for each in await store.tallies(Period()) if each.tool == "wire"} == {"high"}
    assert (await check(store)).ok
    other = await decided(store, streamed)
    assert words(await store.tallies(Period())) == dict.fromkeys(ALL_OF_IT, 2)
    await store.erase(run)
    report = await check(store)
    assert report.ok, str(report)
    assert words(await store.tallies(Period())) == dict.fromkeys(ALL_OF_IT, 2)
    await store.erase(other)
    assert (await check(store)).ok


async def test_what_a_fork_copied_is_counted_where_it_was_decided(store: Any) -> None:
    run = await decided(store)
    async with App([clerk("pay")], store, worker=False) as app:
        await app.fork(run)
    assert words(await store.tallies(Period())) == ALL_OF_IT
    report = await check(store)
    assert report.ok, str(report)


async def test_time_that_runs_out_is_nobodys_decision() -> None:
    now = [5 * DAY_MS]
    store = MemoryJournal(lambda: now[0])
    agent = clerk("pay")
    run = (await Runner.run(agent, "go", journal=store)).run_id
    now[0] += 2 * 3_600_000
    await Runner.run(agent, await RunState.load(store, run, agent))
    assert words(await store.tallies(Period(daily=True))) == {("expire", "pay", ""): 1}


# What was altered --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tallies SET count = count + 1 WHERE what = 'reject'",
        "UPDATE tallies SET count = count - 1",
        "UPDATE tallies SET ms = ms + 86400000",
        "UPDATE tallies SET t0 = 0, t9 = 1 WHERE what = 'approve'",
        "UPDATE tallies SET person = 'eve' WHERE person = 'bob'",
        "UPDATE tallies SET what = 'approve' WHERE what = 'reject'",
        "UPDATE tallies SET day = day - 1",
        "UPDATE tallies SET count = 'none'",
        "UPDATE tallies SET tool = CAST(x'ff' AS TEXT)",
        "DELETE FROM tallies WHERE what = 'reject'",
        "DELETE FROM tallies",
    ],
)
async def test_what_was_altered_is_found(tmp_path: Path, change: str) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    store: Any = open_journal(url)
    await decided(store)
    await store.close()
    db = apsw.Connection(str(tmp_path / "runs.db"))
    db.execute(change)
    db.close()
    store = open_journal(url)
    report = await check(store)
    assert [violation.invariant for violation in report.violations][:1] == ["I8"], str(report)
    assert "is counted otherwise" in report.violations[0].what
    await store.tallies(Period())
    await store.close()


async def test_less_than_was_erased_is_not_found_and_more_than_there_was_is(tmp_path: Path) -> None:
    """Of an erased run nobody can say what it counted, so a check then only knows that nothing is missing."""
    recount = Recount()
    recount.whole = False
    more = [Tally.once("approve", 5, at=0)]
    assert list(recount.faults(more, more)) == []
    store: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    await store.erase(await decided(store))
    await decided(store)
    await store.write(lambda db: db.tell("UPDATE tallies SET count = 0"))
    assert not (await check(store)).ok
    await store.close()


# Older stores ------------------------------------------------------------------------------------------------------

_OLDER = ("DROP TABLE tallies", "DROP INDEX requests_of_run", "CREATE INDEX requests_run ON requests (tenant, run)")
_OPEN = tuple(f"DROP INDEX requests_open_{each}" for each in ("tool", "agent", "kind"))
_LATER = (
    *WITHOUT_SHAPES,
    *(f"DROP INDEX runs_{each}" for each in ("session", "queued", "set_aside")),
    *(f"ALTER TABLE runs DROP COLUMN {each}" for each in ("session", "place", "takers")),
)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_store_that_was_decided_in_before_says_from_when_it_counts(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db" if kind == "sqlite" else request.getfixturevalue("database")
    store: Any = open_journal(url)
    await decided(store)
    await rewrite(store)
    await store.close()
    altered(url, *_OLDER, *_OPEN, *_LATER, version=4)
    store = open_journal(url)
    [begun] = await store.tallies(Period())
    today = await store.now() // DAY_MS
    assert (begun.what, begun.day, begun.ms in (today - 1, today)) == (COUNTED_FROM, 0, True)
    await decided(store)
    assert {each.count for each in await store.tallies(Period(since=1))} == {1}
    report = await check(store)
    assert report.ok, str(report)
    await store.close()


def test_edges_are_in_order() -> None:
    assert all(one < other for one, other in pairwise(EDGES))
