"""What a run costs grows with what it does, and no long reply keeps others of the event loop waiting: counted in calls.

Calls of Python functions do not depend on the machine; a microsecond each, and a tenth more, is what they take.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

import pytest

from benchmarks.script import Script
from benchmarks.subjects.keyturn import Driver
from keyturn import Conflict, Inbox, MemoryJournal, Runner, RunResult, RunState
from keyturn.core.codec import decode
from keyturn.core.events import CallDecided
from keyturn.engine.run import log_cache
from keyturn.journal.rows import Query
from tests.waiting import turns_of_the_loop

# 50 ms of a slow machine.
MOST_AT_A_TIME = 35_000


async def counted(work: Coroutine[Any, Any, Any]) -> tuple[Any, int, int]:
    """Do it; return its result, how many calls it took, and the most of them without a turn for anybody else."""
    counts = [0]

    def seen(_frame: object, event: str, _about: object) -> None:
        counts[-1] += event == "call"

    async def others() -> None:
        while True:
            counts.append(0)
            await turns_of_the_loop(1)

    beside = asyncio.ensure_future(others())
    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        result = await work
    finally:
        sys.setprofile(before)
        beside.cancel()
    return result, sum(counts), max(counts)


async def items_of(result: RunResult) -> int:
    """Read what a run produced."""
    return len(result.new_items)


@pytest.mark.trial
async def test_a_turn_costs_the_same_however_many_there_were() -> None:
    async def turns(many: int) -> int:
        _, calls, _ = await counted(Driver(Script([["noop"]] * many + [[]])).start())
        return calls

    await turns(1)  # makes what is made once
    few, some, many = [await turns(number) for number in (20, 120, 420)]
    assert (many - some) / 300 <= 1.02 * (some - few) / 100


async def test_a_run_of_many_calls_loads_shows_and_resumes_in_time_linear_in_them() -> None:
    async def rest(many: int) -> int:
        driver = Driver(Script([["noop"]] * (many - 1) + [["gated"], []]))
        text = driver.save(await driver.start())
        log_cache.forget()
        state, loaded, _ = await counted(driver.load(text))
        state.approve(state.get_interruptions()[0])
        done, resumed, _ = await counted(Runner.run(driver.agent, state))
        shown, show, _ = await counted(items_of(done))
        assert shown > many
        return loaded + resumed + show

    await rest(1)
    few, some, many = [await rest(number) for number in (40, 140, 440)]
    assert (many - some) / 300 <= 1.02 * (some - few) / 100


async def test_a_reply_of_a_thousand_calls_holds_nobody_up_nor_do_their_requests_and_decisions() -> None:
    for tool in ("noop", "gated"):
        driver = Driver(Script([[tool] * 1_000, []]))
        driver.journal = journal = MemoryJournal() if tool == "gated" else None
        most = dict[str, int]()
        result, _, most["start"] = await counted(driver.start())
        assert driver.pending(result) == (0 if tool == "noop" else 1_000)
        if journal is not None:
            text = driver.save(result)
            log_cache.forget()
            _, _, most["load a text"] = await counted(driver.load(text))
            state, _, most["load"] = await counted(RunState.load(journal, result.run_id, driver.agent))
            for waiting in state.get_interruptions():
                state.approve(waiting)
            done, _, most["deliver"] = await counted(Runner.run(driver.agent, state))
            assert (driver.pending(done), done.final_output) == (0, "done")
        assert max(most.values()) < MOST_AT_A_TIME, f"{most} calls at a time ({tool})"


async def test_many_decisions_are_one_step_or_none_and_nobody_sees_it_in_part() -> None:
    journal = MemoryJournal()
    driver = Driver(Script([["gated"] * 100, []]))
    driver.journal = journal
    held = await driver.start()
    state: Any = await RunState.load(journal, held.run_id, driver.agent)
    waiting = state.get_interruptions()
    for each in waiting:
        state.approve(each)
    await (inbox := Inbox(journal)).reject(await inbox.get(waiting[70].request_id), by="ann")
    seen = set[int]()

    async def looks() -> None:
        while True:
            seen.add(len(state._live.run.groups["wait"]))
            await turns_of_the_loop(1)

    beside = asyncio.ensure_future(looks())
    with pytest.raises(Conflict, match="ann"):
        await Runner.run(driver.agent, state)
    assert [row.state for row in await inbox.list(Query(run=held.run_id, state="open"))] == ["open"] * 99
    done = await Runner.run(driver.agent, state)
    beside.cancel()
    assert (driver.pending(done), seen) == (0, {100, 99, 0})
    steps = [decode(line) for line in await journal.read(held.run_id)]
    decided = [sum(isinstance(event, CallDecided) for event in step.events) for step in steps]
    assert [many for many in decided if many] == [1, 99]
