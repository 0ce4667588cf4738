"""A run that failed stays as it is under a worker until a person says something of it, whatever else makes it due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from keyturn import Agent, App, Approval, Grant, MemoryJournal, function_tool
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.core.codec import Log
from keyturn.core.people import Decider
from keyturn.core.run import call_digest
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import log_in
from keyturn.engine.run.open_run import chain_of
from keyturn.testing import ScriptedModel
from tests.playing import Clock, call, model
from tests.table import each
from tests.waiting import until, until_status

HOUR = 3_600_000


class Desk:
    """A journal with a run that failed after a grant for all runs of its agent was used; one request of it waits."""

    def __init__(self) -> None:
        self.clock, self.done = Clock(), list[str]()
        self.journal = MemoryJournal(self.clock)
        self.run = ""

    def app(self, *replies: Any, **options: Any) -> App:
        @function_tool(needs_approval=True)
        def pay() -> str:
            self.done.append("pay")
            return "paid"

        @function_tool(approval=Approval(expires="1h"))
        def delete() -> str:
            self.done.append("delete")
            return "deleted"

        @function_tool(failure_error_function=None)
        def broken() -> str:
            raise RuntimeError("the database is gone")

        return App([Agent("desk", model=model(*replies), tools=[pay, delete, broken])], self.journal, **options)

    async def fails(self) -> str:
        first = [call("pay", "c1")], [call("delete", "c2"), call("broken", "c3")]
        async with self.app(*first) as app:
            run = await app.start("desk", "go")
            await app.wait(run.id, 30)
            [row] = await app.inbox.list()
            await app.inbox.approve(row, by="ann", grant=Grant(scope="agent"))
            await until_status(app, run.id, "failed")
            await until(lambda: not app.busy)
        self.run = run.id
        return run.id

    async def worked_on(self) -> None:
        """Let a worker look at everything that is due."""
        async with self.app([call("pay", "c4")], "done") as app:
            await app.at_work()

            async def at_rest() -> bool:
                return not app.busy and not await self.journal.due()

            await until(at_rest)

    async def is_resumed(self) -> bool:
        steps = (await log_in(self.journal, self.run)).steps
        return any(isinstance(event, ev.RunResumed) for step in steps for event in step.events)


async def _borrowed(desk: Desk) -> None:
    async with desk.app([call("pay", "c1")], "done") as app:
        other = await app.start("desk", "go")
        await until_status(app, other.id, "finished")
    [grant] = await app.inbox.grants()
    assert grant.uses == 1
    assert desk.done == ["pay", "pay"], "the other run ran on the grant"


async def _revoked(desk: Desk) -> None:
    inbox = desk.app().inbox
    [grant] = await inbox.grants()
    await inbox.revoke(desk.run, grant.id, by="ann")


async def _expired(desk: Desk) -> None:
    desk.clock.pass_ms(2 * HOUR)
    assert await desk.journal.due() == [desk.run], "the clock makes it due"


async def _due(desk: Desk) -> None:
    """As in a store that was copied: what has a due time there is looked at once."""
    claim = await desk.journal.claim(desk.run, "copy", HOUR)
    await desk.journal.release(claim, await desk.journal.now())


EVENTS: dict[str, Callable[[Desk], Awaitable[None]]] = {
    "another run borrows a grant of it": _borrowed,
    "a grant of it is revoked": _revoked,
    "a request of it expires": _expired,
    "it is due in a copy": _due,
}


@each("event", EVENTS)
async def test_no_worker_resumes_a_run_that_failed(event: str) -> None:
    desk = Desk()
    run = await desk.fails()
    await EVENTS[event](desk)
    done = list(desk.done)
    await desk.worked_on()
    row = await desk.app().get(run)
    assert (row.status, row.error) == ("failed", "RuntimeError: the database is gone")
    assert not await desk.is_resumed()
    assert desk.done == done, "no tool ran"
    waits = [each.state for each in await desk.journal.requests() if each.tool == "delete"]
    assert waits == ["expire" if event.endswith("expires") else "open"], "the clock is heeded all the same"


@each("event", ["another run borrows a grant of it", "a grant of it is revoked"])
async def test_what_is_recorded_for_other_runs_makes_no_run_due(event: str) -> None:
    desk = Desk()
    await desk.fails()
    await EVENTS[event](desk)
    assert await desk.journal.due() == []


@each("word", ["send", "reject", "resume"])
async def test_a_failed_run_is_due_once_a_person_says_something_of_it(word: str) -> None:
    desk = Desk()
    run = await desk.fails()
    app = desk.app("done", worker=False)
    [row] = await app.inbox.list()
    if word == "send":
        await app.send(run, "the database is back")
    elif word == "reject":
        await app.inbox.reject(row, by="ann")
    else:
        await app.resume(run)
    assert await desk.is_resumed()
    assert await desk.journal.due() == [run]


async def test_a_decision_that_loses_the_race_to_the_failure_resumes_the_run() -> None:
    """It was made of the run as it was before; unresumed it would be acknowledged and wait for nobody."""
    desk = Desk()
    run = await desk.fails()
    before = Log.opened((await desk.journal.read(run))[:-1], chain_of(desk.journal, run))
    assert before.run.status == "running"
    [waits] = before.run.groups["wait"].values()
    said = ev.Decision(waits.id, "reject", call_digest(before.run, waits), decider=Decider("ann", (), "authenticated"))
    await write_to(desk.journal, before, cm.Deliver([said]))
    assert await desk.is_resumed()
    assert await desk.journal.due() == [run]


async def test_what_another_process_stops_is_not_moved_on_by_the_one_that_holds_it() -> None:
    """Its store was settled as a restored one while its model was asked."""
    desk, asked, answer = Desk(), asyncio.Event(), asyncio.Event()

    async def slow(_request: Any) -> Any:
        asked.set()
        await answer.wait()
        return [call("mail", "c1")]

    @function_tool
    def mail() -> str:
        desk.done.append("mail")
        return "sent"

    async with App([Agent("desk", model=ScriptedModel(slow), tools=[mail])], desk.journal) as app:
        run = await app.start("desk", "go")
        await asked.wait()
        await write_to(
            desk.journal, await log_in(desk.journal, run.id), cm.RecordRestore("its store was restored", "n")
        )
        answer.set()
        await until(lambda: not app.busy)
        assert (await app.get(run.id)).status == "failed"
        assert not desk.done
        await app.resume(run.id)
        await until(lambda: desk.done)
