"""A session that stood still for longer than its lease, and whose run another process has, does nothing more in it."""

from __future__ import annotations

from typing import Any

from keyturn import Conflict, HostedMCPTool, MemoryJournal
from keyturn.realtime import RealtimeRunner
from keyturn.realtime import model_events as me
from tests.playing import Clock
from tests.realtime.attending import OwnModel, Reader, talking_to
from tests.realtime.desk import ran, refund, support
from tests.waiting import until

DOCS: dict[str, Any] = {"type": "mcp", "server_label": "docs", "server_url": "https://docs.example/mcp"}
REQUEST: dict[str, Any] = {"id": "mcpr_1", "server_label": "docs", "name": "wipe", "arguments": "{}"}


async def test_a_session_whose_run_was_taken_over_delivers_nothing_and_hangs_up(clock: Clock) -> None:
    """Else a provider would run a request of a hosted server of which the next session says that nothing came of it."""
    agent, journal = support(refund, HostedMCPTool(DOCS)), MemoryJournal(clock=clock)
    old, new = OwnModel(), OwnModel()
    session = await (await RealtimeRunner(agent, model=old, journal=journal).run()).enter()
    told = Reader(session)
    await old.calls("refund", {"order": "A1"})
    await old.tell(me.RealtimeModelApprovalRequestEvent(REQUEST))
    await told.until("tool_approval_required", 2)
    sent = len(old.sent)
    clock.now += 60_000
    async with talking_to(new, agent, journal=journal, resume=session.run_id) as (second, _told):
        for item in second.pending_approvals:
            await second.approve_tool_call(item)
        await until(lambda: ("c1", "refunded A1") in new.outputs())
        await until(lambda: told.ended)
        assert isinstance(told.ended, Conflict)
        assert (old.sent[sent:], ran) == ([], ["A1"])
        await until(lambda: old.closes)
        await session.close()
        assert not second.pending_approvals
