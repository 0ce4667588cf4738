"""Terms that want a signature hold in a session: nobody in the call meets them, people elsewhere sign."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from keyturn import Approval, MemoryJournal, NotAllowed
from keyturn.core import events as ev
from keyturn.core.people import Decider
from keyturn.core.run import call_digest
from keyturn.directory.people import Login
from keyturn.engine.run.log_cache import log_in
from keyturn.realtime import RealtimeAgent, RealtimeRunner
from tests.directory.test_signed import Desk, forge
from tests.realtime.attending import OwnModel, Reader
from tests.waiting import until

TERMS = Approval(signed=True, quorum=2, expires="2m")


async def test_a_realtime_call_runs_once_two_people_signed_it_and_on_no_forged_word(own_key: None) -> None:
    journal: Any = MemoryJournal()
    desk = Desk(journal, TERMS)
    model = OwnModel()
    agent = RealtimeAgent("voice", tools=desk.app.agents["desk"].tools)
    desk.app.agents["voice"] = agent
    async with desk.app:
        await desk.people()
        session = await RealtimeRunner(agent, model=model, app=desk.app).run()
        async with session:
            told = Reader(session)
            await model.calls("pay", '{"amount": 5}')
            await told.until("tool_approval_required")
            with pytest.raises(NotAllowed):
                await session.approve_tool_call("c1", by="ada")
            [request] = await desk.app.inbox.list(run=session.run_id)
            log = await log_in(journal, session.run_id)
            bare = ev.Decision(request.call, "approve", call_digest(log.run, log.run.calls[request.call]), log.run.now)
            with pytest.raises(NotAllowed):
                await forge(desk, request, replace(bare, decider=Decider("bob", (), "authenticated")))
            for name in ("ada", "bob"):
                assert desk.paid == []
                proof = await desk.signed(name, request)
                await desk.app.inbox.approve(request, by=Login(name), proof=proof)
            await told.until("tool_end")
            await until(model.outputs)
    assert (desk.paid, model.outputs()) == ([5], [("c1", "paid 5")])
