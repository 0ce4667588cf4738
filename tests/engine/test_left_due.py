"""A run that is given back with something to do is due, whoever let it go and whatever stopped them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from keyturn import Agent, App, Inbox, MemoryJournal, RunConfig, Runner, function_tool
from keyturn.core import commands as cm
from keyturn.core.call_ids import ROOT
from keyturn.core.errors import Conflict
from keyturn.engine.driving.drive import Drive
from keyturn.engine.driving.lease import under_lease
from keyturn.engine.result import RunResult
from keyturn.engine.run.frame_settings import FrameSettings
from keyturn.journal.base import Claim
from keyturn.journal.rows import Changes
from keyturn.models.scripted.model import function_call
from keyturn.testing import ScriptedModel
from tests.playing import Clock
from tests.waiting import turns_of_the_loop, until


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


async def test_a_run_that_a_worker_cannot_begin_to_move_is_left_to_others() -> None:
    """What fails before the run is held, as a tracer provider does that gives no tracer, ends no run."""
    tried = list[str]()

    class Provider:
        def get_tracer(self, *_named: Any) -> Any:
            tried.append("")
            raise RuntimeError("there is no tracer")

    journal, agent = MemoryJournal(clock=Clock()), Agent("desk", model=ScriptedModel(["done"]))
    run = await App([agent], journal, worker=False).start("desk", "go")
    app = App([agent], journal, worker=False, run_config=RunConfig(tracing=Provider()))
    working = asyncio.ensure_future(app.work())
    await until(lambda: tried and not app.busy)
    assert await journal.due() == [run.id]
    await app.stop()
    await working
    assert tried == [""], "this worker tries it again in a minute"


async def test_that_a_run_failed_is_recorded_though_its_caller_waits_no_longer() -> None:
    """Found by the simulator: its lease was released first, and its failure refused: it ran on, and was not due."""
    recording, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryJournal):
        async def append(
            self,
            run: str,
            expected: int,
            lines: Sequence[bytes],
            claim: Claim | None = None,
            changes: Changes | None = None,
        ) -> None:
            if any(b'"RunFailed"' in line for line in lines):
                recording.set()
                await go_on.wait()
            await super().append(run, expected, lines, claim, changes)

    def down(_items: Any) -> Any:
        raise RuntimeError("the provider is down")

    journal = Slow()
    agent = Agent("desk", model=ScriptedModel(down))
    running = asyncio.ensure_future(Runner.run(agent, "go", journal=journal))
    await recording.wait()
    running.cancel()
    await turns_of_the_loop(5)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    async def failed() -> bool:  # its lease is kept until then, and runs out by itself
        return [row.status for row in await journal.runs()] == ["failed"]

    await until(failed)
    assert await journal.due() == []


async def test_what_is_recorded_while_a_run_is_given_back_is_refused_or_leaves_it_due() -> None:
    """Found by the simulator: replies of a realtime session whose store was slow came between the two, unscreened."""
    releasing, go_on = asyncio.Event(), asyncio.Event()

    class Slow(MemoryJournal):
        async def release(self, claim: Claim, due: int | None = None) -> None:
            releasing.set()
            await go_on.wait()
            await super().release(claim, due)

    journal = Slow()
    agent = Agent("desk", model=ScriptedModel([[function_call("pay", {})]]), tools=[pay])
    go_on.set()
    state = (await Runner.run(agent, "go", journal=journal)).to_state()
    go_on.clear()
    releasing.clear()
    driven = Drive(state.live, FrameSettings(RunConfig(), state.context), partial(RunResult, state.live))

    async def held_for_a_moment() -> None:
        async with under_lease(driven, journal, await journal.claim(state.run_id, "worker", 60_000)):
            pass

    given_back = asyncio.ensure_future(held_for_a_moment())
    await releasing.wait()
    recording = asyncio.ensure_future(driven.commit(cm.AddInput(ROOT, [{"role": "user", "content": "and then?"}])))
    await turns_of_the_loop(5)
    go_on.set()
    await given_back
    with pytest.raises(Conflict):
        await recording
    assert len(await journal.read(state.run_id)) == state.position
