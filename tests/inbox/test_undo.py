"""An approval that can be undone: its call starts no sooner than it says, and not at all once it is withdrawn."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, App, Inbox, Runner, UserError
from keyturn.audit.checker import check
from keyturn.core import events as ev
from keyturn.engine.run.log_cache import log_in
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.policies.grants import Grant
from tests.inbox.paying import paid, paying
from tests.waiting import until_status


def clerk(**terms: Any) -> Agent[Any]:
    calls = [function_call("pay", {"amount": 5}, call_id="c5")]
    return Agent("clerk", model=ScriptedModel([calls, "done"]), tools=[paying(**terms)])


async def test_a_call_starts_once_its_approval_cannot_be_undone(store: Any) -> None:
    async with App([clerk()], store) as app:
        run = await app.start("clerk", "go")
        await until_status(app, run.id, "waiting")
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann", undo="0.3s")
        assert (await run.result(20)).final_output == "done"
    steps = (await log_in(store, run.id)).steps
    [said] = [event.decision for step in steps for event in step.events if isinstance(event, ev.CallDecided)]
    [started] = [step.at for step in steps for event in step.events if isinstance(event, ev.CallStarted)]
    assert (said.undo_ms, started >= said.at + 300) == (300, True)
    assert paid == [5]
    assert (await check(store)).ok


async def test_an_approval_that_is_undone_in_time_lets_nothing_run(store: Any) -> None:
    async with App([clerk()], store) as app:
        run = await app.start("clerk", "go")
        await until_status(app, run.id, "waiting")
        [row] = await app.inbox.list()
        row = await app.inbox.approve(row, by="ann", undo="60s")
        row = await app.inbox.withdraw(row, by="ann")
        assert row.state == "open"
        await app.inbox.reject(row, by="ann")
        assert (await run.result(20)).final_output == "done"
    assert paid == []
    assert (await check(store)).ok


async def test_a_call_is_held_for_a_minute_at_most(store: Any) -> None:
    await Runner.run(clerk(), "go", journal=store)
    inbox = Inbox(store)
    [row] = await inbox.list()
    with pytest.raises(UserError, match="at most 60 seconds"):
        await inbox.approve(row, by="ann", undo="61s")
    with pytest.raises(UserError, match="a grant holds at once"):
        await inbox.approve(row, by="ann", undo="5s", grant=Grant())
    assert await inbox.grants() == []


async def test_an_approval_that_would_lapse_while_it_can_be_undone_is_refused(store: Any) -> None:
    await Runner.run(clerk(execute_by="5s"), "go", journal=store)
    inbox = Inbox(store)
    [row] = await inbox.list()
    with pytest.raises(UserError, match="could never start"):
        await inbox.approve(row, by="ann", undo="5s")
    assert (await inbox.approve(row, by="ann", undo="4s")).state == "approve"
