"""The shared suite of fleet engines: runs are moved once each, whatever an engine does with the wakes it is given.

Subclass `EngineSuite` and say how an engine is made. Two apps share one journal: one starts runs and is where people
decide, the other moves them; only the journal and the engine are between them. An engine that loses, doubles or delays
wakes passes as well, since the journal and its reconciler make good what it does: set `mute` for one that may deliver
nothing at all.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ...agents.agent import Agent
from ...application.app import App
from ...engine import engine_line
from ...models.base import ModelRequest
from ...models.scripted.items import function_call, tool_outputs
from ...models.scripted.model import ScriptedModel
from ...tools.function import function_tool
from . import engine_case
from .engine_case import (
    Shop,
    approve,
    forgotten,
    held,
    held_at_work,
    idle,
    kept,
    lost,
    until,
    until_asked,
    until_idle,
    until_true,
    wake,
)
from .engine_tenants import EngineTenants


class EngineSuite(EngineTenants):
    """Tests an engine: subclass it in a test module, name the class `Test...`, and implement `make_engine`.

    >>> class TestJournalEngine(EngineSuite):
    ...     def make_engine(self, store):
    ...         return None
    >>> hasattr(TestJournalEngine, "test_a_wake_moves_a_run")
    True
    """

    async def test_a_wake_moves_a_run(self) -> None:
        """A start and a decision in one process are acted on in another; each call is run once."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await starts.start("desk", "go")
            await until_asked(starts, run.id)
            assert shop.paid == []
            await approve(starts, run.id)
            await until(starts, run.id, "finished")
        assert shop.paid == ["desk"]

    async def test_wakes_that_come_twice_move_a_run_once(self) -> None:
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await starts.start("desk", "go")
            await until_asked(starts, run.id)
            await approve(starts, run.id)
            for cause in ("again", "again", "once more"):
                await wake(starts, run.id, cause)
            await until(starts, run.id, "finished")
            await wake(starts, run.id, "after its end")
            await until_idle(works)
        assert shop.paid == ["desk"]

    async def test_a_wake_while_a_run_is_moved_is_not_lost(self) -> None:
        """A message that comes as a tool is at work is read by the model, whoever delivers the wake."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await held_at_work(starts, shop)
            await starts.send(run, "and hurry")
            shop.gate.set()
            await until(starts, run, "finished")
            state = await starts.state(run)
            assert "and hurry" in str(state.live.log.steps)

    async def test_a_wake_that_got_lost_is_made_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that died after its commit, or knows no engine, wakes nobody: the reconciler finds what is due."""
        monkeypatch.setattr(engine_line.EngineLine, "_hand_over", lost)
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await starts.start("desk", "go")
            await until_asked(starts, run.id)
            await approve(starts, run.id)
            await until(starts, run.id, "finished")
        assert shop.paid == ["desk"]

    async def test_a_wake_of_what_is_not_due_moves_nothing(self) -> None:
        """A decision that was rolled back, a run that nobody knows, a run that waits for people."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await starts.start("desk", "go")
            await until_asked(starts, run.id)
            await until_idle(works)
            before = await starts.journal.head(run.id)
            for name in (run.id, "no such run"):
                await wake(starts, name, "nothing was committed")
            other = await starts.start("desk", "go")  # behind the others
            await until_asked(starts, other.id)
            await until_idle(works)
            assert await starts.journal.head(run.id) == before
            assert (await starts.get(run.id)).status == "waiting"
            assert await starts.journal.read("no such run") == []
        assert shop.paid == []

    async def test_a_deadline_passes_by_itself_and_not_early(self) -> None:
        """Timers are the journal's; no engine carries them."""
        shop = Shop()
        begun = time.monotonic()
        async with self.fleet(shop.agent(expires=0.5)) as (starts, _):
            run = await starts.start("desk", "go")
            await until(starts, run.id, "finished")
        assert time.monotonic() - begun >= 0.5
        assert shop.paid == []

    async def test_an_escalation_comes_by_itself(self) -> None:
        """Others are asked once the time is up, and once their time is up the call is rejected."""
        shop = Shop()
        terms = shop.agent(expires=0.3, on_expiry="escalate", escalate_to=("bob",))
        async with self.fleet(terms) as (starts, _):
            run = await starts.start("desk", "go")
            await until(starts, run.id, "finished")
            told = [each.topic for each in await starts.journal.outbox()]
        topics = [each for each in told if each != "request.expiring"]  # which a worker that is late leaves out
        assert topics == ["request.created", "request.escalated", "request.decided"]
        assert shop.paid == []

    async def test_what_is_due_is_executed_after_a_restart_of_all_processes(self) -> None:
        """Whether the engine still has what it was given, or lost its state in between."""
        shop, store = Shop(), await self.make_store()
        agents = [shop.agent(), shop.plain()]
        for loses in (False, True):
            async with App(agents, store, worker=False, engine=self.make_engine(store)) as starts:
                async with App(agents, store, engine=self.make_engine(store)):
                    waits = await starts.start("desk", "go")
                    await until_asked(starts, waits.id)
                await approve(starts, waits.id)
                new = await starts.start("plain", "go")
            if loses:
                await self.lose_state(store)
            async with App(agents, store, engine=self.make_engine(store)) as works:
                for run in (waits, new):
                    await until(works, run.id, "finished")
        await kept(store)
        assert shop.paid == ["desk"] * 2

    async def test_a_run_is_cancelled_as_it_waits_and_as_it_is_moved(self) -> None:
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            waits = (await starts.start("desk", "go")).id
            await until_asked(starts, waits)
            await starts.cancel(waits)
            runs = await held_at_work(starts, shop)
            await starts.cancel(runs)
            await until_idle(works)
            assert [(await starts.get(each)).status for each in (waits, runs)] == ["cancelled"] * 2
        assert shop.paid == ["desk"]

    async def test_a_shutdown_lets_what_was_begun_end(self) -> None:
        """Nothing is in doubt after a drain, and another worker goes on."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await held_at_work(starts, shop)
            stopping = asyncio.ensure_future(works.stop())
            await asyncio.sleep(0)
            shop.gate.set()
            await asyncio.wait_for(stopping, engine_case.PATIENCE)
            assert not await starts.inbox.list()
            await works.at_work()
            await until(starts, run, "finished")
        assert shop.paid == ["desk"]

    async def test_apps_with_other_agents_keep_nobody_from_working(self) -> None:
        """A wake that reaches a process without the agent is not the end of it."""
        shop = Shop()
        store = await self.make_store()
        starts = App([shop.plain("a"), shop.plain("b")], store, worker=False, engine=self.make_engine(store))
        one = App([shop.plain("a")], store, engine=self.make_engine(store))
        other = App([shop.plain("b")], store, engine=None)
        async with starts, one, other:
            runs = [await starts.start(name, "go") for name in "abab"]
            for run in runs:
                await until(starts, run.id, "finished")
            await kept(store)

    async def test_an_erased_run_leaves_nothing_in_the_engine(self) -> None:
        shop = Shop()
        async with self.fleet(shop.plain()) as (starts, works):
            run = await starts.start("plain", "go")
            await until(starts, run.id, "finished")
            await until_idle(works)
            await starts.journal.erase(run.id)
            await until_true(lambda: forgotten(starts, run.id))

    async def test_a_run_that_a_user_waits_for_is_executed_before_batches(self) -> None:
        """By a worker with one slot that finds all of them due; by an engine without an order, all are executed."""
        begun: list[str] = []

        def answer(request: ModelRequest) -> str:
            begun.append(str(request.input))
            return "done"

        agent: Agent[Any] = Agent("plain", model=ScriptedModel(answer))
        store = await self.make_store()
        starts = App([agent], store, worker=False, engine=self.make_engine(store))
        works = App([agent], store, slots=1, engine=self.make_engine(store))
        async with starts:
            runs = [await starts.start("plain", f"batch {number}", priority="batch") for number in range(8)]
            runs += [await starts.start("plain", "normal"), await starts.start("plain", "now", priority="interactive")]
            async with works:
                for run in runs:
                    await until(starts, run.id, "finished")
        assert len(begun) == len(runs)
        if self.orders:
            assert ["now" in begun[0], "normal" in begun[1]] == [True, True], begun

    async def test_no_more_runs_are_executed_at_once_than_the_limit_of_the_fleet(self) -> None:
        """However many workers there are, and slots; each run has its turn."""
        begun, most = list[int](), 2

        async def count() -> None:
            begun.append(await held(store))
            await asyncio.sleep(0.01)  # so that another worker could begin another run meanwhile

        tool = function_tool(name_override="count")(count)
        answer = ScriptedModel(lambda request: "done" if tool_outputs(request) else [function_call("count", {})])
        agent: Agent[Any] = Agent("plain", model=answer, tools=[tool])
        store = await self.make_store()
        starts = App([agent], store, worker=False, engine=self.make_engine(store))
        works = App([agent], store, engine=self.make_engine(store), fleet_slots=most)
        helps = App([agent], store, fleet_slots=most)
        async with starts, works, helps:
            runs = [await starts.start("plain", "go") for _ in range(8)]
            for run in runs:
                await until(starts, run.id, "finished")
            await kept(store)
        assert len(begun) == len(runs)
        assert max(begun) <= most

    async def test_many_runs_at_once_are_all_moved(self) -> None:
        """They are due before the worker begins, as after an outage."""
        shop, store = Shop(), await self.make_store()
        starts = App([shop.plain()], store, worker=False, engine=self.make_engine(store))
        works = App([shop.plain()], store, engine=self.make_engine(store))
        async with starts:
            runs = list[str]()
            for number in range(0, self.many, 100):
                begun = (starts.start("plain", str(each)) for each in range(number, min(number + 100, self.many)))
                runs += [run.id for run in await asyncio.gather(*begun)]
            async with works:
                await until_true(lambda: idle(works))
                for run in runs:
                    await until(starts, run, "finished")
