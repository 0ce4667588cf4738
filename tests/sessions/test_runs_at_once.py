"""Two runs on one session at the same time, and stores that fail before, during and after an append."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.json_file_session import JsonFileSession
from keyturn import Agent, Conflict, MemorySession, Runner, RunResult, SQLiteSession
from keyturn.core.items import Item
from keyturn.models.scripted.model import ModelStep, ScriptedModel
from keyturn.sessions.history import orphan_calls, orphan_outputs
from tests.models.test_crossing import MEMBERS, model_of
from tests.playing import (
    Run,
    World,
    approved,
    call,
    model,
    shape,
    state_of,
)

members = pytest.mark.parametrize("member", MEMBERS.values(), ids=list(MEMBERS))


@pytest.fixture(params=["memory", "sqlite", "json file"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A session of each kind, a user's own included."""
    if request.param == "sqlite":
        with closing(SQLiteSession("s", tmp_path / "s.db")) as file:
            yield file
    else:
        yield MemorySession("s") if request.param == "memory" else JsonFileSession("s", tmp_path)


class Timed:
    """An agent whose first reply comes when it is let."""

    def __init__(self, world: World, reply: Any) -> None:
        self.asked, self.let = asyncio.Event(), asyncio.Event()
        tools = [world.tool("ask", needs_approval=True), world.tool("free")]
        self.agent = Agent("a", model=ScriptedModel([ModelStep(reply, delay=self._wait), "done"]), tools=tools)

    async def _wait(self) -> None:
        self.asked.set()
        await self.let.wait()

    async def begin(self, run: Run, text: str, session: Any) -> asyncio.Task[RunResult]:
        """A run that has read its session and waits for its model."""
        task = asyncio.ensure_future(run(self.agent, text, session=session))
        await self.asked.wait()
        return task

    async def end(self, task: asyncio.Task[RunResult]) -> RunResult:
        """Its result, once its model may answer."""
        self.let.set()
        return await task


async def said(session: Any) -> list[str]:
    return shape(await session.get_items())


async def test_both_are_kept_each_in_one_piece(world: World, run: Run, session: Any) -> None:
    one, other = Timed(world, [call("free", "c1")]), Timed(world, "hello")
    first, second = await one.begin(run, "one", session), await other.begin(run, "two", session)
    await other.end(second)
    await one.end(first)
    assert await said(session) == ["user", "assistant", "user", "call c1", "output c1", "assistant"]


async def test_a_pause_that_came_last_is_gone_on_with(world: World, run: Run, saved: bool, session: Any) -> None:
    one, other = Timed(world, [call("ask", "c1")]), Timed(world, "hello")
    first, second = await one.begin(run, "one", session), await other.begin(run, "two", session)
    await other.end(second)
    state = await approved(await one.end(first), one.agent, saved)
    result = await run(one.agent, state, session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert await said(session) == ["user", "assistant", "user", "call c1", "output c1", "assistant"]


async def test_a_pause_that_came_last_finds_its_history_before_the_other_run(world: World) -> None:
    session, run = MemorySession("s"), Runner.run
    await run(Agent("a", model=ScriptedModel(["hi"])), "hello", session=session)
    one, other = Timed(world, [call("ask", "c1")]), Timed(world, "hello")
    first, second = await one.begin(run, "one", session), await other.begin(run, "two", session)
    await other.end(second)
    state = await approved(await one.end(first), one.agent, saved=True)
    assert (await run(one.agent, state, session=session)).final_output == "done"
    asked = one.agent.model.calls[-1].input
    assert [item["content"] for item in asked if item.get("role") == "user"] == ["hello", "one"]


@members
async def test_a_pause_that_another_run_overtook_is_superseded(world: World, run: Run, member: Any) -> None:
    """The tool does not run, the late decision is told why, and every provider takes the next request."""
    session = MemorySession("s")
    one, other = Timed(world, [call("ask", "c1")]), Timed(world, "hello")
    first, second = await one.begin(run, "one", session), await other.begin(run, "two", session)
    paused = await one.end(first)
    await other.end(second)
    with pytest.raises(Conflict, match="went on without this run"):
        await run(one.agent, await approved(paused, one.agent), session=session)
    assert world.done == []
    async with member[0](["fine"]) as server:
        asking = model_of(member, server)
        result = await run(Agent("c", model=asking), "three", session=session)
        await asking.close()
    assert result.final_output == "fine"
    items = await session.get_items()
    assert orphan_calls(items) == orphan_outputs(items) == []
    assert shape(items) == ["user", "call c1", "user", "assistant", "output c1", "user", "assistant"]


async def test_many_at_once_lose_nothing(world: World, run: Run, session: Any) -> None:
    agents = [
        Agent("a", model=model([call("free", f"c{n}")], f"done {n}"), tools=[world.tool("free")]) for n in range(6)
    ]
    await asyncio.gather(*(run(agent, f"go {n}", session=session) for n, agent in enumerate(agents)))
    told = await said(session)
    assert sorted(told) == sorted(
        ["user", "assistant"] * 6 + [f"{kind} c{n}" for n in range(6) for kind in ("call", "output")]
    )
    for n in range(6):
        place = told.index(f"call c{n}")
        assert told[place - 1 : place + 3] == ["user", f"call c{n}", f"output c{n}", "assistant"]


class Failing(MemorySession):
    """A store that fails at its `bad`-th append: before it, with half of it kept, or after it."""

    def __init__(self, how: str, bad: int) -> None:
        super().__init__("s")
        self.how, self.bad = how, bad

    async def add_items(self, items: list[Item]) -> None:
        self.bad -= 1
        kept = {"before": 0, "during": len(items) // 2, "after": len(items)}[self.how] if self.bad == 0 else len(items)
        await super().add_items(items[:kept])
        if self.bad == 0:
            raise OSError("the store is gone")


@pytest.mark.parametrize("how", ["before", "during", "after"])
@pytest.mark.parametrize("bad", [1, 2, 3])
async def test_a_failed_append_is_made_good_and_no_tool_runs_again(
    world: World, run: Run, saved: bool, how: str, bad: int
) -> None:
    """At the first pause, at the second, at the end: what was kept is found again, and only the rest is added."""
    session = Failing(how, bad)
    tools = [world.tool("ask", needs_approval=True), world.tool("free")]
    rounds = [[call("free", "c1"), call("ask", "c2")], [call("ask", "c3"), call("free", "c4")], "done"]
    agent, given, failures = Agent("a", model=model(*rounds), tools=tools), "go", 0
    while True:
        try:
            result = await run(agent, given, session=session)
        except OSError as error:
            failed: Any = error
            failures, given = failures + 1, await state_of(failed.run_data, agent, saved)
            continue
        if not result.interruptions:
            break
        given = await approved(result, agent, saved)
    assert (result.final_output, failures) == ("done", 1)
    assert sorted(world.done) == ["ask(0)", "ask(0)", "free(0)", "free(0)"]
    items = await session.get_items()
    assert sorted(shape(items)) == sorted(
        ["user", *(f"{kind} c{n}" for n in range(1, 5) for kind in ("call", "output")), "assistant"]
    )
    assert orphan_calls(items) == orphan_outputs(items) == []
