"""A run that is given back with something to do is due, whoever let it go and whatever stopped them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import Agent, App, Inbox, MemoryJournal, RunConfig, Runner, function_tool
from keyturn.models.scripted.model import function_call
from keyturn.testing import ScriptedModel
from tests.playing import Clock
from tests.waiting import until


@function_tool(needs_approval=True)
def pay() -> str:
    return "paid"


async def test_a_resume_that_is_cancelled_before_it_read_what_others_wrote_leaves_the_run_due() -> None:
    """Its claim took the due time of the approval, of which the state at hand knew nothing."""
    reading = asyncio.Event()

    class Slow(MemoryJournal):
        async def read(self, run: str, after: int = 0, limit: int | None = None) -> list[bytes]:
            if after:
                reading.set()
                await asyncio.Event().wait()
            return await super().read(run, after, limit)

    journal = Slow()
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {})]]), tools=[pay])
    state = (await Runner.run(agent, "go", journal=journal)).to_state()
    [request] = await journal.requests()
    await Inbox(journal).approve(request, by="ann")
    assert await journal.due() == [state.run_id]
    resumed = asyncio.ensure_future(Runner.run(agent, state, journal=journal))
    await reading.wait()
    resumed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resumed
    assert await journal.due() == [state.run_id]


async def test_a_run_that_a_worker_cannot_begin_to_move_is_due_a_minute_later() -> None:
    """What fails before the run is held, as a tracer provider does that gives no tracer, ends no run."""
    clock, tried = Clock(), list[str]()

    class Provider:
        def get_tracer(self, *_named: Any) -> Any:
            tried.append("")
            raise RuntimeError("there is no tracer")

    journal, agent = MemoryJournal(clock=clock), Agent("desk", model=ScriptedModel(["done"]))
    run = await App([agent], journal, worker=False).start("desk", "go")
    app = App([agent], journal, worker=False, run_config=RunConfig(tracing=Provider()))
    working = asyncio.ensure_future(app.work())
    await until(lambda: tried and not app.busy)
    assert await journal.due() == []
    clock.pass_ms(60_000)
    assert await journal.due() == [run.id]
    await app.stop()
    await working
