"""A run that was taken over while somebody was at work on it: who lost it does no more, and breaks nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from keyturn import Agent, App, Conflict, Inbox, MemoryJournal, MemorySession, RunState, ToolContext, function_tool
from keyturn.core import commands as cm
from keyturn.core.codec import decode
from keyturn.engine.driving.taking import claimed
from keyturn.engine.execution import Execution
from keyturn.engine.run.log_cache import forget
from keyturn.engine.run.open_run import journal_clock
from keyturn.engine.run.used_states import UsedStates
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import assistant_message, function_call
from keyturn.testing import ScriptedModel
from tests.playing import Clock, play
from tests.waiting import never, until, until_status

MINUTES = 120_000


async def test_who_lost_a_run_leaves_its_session_alone(streamed: bool) -> None:
    """Two who told the session of one run would tell it twice."""
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


async def test_who_stood_still_before_it_wrote_to_the_session_leaves_that_to_its_successor(
    clock: Clock, streamed: bool
) -> None:
    """Found by the simulator: a session knows of no leases, and held what both of them wrote."""
    session, model = MemorySession("s"), ScriptedModel([assistant_message("done")])
    agent = Agent("a", model=model)

    class Slow(MemoryJournal):
        async def append(self, run: str, expected: int, lines: Any, *more: Any) -> None:
            await super().append(run, expected, lines, *more)
            if clock.now == Clock().now and b"ReplyRecorded" in lines[-1]:
                clock.now += MINUTES
                state = await RunState.load(self, run, agent)
                state.live.used = UsedStates()  # those of another process
                await play(agent, state, streamed, session=session)

    journal = Slow(clock=clock)
    with pytest.raises(Conflict, match=r"under epoch|its lease was released"):
        await play(agent, "go", streamed, journal=journal, session=session)
    [row] = await journal.runs()
    assert row.status == "finished"
    assert [item["role"] for item in await session.get_items()] == ["user", "assistant"]


async def test_a_tool_is_not_called_under_a_lease_that_another_has(clock: Clock, streamed: bool) -> None:
    """Its start was on record as the process stood still; another one put it in doubt, and people say what it did."""
    ran: list[str] = []

    @function_tool
    def act() -> str:
        ran.append("acted")
        return "acted"

    class Slow(MemoryJournal):
        async def append(self, run: str, expected: int, lines: Any, *more: Any) -> None:
            await super().append(run, expected, lines, *more)
            if b"CallStarted" in lines[-1]:
                clock.now += MINUTES
                await self.release(await self.claim(run, "another worker", MINUTES))

    agent = Agent("a", model=ScriptedModel([[function_call("act", {}, call_id="c1")], "done"]), tools=[act])
    with pytest.raises(Conflict):
        await play(agent, "go", streamed, journal=Slow(clock=clock))
    assert ran == []


async def test_what_is_at_work_under_a_lease_that_another_has_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, streamed: bool
) -> None:
    """A tool that waited for a thread began long after its process knew that the run was another's."""
    monkeypatch.setattr(Execution, "lease_ms", 300)
    clock, seen = Clock(), list[str]()

    @function_tool
    async def act(context: ToolContext[Any]) -> str:
        clock.now += MINUTES
        await journal.release(await journal.claim(context.run_id, "another worker", MINUTES))
        try:
            await never()
        finally:
            seen.append("cut off")
        return "acted"

    journal = MemoryJournal(clock=clock)
    agent = Agent("a", model=ScriptedModel([[function_call("act", {}, call_id="c1")], "done"]), tools=[act])
    with pytest.raises(Conflict):
        await play(agent, "go", streamed, journal=journal)
    assert seen == ["cut off"]


async def test_a_lease_that_was_long_on_its_way_is_renewed_before_it_is_worked_under(clock: Clock) -> None:
    """Found by the simulator: by a clock that was a minute behind, a request that had expired was approved."""

    class Slow(MemoryJournal):
        async def claim(self, *asked: Any) -> Any:
            made = await super().claim(*asked)
            clock.now += MINUTES
            return made

    journal = Slow(clock=clock)
    claim = await claimed(journal, "run", "worker", 60_000)
    assert (claim.at, claim.until, claim.epoch) == (clock.now, clock.now + 60_000, 1)


async def test_a_worker_counts_the_time_from_when_it_had_its_lease(clock: Clock) -> None:
    """Found by the simulator: it stood still while it read the run, and did not see that its lease had expired."""
    seconds = [0]

    class Slow(MemoryJournal):
        async def claim(self, *asked: Any) -> Any:
            seconds[0] = 30
            return await super().claim(*asked)

        async def read(self, *asked: Any) -> Any:
            clock.now += 1_000 * seconds[0]
            seconds[0] = 0
            return await super().read(*asked)

    journal = Slow(clock=clock)
    async with App([Agent("a", model=ScriptedModel([assistant_message("done")]))], journal, worker=False) as app:
        run = await app.start("a", "go")
        forget()
        working = asyncio.ensure_future(app.work())
        await until_status(app, run.id, "finished")
        working.cancel()
    assert clock.now == Clock().now + 30_000
    assert decode((await journal.read(run.id))[-1]).at == clock.now


async def test_an_answer_about_the_time_that_was_long_on_its_way_is_asked_for_again(clock: Clock) -> None:
    answers = [MINUTES, 10]

    class Slow(MemoryJournal):
        async def now(self) -> int:
            at = await super().now()
            clock.now += answers.pop(0)
            return at

    told = await journal_clock(Slow(clock=clock))
    assert clock.now - told() == 10


@pytest.mark.usefixtures("garbage_of_its_own")
async def test_a_worker_goes_on_with_its_own_run_after_a_standstill() -> None:
    """After a standstill longer than its lease it finds that run due, while its tool is still at work."""
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
        go_on.set()
        row = await first.wait(10)
        await until(lambda: not app.busy)
    gc.collect()
    assert (row.status, troubles) == ("finished", [])
    assert await journal.requests(Query(state="open")) == []


async def test_a_drive_whose_run_was_stopped_by_another_process_ends_with_a_conflict(streamed: bool) -> None:
    journal, did = MemoryJournal(), list[str]()
    asked, go_on_now = asyncio.Event(), asyncio.Event()

    @function_tool
    def mail() -> str:
        did.append("mail")
        return "sent"

    async def reply(_items: Any) -> Any:
        asked.set()
        await go_on_now.wait()
        return [function_call("mail", {}, call_id="c1")]

    agent = Agent("desk", model=ScriptedModel(reply), tools=[mail])
    driving = asyncio.ensure_future(play(agent, "go", streamed, journal=journal))
    await asked.wait()
    [row] = await journal.runs()
    await Inbox(journal).tell(row.run, cm.RecordRestore("its store was restored", "nonce"))
    go_on_now.set()
    with pytest.raises(Conflict, match=r"was stopped \(StoreRestored\) while it was executed: resume it to continue"):
        await driving
    assert did == []
