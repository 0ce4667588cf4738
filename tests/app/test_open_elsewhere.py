"""A call that stands open in one process goes on there, whoever takes its run up; it is in doubt once that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

from keyturn import Agent, App, Conflict, MemoryJournal, Runner
from keyturn.audit.checker import check
from keyturn.engine.driving import home
from keyturn.engine.driving.home import Home, lives_elsewhere
from keyturn.journal.base import Claim
from keyturn.testing import ScriptedModel, function_call, tool_outputs
from tests.mcp.conftest import Inside
from tests.waiting import until, until_status

RUNS = 6


class Confirm(BaseModel):
    ok: bool


@pytest.fixture(autouse=True)
def own_world(own_key: None) -> None:
    """A key of the test's own."""


def desk() -> Agent[Any]:
    """An agent of a process of its own, whose server asks within its calls."""
    server = MCPServer("shop", log_level="CRITICAL")

    @server.tool()
    async def asks(amount: int, ctx: Context[Any, Any]) -> str:
        answer = await ctx.elicit(f"Really {amount}?", Confirm)
        return f"{amount} {answer.action}"

    def reply(request: Any) -> Any:
        read = tool_outputs(request)
        return f"read {', '.join(map(str, read.values()))}" if read else [function_call("asks", {"amount": 5})]

    return Agent(
        "desk",
        model=ScriptedModel(reply),
        mcp_servers=[Inside(server, mode="legacy", seconds=20, asks_within_calls=True)],
    )


@asynccontextmanager
async def asked(journal: Any) -> AsyncGenerator[list[str]]:
    """Runs whose calls stand open in a process that works on them."""
    async with App([desk()], journal) as app:
        runs = [(await app.start("desk", "go")).id for _ in range(RUNS)]
        for run in runs:
            await until_status(app, run, "waiting")
        yield runs


async def test_an_answer_goes_to_the_process_in_which_the_call_stands_open() -> None:
    """Of several workers the one that took the run up put the call in doubt, though its server still waited."""
    journal = MemoryJournal()
    async with asked(journal) as runs, App([desk()], journal) as other:
        await asyncio.gather(*(other.inbox.answer(each, {"ok": True}, by="ada") for each in await other.inbox.list()))
        results = [await other.result(run, 30) for run in runs]
        assert [result.final_output for result in results] == ["read 5 accept"] * RUNS
    assert (await check(journal)).ok
    assert {row.run for row in await journal.runs()} == set(runs), "the lease is no run"


async def test_an_answered_call_is_in_doubt_once_its_process_is_gone() -> None:
    journal = MemoryJournal()
    async with asked(journal) as runs:
        pass
    async with App([desk()], journal) as other:
        await asyncio.gather(*(other.inbox.answer(each, {"ok": True}, by="ada") for each in await other.inbox.list()))

        async def in_doubt() -> bool:
            return [each.kind for each in await other.inbox.list()] == ["in_doubt"] * len(runs)

        await until(in_doubt)
    assert (await check(journal)).ok


async def test_who_goes_on_with_the_state_in_another_process_is_told_where_the_call_stands_open() -> None:
    journal, agent = MemoryJournal(), desk()
    async with asked(journal) as runs, agent.mcp_servers[0]:
        state = await App([agent], journal, worker=False).state(runs[0])
        state.answer(state.get_interruptions()[0], {"ok": True})
        with pytest.raises(Conflict, match="is open in another process"):
            await Runner.run(agent, state, journal=journal)
        row = await App([agent], journal, worker=False).get(runs[0])
        assert row.status == "waiting", "nothing was recorded, and an inbox takes the answer"


class Needs:
    """A call that stands open somewhere."""

    def __init__(self, state: Any) -> None:
        self.need = self
        self.state = state


async def test_a_process_lives_as_long_as_it_renews_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000]
    journal = MemoryJournal(clock=lambda: now[0])
    monkeypatch.setattr(home, "_TTL_MS", 30)
    here = Home(journal)
    first, second = await asyncio.gather(here.hold({"parked": 1}), here.hold({"parked": 2}))
    call: Any = Needs(first)
    assert (home.state_of(first), home.state_of(second)) == ({"parked": 1}, {"parked": 2})
    assert not await lives_elsewhere(journal, here, call)
    for _ in range(5):
        now[0] += 20
        before: Claim | None = vars(here)["_claim"]
        await until(lambda: vars(here)["_claim"].until > before.until)  # noqa: B023  # it is awaited in this round
        assert await lives_elsewhere(journal, None, call)
    now[0] += 1_000
    await lives_elsewhere(journal, None, call)  # it stood still for longer: whoever looked then took the lease
    await until(lambda: vars(here)["_claim"].until > now[0])
    assert await lives_elsewhere(journal, None, call)
    await here.close()
    assert not await lives_elsewhere(journal, None, call)
    died = Home(journal)
    call = Needs(await died.hold({}))
    vars(died)["_keeping"].cancel()
    assert await lives_elsewhere(journal, None, call)
    now[0] += 31
    assert not await lives_elsewhere(journal, None, call)
    await died.close()
    for state in (None, {}, {"keyturn/home": 7}, {"keyturn/home": "run-1"}, "@home-1"):
        call = Needs(state)
        assert not await lives_elsewhere(journal, None, call), state
