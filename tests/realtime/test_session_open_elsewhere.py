"""A session says why it ends where a call that people have answered goes on in another process."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Conflict, MemoryJournal, NeedsInput, function_tool
from keyturn.inbox.desk import Inbox
from keyturn.realtime import RealtimeAgent
from tests.realtime.attending import OwnModel, talking_to
from tests.waiting import turns_of_the_loop, until

pytestmark = pytest.mark.usefixtures("own_key")
THERE = "@home-of-a-worker"


@function_tool
def asks() -> str:
    """Ask a person, as a call does that stands open in a worker."""
    raise NeedsInput("Really?", {"keyturn/home": THERE, "state": {}})


async def test_a_session_says_that_an_answered_call_goes_on_in_another_process() -> None:
    model, journal = OwnModel(), MemoryJournal()
    agent: Any = RealtimeAgent(name="desk", tools=[asks])
    inbox = Inbox(journal, {"desk": agent})
    await journal.claim(THERE, "a worker that lives", 60_000)
    async with talking_to(model, agent, journal=journal) as (_session, told):
        await model.calls("asks")
        await told.until("tool_start")
        while not (rows := await inbox.list()):
            await turns_of_the_loop(1)
        [row] = rows
        await inbox.answer(row, {"ok": True}, by="ada")
        await until(lambda: told.task.done())
    assert isinstance(told.ended, Conflict)
    assert "another process" in str(told.ended)
    assert await journal.due() == [row.run], "that process goes on with it at once"
