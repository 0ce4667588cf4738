"""The lease on a run goes along with its first line and with its last, and is lost with neither."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import pytest

from keyturn import Agent, AgentHooks, Conflict, MemoryJournal, MemorySession, Runner, RunState, function_tool
from keyturn.core import commands as cm
from keyturn.core.aside import MOST_LOST, SetAside
from keyturn.core.codec import Log
from keyturn.core.errors import ToolMissing
from keyturn.core.events import ROOT, CallStarted
from keyturn.engine.driving.writer import write_to
from keyturn.engine.entry import play_of
from keyturn.engine.run.log_cache import log_in
from keyturn.engine.run.used_states import UsedStates
from keyturn.journal.base import Claim, Lease
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.waiting import turns_of_the_loop

MINUTE = 60_000


class Told(MemoryJournal):
    """Notes what is asked about leases; `meanwhile` is done once, right before the line of that number."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        super().__init__(clock)
        self.asked: list[str] = []
        self.meanwhile: tuple[int, Callable[[str], Awaitable[Any]]] | None = None

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Claim:
        self.asked.append("claim")
        return await super().claim(run, worker, ttl_ms)

    async def release(self, claim: Claim, due: int | None = None) -> None:
        self.asked.append("release")
        await super().release(claim, due)

    async def append(
        self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None, lease: Lease | None = None
    ) -> Claim | None:
        if self.meanwhile is not None and self.meanwhile[0] == expected:
            meanwhile, self.meanwhile = self.meanwhile[1], None
            await meanwhile(run)
        taken = await super().append(run, expected, lines, claim, changes, lease)
        if lease is not None:
            self.asked.append(f"{'takes ' if lease.worker else ''}{'ends ' if lease.ends else ''}{expected}")
        return taken


@function_tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def desk(*replies: Any, **options: Any) -> Agent[Any]:
    """An agent that pays, on a person's word."""
    asks = [function_call("pay", {"amount": 5}, call_id="c1")]
    return Agent("desk", model=ScriptedModel([asks, *replies]), tools=[pay], **options)


def starts(log: Log) -> list[CallStarted]:
    """What a log says of starts."""
    return [each for step in log.steps for each in step.events if isinstance(each, CallStarted)]


async def test_a_lease_is_asked_for_by_itself_only_where_somebody_else_may_have_the_run() -> None:
    journal, agent = Told(), desk("done")
    held = await Runner.run(agent, "go", journal=journal)
    assert journal.asked == ["takes 0", "ends 1"]
    assert await journal.due() == []
    journal.asked.clear()
    state = await RunState.load(journal, held.run_id, agent)
    state.approve(state.get_interruptions()[0])
    done = await Runner.run(agent, state)
    assert done.final_output == "done"
    assert journal.asked == ["takes 2", "ends 4"]
    [started] = [
        each for step in done.to_state().live.log.steps for each in step.events if isinstance(each, CallStarted)
    ]
    assert started.by.startswith("process"), "whoever starts a call is named before the lease is taken"
    assert (await journal.claim(held.run_id, "another", MINUTE)).epoch == 3


async def test_a_resume_claims_first_where_code_of_the_users_is_asked_before_its_first_line() -> None:
    journal = Told()

    def offered(*_given: Any) -> bool:
        journal.asked.append("offered")
        return True

    asked_for = function_tool(pay.on_invoke_tool, name_override="pay", needs_approval=True, is_enabled=offered)
    for changed in (
        {"tools": [asked_for]},
        {"handoffs": [desk()]},
    ):
        agent = desk("done").clone(**changed)
        held = await Runner.run(desk(), "go", journal=journal)
        state = await RunState.load(journal, held.run_id, agent)
        state.approve(state.get_interruptions()[0])
        journal.asked.clear()
        with suppress(ToolMissing):
            await Runner.run(agent, state)
        assert journal.asked[0] == "claim", changed
    session = MemorySession("s")
    held = await Runner.run(desk(), "go", journal=journal, session=session)
    state = await RunState.load(journal, held.run_id, agent := desk("done"))
    state.approve(state.get_interruptions()[0])
    journal.asked.clear()
    await Runner.run(agent, state, session=session)
    assert journal.asked[0] == "claim", "a session is read under the lease"


async def test_a_resume_of_a_run_that_others_moved_since_it_was_read_begins_anew_under_a_claim() -> None:
    journal, agent = Told(), desk("done")

    async def said(run: str) -> None:
        await write_to(journal, await log_in(journal, run), cm.AddInput(ROOT, [{"role": "user", "content": "quick"}]))

    held = await Runner.run(agent, "go", journal=journal)
    state = await RunState.load(journal, held.run_id, agent)
    state.approve(state.get_interruptions()[0])
    journal.asked.clear()
    journal.meanwhile = (2, said)
    assert (await Runner.run(agent, state)).final_output == "done"
    assert journal.asked == ["claim", "ends 5"]
    assert await journal.due() == []


async def test_of_two_who_resume_a_run_with_one_decision_one_is_refused_and_nothing_runs_twice() -> None:
    journal, agent = Told(), desk("done")
    held = await Runner.run(agent, "go", journal=journal)
    states = [await RunState.load(journal, held.run_id, agent) for _ in range(2)]
    for state in states:
        state.approve(state.get_interruptions()[0])

    async def other(_run: str) -> None:
        states[1].live.used = UsedStates()  # as in another process
        assert (await Runner.run(agent, states[1])).final_output == "done"

    journal.meanwhile = (2, other)
    with pytest.raises(Conflict, match="finished"):
        await Runner.run(agent, states[0])
    assert len(starts(await log_in(journal, held.run_id))) == 1
    assert (await journal.claim(held.run_id, "another", MINUTE)).lost == 0, "and the lease was given back"


async def test_a_resume_is_refused_while_another_holds_the_run_and_keeps_its_decision() -> None:
    journal, agent = Told(), desk("done")
    held = await Runner.run(agent, "go", journal=journal)
    state = await RunState.load(journal, held.run_id, agent)
    state.approve(state.get_interruptions()[0])
    claim = await journal.claim(held.run_id, "another", MINUTE)
    with pytest.raises(Conflict, match="another") as caught:
        await Runner.run(agent, state)
    assert caught.value.winner == "another"
    await journal.release(claim)
    assert (await Runner.run(agent, state)).final_output == "done"


async def test_a_run_that_its_holders_did_not_give_back_is_claimed_first_and_set_aside_in_time() -> None:
    now = [1_000_000]
    journal, agent = Told(lambda: now[0]), desk("done")
    held = await Runner.run(agent, "go", journal=journal)
    for died in range(MOST_LOST):
        await MemoryJournal.claim(journal, held.run_id, f"worker {died}", MINUTE)
        now[0] += MINUTE
    state = await RunState.load(journal, held.run_id, agent)
    state.approve(state.get_interruptions()[0])
    journal.asked.clear()
    with pytest.raises(SetAside):
        await Runner.run(agent, state)
    assert journal.asked == ["claim", "release"]
    assert [row.status for row in await journal.runs()] == ["set_aside"]


async def test_what_is_said_right_before_the_last_line_is_heeded() -> None:
    journal, agent = Told(), desk("done")

    async def said(run: str) -> None:
        await write_to(journal, await log_in(journal, run), cm.AddInput(ROOT, [{"role": "user", "content": "quick"}]))

    journal.meanwhile = (1, said)
    held = await Runner.run(agent, "go", journal=journal)
    assert journal.asked == ["takes 0", "ends 2"], "and the lease did not end with the line that was refused"
    assert await journal.due() == []
    await said(held.run_id)
    assert await journal.due() == [held.run_id], "what is said right after it makes the run due"


async def test_what_comes_after_the_last_line_takes_the_lease_again_and_gives_it_back() -> None:
    journal, context = Told(), {"seen": 0}

    async def changes(_run: str) -> None:
        context["seen"] += 1

    journal.meanwhile = (1, changes)
    held = await Runner.run(desk(), "go", journal=journal, context=context)
    assert journal.asked == ["takes 0", "ends 1", "takes ends 2"]
    assert (await RunState.load(journal, held.run_id, desk())).live.run.context == {
        "kind": "plain",
        "data": {"seen": 1},
    }
    assert (await journal.claim(held.run_id, "another", MINUTE)).epoch == 3


async def test_a_run_whose_caller_leaves_at_its_first_line_is_due_at_once() -> None:
    journal, agent, reached, go_on = Told(), desk(), asyncio.Event(), asyncio.Event()

    async def slow(_run: str) -> None:
        reached.set()
        await go_on.wait()

    journal.meanwhile = (0, slow)
    running = asyncio.ensure_future(Runner.run(agent, "go", journal=journal))
    await reached.wait()
    running.cancel()
    await turns_of_the_loop(1)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    [row] = await journal.runs()
    assert await journal.due() == [row.run]


async def test_a_context_that_changes_with_the_last_reply_is_kept_before_the_lease_is_given_back() -> None:
    journal, context = Told(), {"seen": 0}

    class Counts(AgentHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            context.context["seen"] += 1

    held = await Runner.run(desk(hooks=Counts()), "go", journal=journal, context=context)
    assert journal.asked == ["takes 0", "ends 2"]
    assert (await RunState.load(journal, held.run_id, desk())).live.run.context == {
        "kind": "plain",
        "data": {"seen": 1},
    }


async def test_a_journal_written_before_leases_went_along_is_asked_for_each() -> None:
    async def older(own: Any, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
        await MemoryJournal.append(own, run, expected, lines, claim, changes)

    class Older(Told):
        append: Any = wraps(MemoryJournal.append)(older)

    journal = Older()
    await Runner.run(desk(), "go", journal=journal)
    assert journal.asked == ["claim", "release"]


async def test_a_drive_that_gave_its_lease_back_takes_no_other() -> None:
    journal = Told()
    play = play_of(desk(), "go", journal=journal)
    await play.finish()
    with pytest.raises(Conflict, match="its lease was released"):
        await play.drive.commit(cm.Cancel())
    assert journal.asked == ["takes 0", "ends 1"]


async def test_a_run_that_was_given_back_is_not_failed_by_what_comes_late_to_its_last_drive() -> None:
    journal, context = Told(), {"seen": 0}

    async def taken(run: str) -> None:
        raise Conflict(f"run {run!r} is held by 'another'")

    async def changes(_run: str) -> None:
        context["seen"] += 1
        journal.meanwhile = 2, taken

    journal.meanwhile = (1, changes)
    with pytest.raises(Conflict, match="another"):
        await Runner.run(desk(), "go", journal=journal, context=context)
    assert journal.asked == ["takes 0", "ends 1"]
    assert [row.status for row in await journal.runs()] == ["waiting"]
