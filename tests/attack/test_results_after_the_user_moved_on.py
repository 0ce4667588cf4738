"""A session never says of a call that it was not executed when it was, and holds one result of each call."""

from __future__ import annotations

import asyncio
from typing import Any

from keyturn import Agent, App, MemorySession, Runner, function_tool
from keyturn.engine.session.sync import MOVED_ON
from keyturn.models.scripted.model import function_call
from keyturn.sessions.history import orphan_calls, orphan_outputs
from keyturn.testing import ScriptedModel, tool_outputs
from keyturn.tools.base import OutcomeUnknown


def reply(request: Any) -> Any:
    last = [item for item in request.input if item.get("role") == "user"][-1]["content"]
    if last == "and now?":
        return str(tool_outputs(request))
    return "paid it" if tool_outputs(request) else [function_call("pay", {}, call_id="c1")]


async def test_a_message_that_comes_while_an_approved_call_runs_is_told_the_truth() -> None:
    """The call has no result yet; the one that comes later is told in words, after what was said meanwhile."""
    begun, go = asyncio.Event(), asyncio.Event()

    @function_tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        begun.set()
        await go.wait()
        return "paid 5"

    session = MemorySession("s")
    agent = Agent("desk", model=ScriptedModel(reply), tools=[pay])
    async with App([agent], "memory://", sessions=lambda _id: session) as app:
        first = await app.start("desk", "pay", session_id="s", requester="eve")
        await first.wait(20)
        [request] = await app.inbox.list()
        await app.inbox.approve(request, by="ann")
        await asyncio.wait_for(begun.wait(), 20)
        second = await app.start("desk", "and now?", session_id="s", requester="eve")
        assert (await second.result(20)).final_output == str({"c1": MOVED_ON})
        go.set()
        assert (await first.result(20)).final_output == "paid it"
    items = await session.get_items()
    assert (orphan_calls(items), orphan_outputs(items)) == ([], [])
    said = [str(item.get("content")) for item in items if item.get("role") == "assistant"]
    assert said[-2] == "The result of call c1 came after the user moved on: paid 5"
    assert "paid it" in said[-1]


async def test_a_call_in_doubt_is_not_told_as_one_that_was_not_executed() -> None:
    @function_tool
    async def pay() -> str:
        """Pay."""
        raise OutcomeUnknown("the connection broke")

    session = MemorySession("s")
    agent = Agent("desk", model=ScriptedModel(reply), tools=[pay])
    waits = await Runner.run(agent, "pay", session=session)
    assert [item.kind for item in waits.interruptions] == ["in_doubt"]
    told = (await Runner.run(agent, "and now?", session=session)).final_output
    assert "no result" in told
    assert "not executed" in told.partition("If the call still waited for approval")[2]
