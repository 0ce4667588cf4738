"""The shared suite of fleet engines: runs are moved once each, whatever an engine does with the wakes it is given.

Subclass `EngineSuite` and say how an engine is made. Two apps share one journal: one starts runs and is where people
decide, the other moves them; only the journal and the engine are between them. An engine that loses, doubles or delays
wakes passes as well, since the journal and its reconciler make good what it does: set `mute` for one that may deliver
nothing at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import pytest

from ...agents.agent import Agent
from ...application.app import App
from ...audit.checker import check
from ...core.approval import Approval
from ...engine import engine_line, reconciler
from ...fleet.base import Engine, Wake
from ...journal.base import Store
from ...journal.memory import MemoryJournal
from ...journal.optional import FleetLimits
from ...models.base import ModelRequest
from ...models.scripted.items import function_call, tool_outputs
from ...models.scripted.model import ScriptedModel
from ...tools.function import function_tool

_PATIENCE = 60.0  # a bound for what never comes, in seconds; nothing is measured by it
_SOON = 20  # after how many milliseconds the reconciler of the suite wakes a run
_NEVER = 3_600_000


class Shop:
    """Holds what the apps of a test do: `paid` says which calls had their effect, and `gate` holds a call at work.

    >>> Shop().paid
    []
    """

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()

    def agent(self, name: str = "desk", **approval: Any) -> Agent[Any]:
        """Return an agent that pays once, by a call that requires an approval, and then ends."""

        async def pay(to: str) -> str:
            self.paid.append(to)
            self.begun.set()
            await self.gate.wait()
            return f"paid {to}"

        def answer(request: ModelRequest) -> Any:
            return "done" if tool_outputs(request) else [function_call("pay", {"to": name})]

        tool = function_tool(name_override="pay", needs_approval=True, approval=Approval(**approval))(pay)
        return Agent(name, model=ScriptedModel(answer), tools=[tool])

    def plain(self, name: str = "plain") -> Agent[Any]:
        """Return an agent that ends at once."""
        return Agent(name, model=ScriptedModel(lambda _request: "done"))


class EngineSuite:
    """Tests an engine: subclass it in a test module, name the class `Test...`, and implement `make_engine`.

    >>> class TestJournalEngine(EngineSuite):
    ...     def make_engine(self, store):
    ...         return None
    >>> hasattr(TestJournalEngine, "test_a_wake_moves_a_run")
    True
    """

    #: Whether the engine may deliver nothing: the reconciler moves runs soon, and not only wakes them.
    mute: ClassVar[bool] = False
    #: How many runs are due at once where many are.
    many: ClassVar[int] = 40
    #: Whether the engine hands over what is urgent first, of the wakes that it holds.
    orders: ClassVar[bool] = False

    def make_engine(self, store: Store) -> Engine | None:
        """Return a new engine for one app on a store; None is the journal's own."""
        raise NotImplementedError

    async def make_store(self) -> Store:
        """Return an empty store, which both apps of a test use."""
        return MemoryJournal()

    async def lose_state(self, store: Store) -> None:
        """Delete all that the engine keeps, while no process uses it; an engine that cannot be emptied does nothing."""

    @pytest.fixture(autouse=True)
    def _times(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the reconciler look at once; what is under test moves runs, unless it is mute."""
        monkeypatch.setattr(reconciler, "_EVERY", _SOON / 1_000)
        monkeypatch.setattr(reconciler, "WOKEN", _SOON)
        monkeypatch.setattr(reconciler, "WOKEN_AGAIN", 2 * _SOON)
        monkeypatch.setattr(reconciler, "MOVED", 3 * _SOON if self.mute else _NEVER)

    @asynccontextmanager
    async def fleet(self, *agents: Agent[Any]) -> AsyncGenerator[tuple[App, App]]:
        """Open an app that starts runs and is where people decide, and one that moves them."""
        store = await self.make_store()
        starts = App(agents, store, worker=False, engine=self.make_engine(store))
        works = App(agents, store, engine=self.make_engine(store))
        async with starts, works:
            yield starts, works
            await _kept(store)

    async def test_a_wake_moves_a_run(self) -> None:
        """A start and a decision in one process are acted on in another; each call is run once."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await starts.start("desk", "go")
            await _until_asked(starts, run.id)
            assert shop.paid == []
            await _approve(starts, run.id)
            await _until(starts, run.id, "finished")
        assert shop.paid == ["desk"]

    async def test_wakes_that_come_twice_move_a_run_once(self) -> None:
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await starts.start("desk", "go")
            await _until_asked(starts, run.id)
            await _approve(starts, run.id)
            for cause in ("again", "again", "once more"):
                await _wake(starts, run.id, cause)
            await _until(starts, run.id, "finished")
            await _wake(starts, run.id, "after its end")
            await _until_idle(works)
        assert shop.paid == ["desk"]

    async def test_a_wake_while_a_run_is_moved_is_not_lost(self) -> None:
        """A message that comes as a tool is at work is read by the model, whoever delivers the wake."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await _held_at_work(starts, shop)
            await starts.send(run, "and hurry")
            shop.gate.set()
            await _until(starts, run, "finished")
            state = await starts.state(run)
            assert "and hurry" in str(state.live.log.steps)

    async def test_a_wake_that_got_lost_is_made_good(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that died after its commit, or knows no engine, wakes nobody: the reconciler finds what is due."""
        monkeypatch.setattr(engine_line.EngineLine, "_hand_over", _lost)
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, _):
            run = await starts.start("desk", "go")
            await _until_asked(starts, run.id)
            await _approve(starts, run.id)
            await _until(starts, run.id, "finished")
        assert shop.paid == ["desk"]

    async def test_a_wake_of_what_is_not_due_moves_nothing(self) -> None:
        """A decision that was rolled back, a run that nobody knows, a run that waits for people."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await starts.start("desk", "go")
            await _until_asked(starts, run.id)
            await _until_idle(works)
            before = await starts.journal.head(run.id)
            for name in (run.id, "no such run"):
                await _wake(starts, name, "nothing was committed")
            other = await starts.start("desk", "go")  # behind the others
            await _until_asked(starts, other.id)
            await _until_idle(works)
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
            await _until(starts, run.id, "finished")
        assert time.monotonic() - begun >= 0.5
        assert shop.paid == []

    async def test_an_escalation_comes_by_itself(self) -> None:
        """Others are asked once the time is up, and once their time is up the call is rejected."""
        shop = Shop()
        terms = shop.agent(expires=0.3, on_expiry="escalate", escalate_to=("bob",))
        async with self.fleet(terms) as (starts, _):
            run = await starts.start("desk", "go")
            await _until(starts, run.id, "finished")
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
                    await _until_asked(starts, waits.id)
                await _approve(starts, waits.id)
                new = await starts.start("plain", "go")
            if loses:
                await self.lose_state(store)
            async with App(agents, store, engine=self.make_engine(store)) as works:
                for run in (waits, new):
                    await _until(works, run.id, "finished")
        await _kept(store)
        assert shop.paid == ["desk"] * 2

    async def test_a_run_is_cancelled_as_it_waits_and_as_it_is_moved(self) -> None:
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            waits = (await starts.start("desk", "go")).id
            await _until_asked(starts, waits)
            await starts.cancel(waits)
            runs = await _held_at_work(starts, shop)
            await starts.cancel(runs)
            await _until_idle(works)
            assert [(await starts.get(each)).status for each in (waits, runs)] == ["cancelled"] * 2
        assert shop.paid == ["desk"]

    async def test_a_shutdown_lets_what_was_begun_end(self) -> None:
        """Nothing is in doubt after a drain, and another worker goes on."""
        shop = Shop()
        async with self.fleet(shop.agent()) as (starts, works):
            run = await _held_at_work(starts, shop)
            stopping = asyncio.ensure_future(works.stop())
            await asyncio.sleep(0)
            shop.gate.set()
            await asyncio.wait_for(stopping, _PATIENCE)
            assert not await starts.inbox.list()
            await works.at_work()
            await _until(starts, run, "finished")
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
                await _until(starts, run.id, "finished")
            await _kept(store)

    async def test_an_erased_run_leaves_nothing_in_the_engine(self) -> None:
        shop = Shop()
        async with self.fleet(shop.plain()) as (starts, works):
            run = await starts.start("plain", "go")
            await _until(starts, run.id, "finished")
            await _until_idle(works)
            await starts.journal.erase(run.id)
            await _until_true(lambda: _forgotten(starts, run.id))

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
                    await _until(starts, run.id, "finished")
        assert len(begun) == len(runs)
        if self.orders:
            assert ["now" in begun[0], "normal" in begun[1]] == [True, True], begun

    async def test_no_more_runs_are_executed_at_once_than_the_limit_of_the_fleet(self) -> None:
        """However many workers there are, and slots; each run has its turn."""
        begun, most = list[int](), 2

        async def count() -> None:
            begun.append(await _held(store))
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
                await _until(starts, run.id, "finished")
            await _kept(store)
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
                await _until_true(lambda: _idle(works))
                for run in runs:
                    await _until(starts, run, "finished")


async def _held(store: Any) -> int:
    """Return how many runs are held now, by any worker."""
    return (1 << 20) - await store.room(FleetLimits(1 << 20))


async def _lost(*_made: object) -> None:
    """Hand over nothing of what commits made due."""


async def _kept(store: Store) -> None:
    """Check that the log of each run keeps every promise."""
    report = await check(store)
    assert not report.violations, report.violations


async def _until(app: App, run: str, status: str) -> None:
    await _until_true(lambda: _has(app, run, status))


async def _has(app: App, run: str, status: str) -> bool:
    row = await app.get(run)
    assert row.status == status or row.status not in ("failed", "set_aside"), row
    return row.status == status


async def _until_asked(app: App, run: str) -> None:
    await _until(app, run, "waiting")


async def _until_idle(app: App) -> None:
    await _until_true(lambda: _idle(app))


async def _idle(app: App) -> bool:
    return not app.busy and not await app.journal.due(1)


async def _approve(app: App, run: str) -> None:
    [row] = [each for each in await app.inbox.list() if each.run == run]
    await app.inbox.approve(row, by="ann")


async def _held_at_work(app: App, shop: Shop) -> str:
    """Start a run and approve its call; return the run once the call is at work, where the gate holds it."""
    shop.gate.clear()
    run = await app.start("desk", "go")
    await _until_asked(app, run.id)
    await _approve(app, run.id)
    await asyncio.wait_for(shop.begun.wait(), _PATIENCE)
    return run.id


async def _wake(app: App, run: str, cause: str) -> None:
    """Give the app's engine a wake of a run, if it has one that takes any."""
    if isinstance(app.engine, Engine):
        with suppress(ConnectionError):  # as its callers do: what it says of itself is believed by nobody
            await app.engine.wake([Wake("default", run, cause)])


async def _forgotten(app: App, run: str) -> bool:
    return not isinstance(app.engine, Engine) or await app.engine.place("default", run) is None


async def _until_true(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(_PATIENCE):
        while not await condition():
            await asyncio.sleep(0.005)
