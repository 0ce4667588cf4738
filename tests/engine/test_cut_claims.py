"""A claim whose caller is cancelled while it is made is given back: it holds up nobody, and is no holder that died."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, Inbox, Runner, RunState, function_tool
from keyturn.core.aside import MOST_LOST
from keyturn.directory.people import People
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel, function_call
from tests.waiting import turns_of_the_loop, until


async def cut_off(journal: SQLiteJournal, work: Callable[[], Awaitable[Any]]) -> None:
    """Cancel some work while its claim waits for the store."""
    goes_on = threading.Event()
    begun = threading.Event()
    at_work = asyncio.ensure_future(journal.write(lambda _db: [begun.set(), goes_on.wait()]))
    await until(begun.is_set)
    task = asyncio.ensure_future(work())
    writer: Any = journal._writer
    try:
        await until(lambda: writer._jobs)
        task.cancel()
        await turns_of_the_loop()
    finally:
        goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await at_work


@pytest.mark.parametrize("what", ["a resume", "a change of people"])
async def test_a_claim_whose_caller_is_cancelled_is_given_back(tmp_path: Path, what: str) -> None:
    ran: list[str] = []
    journal = SQLiteJournal(tmp_path / "runs.db")

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        ran.append(to)
        return "paid"

    model = ScriptedModel([function_call("pay", {"to": "ann"}), "Done."])
    agent = Agent("desk", model=model, tools=[pay])
    people = People(journal)
    await people.start("root")
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    await Inbox(journal).approve((await journal.requests(Query(run=run)))[0], by="ann")

    async def resume() -> Any:
        return await Runner.run(agent, await RunState.load(journal, run, agent), journal=journal)

    async def change() -> Any:
        return await people.add("bea", by="root")

    for _ in range(MOST_LOST + 1):
        await cut_off(journal, resume if what == "a resume" else change)
        claim = await journal.claim(run if what == "a resume" else "@directory", "another", 60_000)
        assert claim.lost == 0
        await journal.release(claim)
    await change()
    assert (await resume()).final_output == "Done."
    assert len(ran) == 1
    await journal.close()


class SlowEnd(SQLiteJournal):
    """Answers an append that gives the lease back once `answers` is set."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.made, self.answers = asyncio.Event(), asyncio.Event()

    async def append(self, *given: Any, lease: Any = None, **more: Any) -> Any:
        made = await super().append(*given, lease=lease, **more)
        if lease is not None and lease.ends:
            self.made.set()
            await self.answers.wait()
        return made


async def test_a_run_that_is_cancelled_as_its_last_line_is_kept_says_so_and_stands_as_it_is(tmp_path: Path) -> None:
    """It raised `Conflict` in place of the cancellation ("its lease was released")."""
    journal = SlowEnd(tmp_path / "runs.db")

    @function_tool(needs_approval=True)
    def pay(to: str) -> str:
        return f"paid {to}"

    @function_tool
    async def look(to: str) -> str:
        return f"saw {to}"

    calls = [function_call("pay", {"to": "ann"}, call_id="c1"), function_call("look", {"to": "ann"}, call_id="c2")]
    agent = Agent("desk", model=ScriptedModel([calls, "Done."]), tools=[pay, look])
    task = asyncio.ensure_future(Runner.run(agent, "go", journal=journal))
    await journal.made.wait()
    task.cancel()
    journal.answers.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    [row] = await journal.runs(Query())
    assert (row.status, [request.kind for request in await journal.requests(Query())]) == ("waiting", ["approval"])
    await journal.release(await journal.claim(row.run, "another", 60_000))
    await journal.close()
