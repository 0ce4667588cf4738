"""What is due is woken, woken again and moved in time by the journal alone; and what commits name as due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, UserError, function_tool
from keyturn.engine.driving.lease import TTL_MS
from keyturn.engine.engine_line import EngineLine
from keyturn.engine.mover import Mover
from keyturn.engine.reconciler import Reconciler
from keyturn.fleet import Wake, asked_engine
from keyturn.journal import open_journal
from keyturn.journal.optional import FleetLimits
from keyturn.models.scripted.model import function_call, tool_outputs
from keyturn.testing import ScriptedModel
from tests.playing import Clock, call, model
from tests.table import each
from tests.waiting import until, until_status

from .own_engine import DeafEngine


class _Noting(DeafEngine):
    """Writes down what it was asked to carry, and carries nothing."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.asked: list[str] = []

    async def wake(self, wakes: Sequence[Wake]) -> None:
        self.asked += [each.run for each in wakes]


class _Fleet:
    """A reconciler whose looks a test makes, on a journal whose time stands still."""

    def __init__(self, slots: int = 100) -> None:
        self.clock = Clock()
        self.journal = MemoryJournal(self.clock)
        self.engine = _Noting(self.journal)
        self.line = EngineLine(self.journal, self.engine)
        self.app: Any = App([Agent("desk", model=ScriptedModel(lambda _items: "done"))], self.journal, worker=False)
        self.mover = Mover(
            self.journal, self.app._taken, name="worker", slots=slots, lease_ms=TTL_MS, agents=lambda: ["desk"]
        )
        self.reconciler = Reconciler(self.journal, self.mover, self.line)

    async def look_after(self, ms: int) -> tuple[list[str], int]:
        """Let time pass and look; return which runs were woken, and how many moved."""
        self.clock.pass_ms(ms)
        self.engine.asked.clear()
        await self.reconciler.look()
        return list(self.engine.asked), self.line.deaf


async def test_a_run_is_woken_at_2_s_and_at_4_s_and_moved_at_10_s() -> None:
    fleet = _Fleet()
    run = (await fleet.app.start("desk", "go")).id
    fleet.line.begin()
    await fleet.line.opened()
    assert await fleet.look_after(0) == ([], 0)
    seen = [await fleet.look_after(ms) for ms in (1_900, 100, 1_000, 1_000, 5_900, 100)]
    assert seen == [([], 0), ([run], 0), ([], 0), ([run], 0), ([], 0), ([], 1)]
    await asyncio.gather(*fleet.mover.tasks)
    assert (await fleet.app.get(run)).status == "finished"
    await fleet.line.end()


async def test_what_an_engine_does_not_take_is_offered_to_it_again() -> None:
    """It is opened late, or fails at the first time."""
    fleet = _Fleet()
    run = (await fleet.app.start("desk", "go")).id
    assert [await fleet.look_after(ms) for ms in (0, 2_000)] == [([], 0)] * 2
    fleet.line.begin()
    await fleet.line.opened()
    assert [await fleet.look_after(ms) for ms in (100, 100)] == [([run], 0), ([], 0)]
    await fleet.line.end()


async def test_a_worker_without_room_moves_nothing_and_calls_no_engine_deaf() -> None:
    fleet = _Fleet(slots=1)
    runs = [(await fleet.app.start("desk", "go")).id for _ in range(3)]
    assert await fleet.look_after(0) == ([], 0)
    assert await fleet.look_after(20_000) == ([], 1)
    await asyncio.gather(*fleet.mover.tasks)
    for moved in (2, 3, 3):
        assert await fleet.look_after(20_000) == ([], moved)
        await asyncio.gather(*fleet.mover.tasks)
    assert {(await fleet.app.get(run)).status for run in runs} == {"finished"}


async def test_what_was_due_before_a_worker_began_is_first_woken() -> None:
    """A fleet that was down has a backlog, which calls no engine deaf: that has ten seconds from then on."""
    fleet = _Fleet()
    run = (await fleet.app.start("desk", "go")).id
    fleet.clock.pass_ms(3_600_000)
    fleet.line.begin()
    await fleet.line.opened()
    assert [await fleet.look_after(ms) for ms in (0, 2_000, 8_000)] == [([], 0), ([run], 0), ([run], 1)]
    await asyncio.gather(*fleet.mover.tasks)
    await fleet.line.end()


async def test_runs_of_other_apps_are_left_to_them() -> None:
    fleet = _Fleet()
    await App([Agent("other", model=model("done"))], fleet.journal, worker=False).start("other", "go")
    fleet.line.begin()
    await fleet.line.opened()
    assert await fleet.look_after(60_000) == ([], 0)
    await fleet.line.end()


async def test_no_engine_has_more_runs_moved_at_once_than_there_are_slots(tmp_path: Any) -> None:
    """The reconciler moved as many beside those of DBOS, and an engine that delivered all at once had all moved."""
    gate, working, most = asyncio.Event(), list[str](), list[int]()

    @function_tool
    async def work() -> str:
        working.append("")
        most.append(len(working))
        await gate.wait()
        working.pop()
        return "done"

    asks = ScriptedModel(lambda asked: "done" if tool_outputs(asked) else [function_call("work", {})])
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")  # it answers later, as all shared ones do
    app: Any = App([Agent("desk", model=asks, tools=[work])], journal, worker=False)
    mover = Mover(journal, app._taken, name="worker", slots=2, lease_ms=TTL_MS, agents=lambda: ["desk"])
    async with app:
        runs = [(await app.start("desk", "go")).id for _ in range(4)]
        moves = [asyncio.ensure_future(mover.move(Wake("default", run, "1"))) for run in runs]
        await until(lambda: len(working) >= 2)
        await asyncio.wait(moves, timeout=0.3)
        gate.set()
        outcomes = [(await move).outcome for move in moves]
    await journal.close()
    assert (outcomes, max(most)) == (["moved"] * 4, 2)


async def test_a_wake_of_a_run_that_is_moved_here_is_held_though_the_fleet_is_full() -> None:
    """Between its claim and its play: it tried again and again without a pause, and nothing else had its turn."""
    fleet = _Fleet()
    mover: Any = fleet.mover
    mover.limited_by = lambda: FleetLimits(1)
    run = (await fleet.app.start("desk", "go")).id
    claim, tried = await fleet.journal.claim(run, "worker", TTL_MS), list[str]()

    async def full(name: str) -> None:
        tried.append(name)
        assert len(tried) < 10
        mover._full()

    mover.take_up, mover._plays[run] = full, SimpleNamespace(drive=SimpleNamespace(claim=None))
    assert (await mover.move(Wake("default", run, "again"))).outcome == "held"
    assert tried == [run]
    await fleet.journal.release(claim)


async def test_two_workers_do_not_look_at_the_same_time() -> None:
    fleet = _Fleet()
    await fleet.app.start("desk", "go")
    assert await fleet.look_after(0) == ([], 0)
    held = await fleet.journal.claim("@reconcile", "another worker", TTL_MS)
    assert await fleet.look_after(20_000) == ([], 0)
    await fleet.journal.release(held)
    assert await fleet.look_after(0) == ([], 1)
    await asyncio.gather(*fleet.mover.tasks)


async def test_an_engine_that_fails_fails_no_start(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged once, not once a wake."""

    class Failing(DeafEngine):
        async def wake(self, wakes: Sequence[Wake]) -> None:
            raise ConnectionError("the engine is away")

    journal = MemoryJournal()
    app = App([Agent("desk", model=model("a", "b"))], journal, worker=False, engine=Failing(journal))
    async with app:
        for _ in range(2):
            assert (await app.start("desk", "go")).id
        await until(lambda: "does not answer" in caplog.text)
    assert caplog.text.count("does not answer") == 1


async def test_an_engine_that_does_not_answer_holds_up_no_shutdown_for_each_run_that_was_erased(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds for each, one after another: a retention of a thousand runs kept the process for half an hour."""
    forgotten = list[str]()

    class Hanging(DeafEngine):
        async def forget(self, tenant: str, run: str) -> None:
            forgotten.append(run)
            await asyncio.Event().wait()

    monkeypatch.setattr("keyturn.engine.engine_line._LAST", 0.01)
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    app = App([Agent("desk", model=ScriptedModel(lambda _items: "done"))], journal, engine=None)
    async with app:
        runs = [(await app.start("desk", "go")).id for _ in range(3)]
        for run in runs:
            await until_status(app, run, "finished")
    line = EngineLine(journal, Hanging(journal))
    line.begin()
    await line.opened()
    for run in runs:
        await journal.erase(run)
    await asyncio.wait_for(line.end(), 60)
    assert len(forgotten) in (1, 2)  # one as it was erased, and one at the end
    await journal.close()


async def test_an_engine_is_given_no_error_of_a_run_that_cannot_be_moved(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would keep the words, and so would a log."""

    async def away(*_given: object) -> None:
        raise OSError("words of a driver")

    fleet = _Fleet()
    monkeypatch.setattr(MemoryJournal, "runs", away)
    assert (await fleet.mover.move(Wake("default", "run", "1"))).outcome == "failed"
    assert "could not be moved" in caplog.text
    assert "words of a driver" not in caplog.text


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgresql"])
async def test_a_commit_names_the_runs_that_it_makes_due(
    kind: str, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    """A start, a decision and a message do; a pause does not, whatever deadline it has, nor a line of its holder."""
    given = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/runs.db"}
    url = given.get(kind, lambda: request.getfixturevalue("database"))()
    journal: Any = open_journal(url)

    @function_tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    app = App([Agent("desk", model=model([call("pay", "c1")], "done"), tools=[pay])], journal, worker=False)
    followed, other = journal.follow_due(), journal.of("another").follow_due()
    run = (await app.start("desk", "go")).id
    first = [each.run for each in await followed.next()]
    assert set(first) == {run}
    async with App(list(app.agents.values()), journal) as works:
        await until_status(works, run, "waiting")
    followed.rest()
    [row] = await app.inbox.list()
    await app.inbox.approve(row, by="ann")
    assert {each.run for each in await followed.next()} == {run}
    claim = await journal.claim("of its own", "me", TTL_MS)
    await journal.append("of its own", 0, [b"a line"], claim)
    await journal.release(claim, await journal.now() + 60_000)
    assert (followed.rest(), other.rest()) == ([], [])
    followed.close()
    if kind != "memory":
        await journal.close()


@each("engine, why", [("celery", "no engine is named 'celery'"), (7, "the name of one"), ("journal", None)])
def test_an_engine_is_named_or_given(engine: Any, why: str | None) -> None:
    if why is None:
        assert App([], "memory://", engine=engine).engine is None
        return
    with pytest.raises(UserError, match=why):
        App([], "memory://", engine=engine)


@each(
    "usual, name, asked",
    [
        ("", None, ("journal", "url")),
        ("", "dbos", ("dbos", "url")),
        ("dbos", None, ("dbos", "url")),
        ("dbos", "dbos", ("dbos", "url")),
        ("dbos", "temporal", ("temporal", "")),
    ],
)
def test_the_url_of_the_environment_is_that_of_its_engine(
    usual: str, name: str | None, asked: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYTURN_ENGINE", usual)
    monkeypatch.setenv("KEYTURN_ENGINE_URL", "url")
    assert asked_engine(name) == asked
    assert asked_engine(name, "its own") == (asked[0], "its own")


async def test_the_engine_of_an_open_app_is_not_changed() -> None:
    journal = MemoryJournal()
    async with App([], journal, engine=DeafEngine(journal)) as app:
        with pytest.raises(UserError, match="stop the app first"):
            app.engine = None
    app.engine = None
