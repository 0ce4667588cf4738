"""Tests of a fleet engine under one worker of several tenants, which `EngineSuite` has as well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ...agents.agent import Agent
from ...application.app import App
from ...application.tenants import Tenants
from ...models.scripted.model import ScriptedModel
from .engine_case import PATIENCE, SOON, EngineCase, Shop, approve, idle, kept, until, until_asked, until_true


class EngineTenants(EngineCase):
    """Tests that the runs of several tenants are moved, and that none waits for another's runs."""

    @asynccontextmanager
    async def tenants(
        self, agent: Callable[[str], Agent[Any]], *names: str, **limits: int
    ) -> AsyncGenerator[tuple[dict[str, App], Tenants]]:
        """Open the apps of tenants that start runs and are where people decide, and a worker of all, not begun."""
        store: Any = await self.make_store()

        def app(name: str) -> App | None:
            return None if name == "away" else App([agent(name)], store.of(name))

        starts = Tenants(store, lambda name: App([agent(name)], store.of(name)), engine=self.make_engine(store))
        works = Tenants(store, app, engine=self.make_engine(store), **limits)
        async with AsyncExitStack() as stack:
            apps = {name: await stack.enter_async_context(starts.app(name)) for name in names}
            yield apps, works
            for name in names:
                await kept(store.of(name))

    async def test_one_worker_moves_the_runs_of_several_tenants(self) -> None:
        """Each by its own app, also of one that comes as it works; one that is not served keeps none waiting."""
        shop = Shop()
        async with self.tenants(shop.agent, "ann", "away", "bob", "carl") as (apps, works), working(works):
            await apps["away"].start("away", "go")
            for names in (["ann", "bob"], ["carl", "ann"]):
                runs = [(apps[name], (await apps[name].start(name, "go")).id) for name in names]
                for app, run in runs:
                    await until_asked(app, run)
                    await approve(app, run)
                for app, run in runs:
                    await until(app, run, "finished")
            assert len(await apps["away"].journal.due()) == 1
        assert sorted(shop.paid) == ["ann", "ann", "bob", "carl"]

    async def test_a_tenant_whose_slots_are_in_use_leaves_those_of_others(self) -> None:
        """However many of its wakes an engine hands over first: they keep no slot, of the worker or of the engine."""
        for limit in ("tenant_slots", "fleet_tenant_slots"):
            await self._leaves_slots_of_others(**{limit: 1})

    async def _leaves_slots_of_others(self, **limit: int) -> None:
        shop, begun = Shop(), list[str]()
        shop.gate.clear()

        async def answer(_request: Any) -> str:
            begun.append("huge")
            shop.begun.set()
            await shop.gate.wait()
            return "done"

        def agent(name: str) -> Agent[Any]:
            return shop.plain() if name == "small" else Agent("plain", model=ScriptedModel(answer))

        async with self.tenants(agent, "huge", "small", slots=2, **limit) as (apps, works):
            many = [(await apps["huge"].start("plain", "go")).id for _ in range(6)]
            async with working(works):
                await asyncio.wait_for(shop.begun.wait(), PATIENCE)
                run = await apps["small"].start("plain", "go")
                await until(apps["small"], run.id, "finished")
                assert begun == ["huge"]
                shop.gate.set()
                for each in many:
                    await until(apps["huge"], each, "finished")

    async def test_a_tenant_with_many_due_runs_delays_no_other(self) -> None:
        """By a worker with one slot, also under an engine that hands over what came first."""
        begun = list[str]()

        def agent(name: str) -> Agent[Any]:
            async def answer(_request: Any) -> str:
                begun.append(name)
                await asyncio.sleep(2 * SOON / 1_000)  # so that a look finds what is late
                return "done"

            return Agent("plain", model=ScriptedModel(answer))

        async with self.tenants(agent, "huge", "small", slots=1) as (apps, works):
            for _ in range(8):
                await apps["huge"].start("plain", "go")
            await apps["small"].start("plain", "go")
            async with working(works):
                await until_true(lambda: _all_idle(apps, works))
        assert len(begun) == 9
        assert "small" in begun[:-1], begun


@asynccontextmanager
async def working(works: Tenants) -> AsyncGenerator[None]:
    """Let a worker work; what it has begun ends, but for a test that failed."""
    worker = asyncio.ensure_future(works.work())
    try:
        yield
    except BaseException:
        works.grace = 0.0
        raise
    finally:
        await works.stop()
        await worker


async def _all_idle(apps: dict[str, App], works: Tenants) -> bool:
    return not works.busy and all([await idle(app) for app in apps.values()])
