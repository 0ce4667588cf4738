"""The lease on a run goes along with its first line and with its last, and is lost with neither."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

from keyturn import Agent, AgentHooks, Conflict, MemoryJournal, Runner, RunState, function_tool
from keyturn.core import commands as cm
from keyturn.core.events import ROOT
from keyturn.engine.driving.writer import write_to
from keyturn.engine.entry import play_of
from keyturn.engine.run.log_cache import log_in
from keyturn.journal.base import Claim, Lease
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.waiting import turns_of_the_loop

MINUTE = 60_000


class Told(MemoryJournal):
    """Notes what is asked about leases; `meanwhile` is done once, right before the line of that number."""

    def __init__(self) -> None:
        super().__init__()
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
    assert journal.asked == ["claim", "ends 4"]
    assert (await journal.claim(held.run_id, "another", MINUTE)).epoch == 3


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
        async def on_llm_end(self, *_given: Any) -> None:
            context["seen"] += 1

    held = await Runner.run(desk(hooks=Counts()), "go", journal=journal, context=context)
    assert journal.asked == ["takes 0", "ends 2"]
    assert (await RunState.load(journal, held.run_id, desk())).live.run.context == {
        "kind": "plain",
        "data": {"seen": 1},
    }


async def test_a_journal_written_before_leases_went_along_is_asked_for_each() -> None:
    class Older(Told):
        @wraps(MemoryJournal.append)
        async def append(self, run: str, expected: int, lines: Any, claim: Any = None, changes: Any = None) -> None:
            await MemoryJournal.append(self, run, expected, lines, claim, changes)

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
