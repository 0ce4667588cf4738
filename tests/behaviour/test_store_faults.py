"""Runs whose store fails under them: nothing is lost, nothing is hidden, and somebody looks at the run again.

Each of these was found by the simulator (`python -m trials.simulate`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Approval,
    Conflict,
    MemoryJournal,
    Policy,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    function_tool,
)
from keyturn.core.effects import Effect
from keyturn.core.errors import StorageError
from keyturn.engine.driving.drive import Drive
from keyturn.engine.execution import Execution
from keyturn.engine.loop import Loop
from keyturn.engine.result import RunResult
from keyturn.engine.run.frame_settings import FrameSettings
from keyturn.inbox.desk import Inbox
from keyturn.journal.base import Claim
from keyturn.journal.rows import Query
from keyturn.testing import ScriptedModel, assistant_message, function_call
from tests.playing import play
from tests.waiting import turns_of_the_loop


class Failing(MemoryJournal):
    """Keeps or refuses, once, the line that says `at`, and says in both cases that it could not be reached."""

    def __init__(self, at: bytes = b"", *, kept: bool = False) -> None:
        self.time = 1_000
        super().__init__(lambda: self.time)
        self.at, self.kept = at, kept

    async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        fails = bool(self.at) and any(self.at in line for line in lines)
        if fails:
            self.at = b""
        if not fails or self.kept:
            await super().append(run, expected, lines, claim, changes)
        if fails:
            raise StorageError("the store cannot be reached")


class Desk:
    """An agent that pays, alone or as the tool of another."""

    def __init__(self, *, nested: bool = False, gated: bool = True, approval: Approval | None = None) -> None:
        self.paid: list[int] = []
        self.inside: Any = None

        @function_tool(needs_approval=gated, approval=approval)
        async def pay(amount: int) -> str:
            if self.inside is not None:
                await self.inside()
            self.paid.append(amount)
            return f"paid {amount}"

        script = [[function_call("pay", {"amount": 5}, call_id="c1")], assistant_message("paid")]
        self.agent = Agent(name="desk", model=ScriptedModel(script), tools=[pay])
        if nested:
            asks = [[function_call("ask_desk", {"input": "pay 5"}, call_id="c0")], assistant_message("done")]
            tool = self.agent.as_tool("ask_desk", "Asks the desk.")
            self.agent = Agent(name="boss", model=ScriptedModel(asks), tools=[tool])


async def test_what_a_nested_agent_began_is_in_doubt_when_its_result_could_not_be_kept(streamed: bool) -> None:
    journal, desk = Failing(b'"e":"CallFinished","call":"r/1.0/1.0"'), Desk(nested=True, gated=False)
    with pytest.raises(StorageError):
        await play(desk.agent, "go", streamed, journal=journal)
    [row] = await journal.runs()
    assert (row.status, desk.paid) == ("running", [5])
    result = await play(desk.agent, await RunState.load(journal, row.run, desk.agent), streamed)
    [item] = result.interruptions
    assert (item.kind, item.call, desk.paid) == ("in_doubt", "r/1.0/1.0", [5])


async def test_a_store_that_fails_fails_no_run_and_the_run_is_looked_at_again(streamed: bool) -> None:
    journal, desk = Failing(), Desk()
    state = (await play(desk.agent, "go", streamed, journal=journal)).to_state()
    state.approve(state.get_interruptions()[0], by="ada")
    journal.at, journal.kept = b'"e":"CallDecided"', True
    with pytest.raises(StorageError):
        await play(desk.agent, state, streamed)
    [row] = await journal.runs()
    assert (row.status, desk.paid) == ("running", [])
    journal.time += 60_000
    assert await journal.due() == [row.run]
    again = await play(desk.agent, await RunState.load(journal, row.run, desk.agent), streamed)
    state, [doubt] = again.to_state(), again.interruptions  # its start went along with the decision
    assert (doubt.kind, desk.paid) == ("in_doubt", [])
    state.resolve(doubt, "retry", by="ada")
    again = await play(desk.agent, state, streamed)
    assert (again.final_output, desk.paid) == ("paid", [5])


async def test_a_line_that_the_store_refuses_fails_no_run(streamed: bool) -> None:
    """A crash of a database may take back the release that refused it: the failure would be recorded then."""

    class Refusing(Failing):
        async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
            try:
                await super().append(run, expected, lines, claim, changes)
            except StorageError:
                raise Conflict(f"run {run!r} is not held under this claim") from None

    journal, desk = Refusing(b'"e":"CallFinished"'), Desk(gated=False)
    with pytest.raises(Conflict):
        await play(desk.agent, "go", streamed, journal=journal)
    [row] = await journal.runs()
    assert (row.status, desk.paid) == ("running", [5])
    journal.time += 60_000
    assert await journal.due() == [row.run]
    again = await play(desk.agent, await RunState.load(journal, row.run, desk.agent), streamed)
    assert [(item.kind, item.name) for item in again.interruptions] == [("in_doubt", "pay")]


async def test_a_decision_between_the_reading_of_a_run_and_its_holding_is_not_slept_through(streamed: bool) -> None:
    class Busy(Failing):
        async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
            if self.at:
                [request] = await self.requests(Query(run=run, state="open"))
                self.at = b""
                await Inbox(self).approve(request, by="ada")
            return await super().claim(run, worker, ttl_ms)

    journal, desk = Busy(), Desk()
    run = (await play(desk.agent, "go", streamed, journal=journal)).run_id
    state = await RunState.load(journal, run, desk.agent)
    journal.at = b"nothing that a line says"
    await play(desk.agent, state, streamed)
    journal.time += 60_000
    assert desk.paid == [5] or await journal.due() == [run]


async def test_a_hold_outlives_a_store_that_fails_for_a_moment(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = asyncio.Event()

    class Shaky(Failing):
        async def renew(self, claim: Claim, ttl_ms: int) -> Claim:
            if not self.at:
                self.at = b"nothing that a line says"
                raise StorageError("the store cannot be reached")
            renewed.set()
            return await super().renew(claim, ttl_ms)

    monkeypatch.setattr(Execution, "lease_ms", 600)
    desk = Desk(gated=False)
    desk.inside = renewed.wait
    result = await asyncio.wait_for(play(desk.agent, "go", streamed, journal=Shaky()), 20)
    assert (result.final_output, desk.paid) == ("paid", [5])


async def test_no_model_is_asked_for_an_agent_whose_beginning_is_not_kept_yet(streamed: bool) -> None:
    class Slow(Failing):
        async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
            await turns_of_the_loop(20)
            await super().append(run, expected, lines, claim, changes)

    journal, early = Slow(), list[str]()

    async def answer(request: Any) -> Any:
        task = request.input[0]["content"]
        kept = [line for row in await journal.runs() for line in await journal.read(row.run)]
        if not any(b'"e":"FrameOpened"' in line and task.encode() in line for line in kept):
            early.append(task)
        return assistant_message("answered")

    clerk = Agent(name="clerk", model=ScriptedModel(answer))
    calls = [function_call("ask", {"input": f"task {n}"}, call_id=f"c{n}") for n in range(4)]
    boss = Agent(
        name="boss", model=ScriptedModel([calls, assistant_message("done")]), tools=[clerk.as_tool("ask", "Asks.")]
    )
    result = await play(boss, "go", streamed, journal=journal)
    assert (result.final_output, early) == ("done", [])


async def test_what_somebody_else_has_settled_meanwhile_is_no_failure() -> None:
    journal, desk = Failing(), Desk(nested=True)
    state = (await Runner.run(desk.agent, "go", journal=journal)).to_state()
    driven = Drive(state.live, FrameSettings(RunConfig(), state.context), partial(RunResult, state.live))
    driven.claim = await journal.claim(state.run_id, "worker", 60_000)
    loop = Loop(driven)
    await loop._perform(Effect("screen", "r/1.0/7.0"))
    await loop._perform(Effect("model", "r/1.0/1.0"))  # a call that is there, and no agent works for it
    await loop.advance()
    assert len(await journal.read(state.run_id)) == state.position


class Delayed(RunHooks[Any]):
    """Between the decision to run a tool and its start an hour goes by."""

    live: Any = None

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        if self.live is not None:
            clock, self.live.clock = self.live.clock, lambda: clock() + 3_600_000


@pytest.mark.parametrize("kept", [False, True], ids=["bare", "journal"])
async def test_an_approval_that_goes_stale_just_before_its_start_asks_again(streamed: bool, kept: bool) -> None:
    desk, hooks = Desk(approval=Approval(execute_by="30s")), Delayed()
    journal = MemoryJournal() if kept else None
    state = (await play(desk.agent, "go", streamed, journal=journal, hooks=hooks)).to_state()
    state.approve(state.get_interruptions()[0], by="ada")
    hooks.live = state.live
    result = await play(desk.agent, state, streamed, hooks=hooks)
    assert (len(result.interruptions), desk.paid) == (1, [])
    assert "has expired" in result.interruptions[0].reason


@pytest.mark.each
@pytest.mark.parametrize("fault", ["the store", "the policy"])
async def test_what_cannot_be_moved_is_not_taken_up_again_at_once(fault: str) -> None:
    """A request ran out, and nothing can be written of it: its run is left for a minute and not asked for ever."""
    taken = list[str]()

    class Refusing(Failing):
        async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
            if self.at:
                raise StorageError("the store cannot be written")
            await super().append(run, expected, lines, claim, changes)

        async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
            taken.append(run)
            return await super().claim(run, worker, ttl_ms)

    journal, desk = Refusing(), Desk(approval=Approval(expires="1s"))
    policy = None if fault == "the store" else Policy()
    run = (await play(desk.agent, "go", journal=journal, policy=policy)).run_id
    journal.time += 2_000
    taken.clear()
    journal.at = b"all" if fault == "the store" else b""
    async with App([desk.agent], journal):  # of a run under a policy an app without one takes nothing up
        await turns_of_the_loop(200)
    assert taken == [run]
    journal.time += 61_000
    assert await journal.due() == [run]
