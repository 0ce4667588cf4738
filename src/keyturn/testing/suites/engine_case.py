"""What the tests of fleet engines share: a shop in which calls are paid, a fleet of two apps, and ways to wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import pytest

from ...agents.agent import Agent
from ...application.app import App
from ...audit.checker import check
from ...core.approval import Approval
from ...engine import reconciler
from ...fleet.base import Engine, Wake
from ...journal.base import Store
from ...journal.memory import MemoryJournal
from ...journal.optional import FleetLimits
from ...models.base import ModelRequest
from ...models.scripted.items import function_call, tool_outputs
from ...models.scripted.model import ScriptedModel
from ...tools.function import function_tool

PATIENCE = 60.0  # a bound for what never comes, in seconds; nothing is measured by it
SOON = 20  # after how many milliseconds the reconciler of the suite wakes a run
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


class EngineCase:
    """Makes what each test of an engine needs; `EngineSuite` has the tests."""

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
        monkeypatch.setattr(reconciler, "_EVERY", SOON / 1_000)
        monkeypatch.setattr(reconciler, "WOKEN", SOON)
        monkeypatch.setattr(reconciler, "WOKEN_AGAIN", 2 * SOON)
        monkeypatch.setattr(reconciler, "MOVED", 3 * SOON if self.mute else _NEVER)

    @asynccontextmanager
    async def fleet(self, *agents: Agent[Any]) -> AsyncGenerator[tuple[App, App]]:
        """Open an app that starts runs and is where people decide, and one that moves them."""
        store = await self.make_store()
        starts = App(agents, store, worker=False, engine=self.make_engine(store))
        works = App(agents, store, engine=self.make_engine(store))
        async with starts, works:
            yield starts, works
            await kept(store)


async def held(store: Any) -> int:
    """Return how many runs are held now, by any worker."""
    return (1 << 20) - await store.room(FleetLimits(1 << 20))


async def lost(*_made: object) -> None:
    """Hand over nothing of what commits made due."""


async def kept(store: Store) -> None:
    """Check that the log of each run keeps every promise."""
    report = await check(store)
    assert not report.violations, report.violations


async def until(app: App, run: str, status: str) -> None:
    """Wait until a run has a status."""
    await until_true(lambda: has(app, run, status))


async def has(app: App, run: str, status: str) -> bool:
    """Return whether a run has a status; one that failed is an error."""
    row = await app.get(run)
    assert row.status == status or row.status not in ("failed", "set_aside"), row
    return row.status == status


async def until_asked(app: App, run: str) -> None:
    """Wait until a run requires a decision."""
    await until(app, run, "waiting")


async def until_idle(app: App) -> None:
    """Wait until nothing is due, and nothing is being moved by an app."""
    await until_true(lambda: idle(app))


async def idle(app: App) -> bool:
    """Return whether that is so."""
    return not app.busy and not await app.journal.due(1)


async def approve(app: App, run: str) -> None:
    """Approve the one request of a run."""
    [row] = [each for each in await app.inbox.list() if each.run == run]
    await app.inbox.approve(row, by="ann")


async def held_at_work(app: App, shop: Shop) -> str:
    """Start a run and approve its call; return the run once the call is at work, where the gate holds it."""
    shop.gate.clear()
    run = await app.start("desk", "go")
    await until_asked(app, run.id)
    await approve(app, run.id)
    await asyncio.wait_for(shop.begun.wait(), PATIENCE)
    return run.id


async def wake(app: App, run: str, cause: str) -> None:
    """Give the app's engine a wake of a run, if it has one that takes any."""
    if isinstance(app.engine, Engine):
        with suppress(ConnectionError):  # as its callers do: what it says of itself is believed by nobody
            await app.engine.wake([Wake("default", run, cause)])


async def forgotten(app: App, run: str) -> bool:
    """Return whether the engine of an app keeps nothing of a run."""
    return not isinstance(app.engine, Engine) or await app.engine.place("default", run) is None


async def until_true(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.005)
