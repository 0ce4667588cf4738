"""A run that was taken over while somebody was at work on it: who lost it does no more, and breaks nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from keyturn import Agent, App, Conflict, MemoryJournal, MemorySession, RunState, ToolContext, function_tool
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import assistant_message, function_call
from keyturn.testing import ScriptedModel
from tests.playing import Clock, play
from tests.waiting import until

MINUTES = 120_000


async def test_who_lost_a_run_leaves_its_session_alone(streamed: bool) -> None:
    """B4: two who told the session of one run would tell it twice."""
    clock = Clock()
    journal, session = MemoryJournal(clock=clock), MemorySession("s")

    @function_tool
    async def act(context: ToolContext[Any]) -> str:
        clock.now += MINUTES
        await journal.release(await journal.claim(context.run_id, "another worker", MINUTES))
        return "acted"

    def agent() -> Agent[Any]:
        steps = [[function_call("act", {}, call_id="c1")], assistant_message("done")]
        return Agent("a", model=ScriptedModel(steps), tools=[act])

    with pytest.raises(Conflict):
        await play(agent(), "go", streamed, journal=journal, session=session)
    assert await session.get_items() == []
    [row] = await journal.runs()
    other = Agent("a", model=ScriptedModel([assistant_message("done")]), tools=[act])
    state = (await play(other, await RunState.load(journal, row.run, other), streamed, session=session)).to_state()
    state.resolve(state.get_interruptions()[0], "ran", output="acted")
    await play(other, state, streamed, session=session)
    types = [item.get("type", item.get("role")) for item in await session.get_items()]
    assert types == ["user", "function_call", "function_call_output", "message"]


async def test_a_worker_that_takes_its_own_run_up_anew_goes_on() -> None:
    """After a standstill longer than its hold a worker finds its own run due, while it is still at work on it."""
    clock, at_work, go_on = Clock(), asyncio.Event(), asyncio.Event()
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, told: troubles.append(told))

    @function_tool
    async def slow() -> str:
        at_work.set()
        await go_on.wait()
        return "slept"

    steps = [function_call("slow", {}, call_id="c1")]
    agents = [
        Agent("slow", model=ScriptedModel([steps, assistant_message("done")]), tools=[slow]),
        Agent("quick", model=ScriptedModel(["done"])),
    ]
    journal = MemoryJournal(clock=clock)
    async with App(agents, journal) as app:
        first = await app.start("slow", "go")
        await at_work.wait()
        clock.now += MINUTES
        second = await app.start("quick", "go")  # who comes for this one finds the other one due as well
        assert (await second.wait(10)).status == "finished"
        row = await first.wait(10)
        go_on.set()
        await until(lambda: not app.busy)
    gc.collect()
    assert (row.status, troubles) == ("waiting", [])
    [request] = await journal.requests(Query(state="open"))
    assert request.kind == "in_doubt"
