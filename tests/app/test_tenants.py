"""Many tenants are served by one worker: each by its own app, in turn, and none waits for another's runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, Tenants, UserError
from keyturn.journal import open_journal
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.testing import ScriptedModel
from tests.fleet.own_engine import LocalEngine
from tests.waiting import never, turns_of_the_loop, until, until_status


class Desk:
    """The apps of tenants, whose agent notes for which tenant it was asked; `gate` holds every run at work."""

    def __init__(self, journal: Any, **options: Any) -> None:
        self.begun: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.tenants: Any = Tenants(journal, lambda name: App([self.agent(name)], journal.of(name)), **options)

    def agent(self, tenant: str) -> Agent[Any]:
        async def answer(_request: Any) -> str:
            self.begun.append(tenant)
            await self.gate.wait()
            return f"done for {tenant}"

        return Agent("desk", model=ScriptedModel(answer))

    async def start(self, tenant: str, runs: int = 1) -> list[str]:
        return [(await self.tenants.app(tenant).start("desk", "go")).id for _ in range(runs)]


async def works(desk: Desk, until_true: Callable[[], Any]) -> None:
    """Let the worker work until something is so, and end."""
    working = asyncio.ensure_future(desk.tenants.work())
    await until(until_true)
    await desk.tenants.stop()
    await working


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_a_tenant_waits_for_one_run_of_each_other_tenant_at_most(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By a worker with one slot, and counted in runs: how many are due of the huge tenant does not matter."""
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/runs.db"}
    journal = open_journal(urls.get(kind, lambda: request.getfixturevalue("database"))())
    desk = Desk(journal, slots=1)
    huge = await desk.start("huge", 12)
    others = [*await desk.start("small"), *await desk.start("tiny")]
    await works(desk, lambda: len(desk.begun) >= 14)
    assert {"small", "tiny"} < {*desk.begun[:3]}, desk.begun
    for tenant, runs in (("huge", huge), ("small", others[:1]), ("tiny", others[1:])):
        app = desk.tenants.app(tenant)
        for run in runs:
            assert (await app.result(run)).final_output == f"done for {tenant}"


async def test_a_tenant_that_keeps_its_slots_in_use_leaves_those_of_others() -> None:
    desk = Desk(MemoryJournal(), slots=4, tenant_slots=3)
    desk.gate.clear()
    await desk.start("huge", 8)
    working = asyncio.ensure_future(desk.tenants.work())
    await until(lambda: desk.begun == ["huge"] * 3)
    [run] = await desk.start("small")
    await until(lambda: desk.begun == ["huge"] * 3 + ["small"])
    assert desk.tenants.busy == 4
    desk.gate.set()
    await until_status(desk.tenants.app("small"), run, "finished")
    await until(lambda: desk.begun.count("huge") == 8)
    await desk.tenants.stop()
    await working


async def test_a_tenant_whose_app_does_not_open_keeps_no_other_waiting() -> None:
    """The worker waited for it, and with it each other tenant."""
    opened, journal = asyncio.Event(), MemoryJournal()
    desk = Desk(journal, slots=1)

    @asynccontextmanager
    async def slow(_app: Any) -> AsyncGenerator[None]:
        await opened.wait()
        yield

    def make(name: str) -> App:
        return App([desk.agent(name)], journal.of(name), lifespan=slow if name == "huge" else None)

    [late], [run] = await desk.start("huge"), await desk.start("small")
    tenants = Tenants(journal, make, slots=1)
    working = asyncio.ensure_future(tenants.work())
    await until_status(tenants.app("small"), run, "finished")
    assert desk.begun == ["small"]
    opened.set()
    await until(lambda: desk.begun == ["small", "huge"])
    await until_status(desk.tenants.app("huge"), late, "finished")
    await tenants.stop()
    await working


async def test_a_worker_ends_though_the_app_of_a_tenant_does_not_open() -> None:
    journal, asked = MemoryJournal(), asyncio.Event()
    desk = Desk(journal)

    @asynccontextmanager
    async def never_open(_app: Any) -> AsyncGenerator[None]:
        asked.set()
        await never()
        yield

    await desk.start("huge")
    tenants = Tenants(journal, lambda name: App([desk.agent(name)], journal.of(name), lifespan=never_open))
    working = asyncio.ensure_future(tenants.work())
    await asked.wait()
    await tenants.stop()
    async with asyncio.timeout(30):
        await working
    assert not desk.begun


async def test_a_tenant_that_cannot_be_served_keeps_no_other_waiting(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    desk = Desk(journal, slots=1)
    made = desk.tenants._make

    def make(name: str) -> App | None:
        if name in errors:
            raise errors[name]
        return None if name == "unknown" else made(name)

    errors: dict[str, BaseException] = {
        "broken": KeyError("no such customer"),
        "ends": SystemExit("no setting"),
        "cancels": asyncio.CancelledError(),
        "closes": GeneratorExit(),
        "groups": BaseExceptionGroup("both", [SystemExit(1)]),
    }
    tenants = Tenants(journal, make, slots=1)
    for name in (*errors, "unknown"):
        await desk.start(name)
    desk.tenants = tenants
    [run] = await desk.start("small")
    working = asyncio.ensure_future(tenants.work())
    await until_status(tenants.app("small"), run, "finished")
    assert desk.begun == ["small"]
    await until(lambda: all(f"'{name}'" in caplog.text for name in (*errors, "unknown")))
    await tenants.stop()
    await working


async def test_runs_of_a_tenant_that_no_worker_executes_are_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of a worker of one tenant: its app has their agent no more."""
    for module in ("backlog", "due_watch"):
        monkeypatch.setattr(f"keyturn.engine.{module}.LATE_MS", 0)
    journal = MemoryJournal()
    async with App([Agent("old", model=ScriptedModel(["done"]))], journal.of("acme"), worker=False) as before:
        await before.start("old", "go")
    desk = Desk(journal)
    working = asyncio.ensure_future(desk.tenants.work())
    await until(lambda: "runs of agent 'old' of tenant 'acme' are due" in caplog.text)
    await desk.tenants.stop()
    await working


def test_an_app_of_another_tenant_is_refused() -> None:
    journal = MemoryJournal()
    agent = Agent("desk", model=ScriptedModel(["done"]))
    no_app: Any = str
    with pytest.raises(UserError, match=r"journal.of\(tenant\)"):
        Tenants(journal, lambda _name: App([agent], journal)).app("acme")
    with pytest.raises(UserError, match="tenant_slots must be a whole number, 1 or more"):
        Tenants(journal, lambda _name: None, tenant_slots=0)
    with pytest.raises(UserError, match="must return an App or None, not a str"):
        Tenants(journal, no_app).app("acme")


async def test_limits_that_are_set_while_a_worker_is_at_work_hold_from_then_on() -> None:
    """And a second worker of the same tenants is refused: `stop` would end one of them alone."""
    desk = Desk(MemoryJournal(), slots=1)
    desk.gate.clear()
    await desk.start("one", 4)
    working = asyncio.ensure_future(desk.tenants.work())
    await until(lambda: desk.begun)
    with pytest.raises(UserError, match="is at work in this process"):
        await desk.tenants.work()
    desk.tenants.slots, desk.tenants.tenant_slots = 4, 2
    await desk.start("two")
    desk.gate.set()
    await until(lambda: len(desk.begun) == 5)
    worker: Any = desk.tenants._worker
    movers = worker._movers._movers
    assert (worker.slots, {name: mover.slots for name, mover in movers.items()}) == (4, {"one": 2, "two": 2})
    await desk.tenants.stop()
    await working


async def test_how_long_runs_are_held_and_may_take_can_be_set_while_a_worker_is_at_work() -> None:
    """As of an app: what is set and has no effect would be found out when a worker is stopped, or dies."""
    desk = Desk(MemoryJournal())
    app: Any = App([desk.agent("alone")], MemoryJournal(), worker=False)
    await desk.start("one")
    working = [asyncio.ensure_future(each.work()) for each in (app, desk.tenants)]
    await until(lambda: desk.begun and app._workers._at_work)
    for each in (app, desk.tenants):
        each.lease, each.grace = 5.0, 1.0
    [alone], of_all = app._workers._at_work, desk.tenants._worker
    assert of_all is not None
    held = (alone.lease_ms, of_all.lease_ms, *(mover.lease_ms for mover in of_all._movers._movers.values()))
    assert (held, alone.grace, of_all.grace) == ((5_000, 5_000, 5_000), 1.0, 1.0)
    assert desk.tenants.app("one").lease == 5.0
    await asyncio.gather(app.stop(), desk.tenants.stop(), *working)


async def test_a_function_that_blocks_keeps_no_other_tenant_waiting_and_makes_one_app(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("keyturn.application.tenants._LONG", 0.0)
    journal, goes_on, made = MemoryJournal(), threading.Event(), list[str]()
    desk = Desk(journal)
    [late], [run] = await desk.start("huge"), await desk.start("small")

    def make(name: str) -> App:
        made.append(name)
        if name == "huge":
            goes_on.wait()
        return App([desk.agent(name)], journal.of(name))

    tenants = Tenants(journal, make)
    working = asyncio.ensure_future(tenants.work())
    try:
        await until(lambda: desk.begun == ["small"])
        await until_status(desk.tenants.app("small"), run, "finished")
        assert "has not returned the app of tenant 'huge'" in caplog.text
    finally:
        goes_on.set()
    await until_status(tenants.app("huge"), late, "finished")
    await tenants.stop()
    await working
    assert sorted(made) == ["huge", "small"]


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
async def test_a_worker_that_is_stopped_before_it_began_does_not_begin(turns: int) -> None:
    """Nobody would stop it a second time; the app would work with its lifespan closed."""
    desk = Desk(MemoryJournal())
    for each in (desk.tenants, App([desk.agent("alone")], MemoryJournal())):
        working = asyncio.ensure_future(each.work())
        await turns_of_the_loop(turns)
        await each.stop()
        async with asyncio.timeout(30):
            await working


async def test_an_app_on_another_store_is_refused(tmp_path: Path) -> None:
    """What is started there would never be executed; the same store, opened once more, is the same."""
    one, other = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "other"))
    for mine, theirs, fits in [(one, other, False), (one, one, True)]:
        journal: Any = open_journal(mine)
        second: Any = open_journal(theirs)
        app = App([Agent("desk", model=ScriptedModel(["done"]))], second.of("ann"))
        tenants = Tenants(journal, lambda _name, app=app: app)
        if fits:
            assert tenants.app("ann") is tenants.app("ann") is app
        else:
            with pytest.raises(UserError, match=r"must be on its journal: App\(\.\.\., journal\.of\(tenant\)\)"):
                tenants.app("ann")
        for each in (journal, second):
            if isinstance(each, SQLiteJournal):
                await each.close()


async def test_the_apps_of_tenants_have_one_engine_together() -> None:
    """It is opened once, for several tenants; `keyturn serve module:acme --engine` sets it by one of the apps."""
    opened = list[str | None]()

    class Noting(LocalEngine):
        @asynccontextmanager
        async def open(self, tenant: str | None) -> AsyncGenerator[None]:
            opened.append(tenant)
            yield

    journal = MemoryJournal()
    desk, engine = Desk(journal), Noting(journal)
    one, other = desk.tenants.app("one"), desk.tenants.app("other")
    one.engine = engine
    assert desk.tenants.engine is other.engine is engine
    async with one, other:
        with pytest.raises(UserError, match="that is open cannot be changed"):
            other.engine = None
        working = asyncio.ensure_future(desk.tenants.work())
        runs = [(app, (await app.start("desk", "go")).id) for app in (one, other)]
        for app, run in runs:
            await until_status(app, run, "finished")
        await desk.tenants.stop()
        await working
        [late] = await desk.start("one")
        await until(lambda: engine.place("one", late))
    assert opened == [None]
    assert desk.tenants.engine_deaf == one.engine_deaf == 0
    one.engine = None
    assert desk.tenants.engine is None
    own = App([desk.agent("mine")], journal.of("mine"), engine=engine)
    assert Tenants(journal, lambda _name: own).app("mine").engine is engine
