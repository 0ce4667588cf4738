"""A run that ends each process which takes it up is set aside after three, visibly, until a person resumes it.

A process that died is a claim that ran out; that it may really die is tried once, in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.core.aside import MOST_LOST, SetAside
from keyturn.journal.rows import Query
from tests import forked
from tests.playing import Clock, call, model
from tests.waiting import until, until_status

MINUTE = 60_000


def _desk(done: list[str], *, asks: bool = False) -> Agent[Any]:
    @function_tool(needs_approval=True)
    def pay(x: int = 0) -> str:
        done.append("paid")
        return "paid"

    return Agent("desk", model=model(*([[call("pay", "c1")]] if asks else []), "done"), tools=[pay])


async def _waits(journal: Any, done: list[str]) -> str:
    """Record a run that waits, and an approval of its call: it is due."""
    async with App([_desk(done, asks=True)], journal) as app:
        run = await app.start("desk", "go")
        await app.wait(run.id, 30)
    async with App([_desk(done)], journal, worker=False) as app:
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann")
    return run.id


async def _dies(journal: Any, clock: Clock, run: str) -> None:
    """Take a run up, and die without a word."""
    await journal.claim(run, "worker that dies", MINUTE)
    clock.pass_ms(MINUTE)


async def test_a_run_that_three_workers_died_of_waits_for_a_person() -> None:
    clock, done = Clock(), list[str]()
    journal = MemoryJournal(clock)
    run = await _waits(journal, done)
    for _ in range(MOST_LOST):
        await _dies(journal, clock, run)
    async with App([_desk(done)], journal) as app:
        await app.at_work()
        row = await until_status(app, run, "set_aside")
        assert "3 workers died" in row.error
        assert [each.run for each in await app.runs(Query(state="set_aside"))] == [run]
        await app.send(run, "and what of it?")  # no word but the person's resumes it
        with pytest.raises(SetAside, match="keyturn resume"):
            await Runner.run(_desk(done), await RunState.load(journal, run, _desk(done)))
        assert (await app.get(run)).status == "set_aside"
        assert done == []
        await app.resume(run, by="ann")
        assert (await app.result(run, 30)).final_output == "done"
    assert done == ["paid"]
    deciders = [getattr(event, "decider", None) for step in await _steps(journal, run) for event in step.events]
    assert [who.id for who in deciders if who is not None] == ["ann"]
    assert (await check(journal)).ok


async def _steps(journal: Any, run: str) -> Any:
    from keyturn.engine.run.log_cache import log_in

    return (await log_in(journal, run)).steps


async def test_a_run_that_wrote_a_line_or_was_released_is_not_set_aside() -> None:
    clock, done = Clock(), list[str]()
    journal = MemoryJournal(clock)
    run = await _waits(journal, done)
    for _ in range(MOST_LOST - 1):
        await _dies(journal, clock, run)
    claim = await journal.claim(run, "a worker that ends in good order", MINUTE)
    await journal.release(claim, clock())
    for _ in range(MOST_LOST - 1):
        await _dies(journal, clock, run)
    async with App([_desk(done)], journal) as app:
        await app.at_work()
        assert (await app.result(run, 30)).final_output == "done"
    assert done == ["paid"]


async def test_a_worker_that_lacks_what_a_run_needs_does_not_hide_how_many_died_of_it(caplog: Any) -> None:
    clock, done = Clock(), list[str]()
    journal = MemoryJournal(clock)
    run = await _waits(journal, done)
    for _ in range(MOST_LOST - 1):
        await _dies(journal, clock, run)
    async with App([Agent("desk", model=model())], journal) as app:  # without its tool
        await app.at_work()
        await until(lambda: "cannot be executed here" in caplog.text)
        await until(lambda: not app.busy)
    await _dies(journal, clock, run)
    async with App([_desk(done)], journal) as app:
        await app.at_work()
        await until_status(app, run, "set_aside")
    assert done == []


async def test_a_decision_on_a_run_that_is_set_aside_is_recorded_and_runs_nothing() -> None:
    clock, done = Clock(), list[str]()
    journal = MemoryJournal(clock)
    async with App([_desk(done, asks=True)], journal) as app:
        run = (await app.start("desk", "go")).id
        await app.wait(run, 30)
    for _ in range(MOST_LOST):
        await _dies(journal, clock, run)
    with pytest.raises(SetAside):
        await Runner.run(_desk(done), await RunState.load(journal, run, _desk(done)))
    async with App([_desk(done), Agent("other", model=model("done"))], journal) as app:
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann")
        other = await app.start("other", "go")
        await other.result(30)
        assert ((await app.get(run)).status, done) == ("set_aside", [])
        with pytest.raises(SetAside, match="keyturn resume"):
            await app.resume(run)
        assert (await app.get(run)).status == "set_aside"
        await app.resume(run, by="bob")
        assert (await app.result(run, 30)).final_output == "done"


_KILLER = """
import asyncio, os, sys
from keyturn import Agent, App, function_tool
from keyturn.testing import ScriptedModel, function_call


def ends(context, params, call_id):
    os._exit(7)


tool = function_tool(lambda x=0: "ran", name_override="act", needs_approval=ends)
desk = Agent("desk", model=ScriptedModel([function_call("act", {}), "done"]), tools=[tool])


async def main():
    async with App([desk], sys.argv[1], worker=len(sys.argv) > 2, lease=0.2) as app:
        if len(sys.argv) > 2:
            await app.at_work()
            await asyncio.wait_for(app.wait(sys.argv[2]), 60)
        else:
            print((await app.start("desk", "go")).id)

asyncio.run(main())
"""


def test_workers_that_user_code_ends_for_real_are_three_at_most(tmp_path: Path, own_key: None) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    def process(*given: str) -> subprocess.CompletedProcess[str]:
        return forked.run(
            ["-c", _KILLER, url, *given],
            capture_output=True, text=True, timeout=120, check=False, env=dict(os.environ),
        )  # fmt: skip

    run = process().stdout.strip()
    # The first one still writes what the model said; the next three die without a line.
    ended = [process(run) for _ in range(MOST_LOST + 2)]
    assert [each.returncode for each in ended] == [7] * (MOST_LOST + 1) + [0]
    assert "is set aside" in ended[-1].stderr
