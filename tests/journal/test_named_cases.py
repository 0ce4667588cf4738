"""Named cases of concurrency, bad input and time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keyturn import Agent, App, Approval, Conflict, Expired, MemoryJournal, Runner, RunState, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import StorageError, UserError
from keyturn.engine.run import open_run
from keyturn.inbox.desk import Inbox
from keyturn.journal import open_journal
from keyturn.journal.postgres import PostgresConnection
from keyturn.journal.rows import Query
from keyturn.journal.sqlite import SQLiteJournal
from keyturn.journal.store_thread import StoreThread
from keyturn.models.scripted.model import tool_outputs
from keyturn.testing import ScriptedModel, approve_all, function_call
from tests.effort import some
from tests.steps import calls

HOUR = 3_600_000


def payer(paid: list[int], *, approval: Approval | None = None, calls: int = 1) -> Agent[Any]:
    """An agent that asks to pay so many times in one reply, and a list of what it paid."""

    @function_tool(needs_approval=True, approval=approval)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    def reply(items: Any) -> Any:
        if tool_outputs(items):
            return "done"
        return [function_call("pay", {"amount": n}, call_id=f"c{n}") for n in range(calls)]

    return Agent("desk", model=ScriptedModel(reply), tools=[pay])


COUNT = some(160)  # runs of eight workers with five slots each


async def test_many_workers_share_many_runs_and_none_starves_or_is_moved_twice(store: Any) -> None:
    paid: list[int] = []
    workers = [App([payer(paid)], store, slots=5) for _ in range(8)]
    runs = await asyncio.gather(*(workers[0].start("desk", "go") for _ in range(COUNT)))
    async with asyncio.timeout(50):
        for each in workers:
            await each.__aenter__()
        for run in runs:
            assert (await workers[0].wait(run.id)).status == "waiting"
        inbox = Inbox(store)
        for row in await inbox.list(limit=200):
            await inbox.approve(row, by="ada")
        results = [await workers[-1].result(run.id) for run in runs]
        await asyncio.gather(*(each.stop() for each in workers))
    assert [result.final_output for result in results] == ["done"] * COUNT
    assert paid == [0] * COUNT
    assert (await check(store)).ok


# PostgreSQL ---------------------------------------------------------------------------------------------------------


BUSY = [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable]


@pytest.mark.parametrize("error", BUSY)
async def test_a_database_that_is_too_busy_is_tried_again_and_not_for_ever(
    database: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    journal, commit, left = open_journal(database), PostgresConnection.commit, [3]

    def busy(self: PostgresConnection, results: list[Any]) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise error("busy")
        commit(self, results)

    monkeypatch.setattr(PostgresConnection, "commit", busy)
    await journal.append("run", 0, [b"one"])
    assert (await journal.read("run"), left) == ([b"one"], [0])
    left[0] = 1_000
    monkeypatch.setattr(StoreThread, "_patient", lambda _self, tries: tries < 5)
    with pytest.raises(StorageError, match="too busy"):
        await journal.append("run", 1, [b"two"])
    assert left == [995]
    left[0] = 0
    assert await journal.read("run") == [b"one"]
    await journal.close()


@pytest.mark.trial
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
async def test_whatever_isolation_a_server_has_as_its_default(database: str, level: str) -> None:
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(
            f"ALTER DATABASE {database.rpartition('/')[2]} SET default_transaction_isolation = '{level}'".encode()
        )
    paid: list[int] = []
    agent, stores = payer(paid), [open_journal(database) for _ in range(4)]
    for _ in range(5):
        run = (await Runner.run(agent, "go", journal=stores[0])).run_id
        [request] = await stores[0].requests(Query(run=run))
        words = ["approve", "reject", "approve", "reject"]
        said = await asyncio.gather(
            *(
                getattr(Inbox(each), word)(request, by=f"person {n}")
                for n, (each, word) in enumerate(zip(stores, words, strict=True))
            ),
            return_exceptions=True,
        )
        assert [type(one) for one in said if isinstance(one, BaseException)] == [Conflict] * 3
        [winner] = [one for one in said if not isinstance(one, BaseException)]
        before = len(paid)
        states = [await RunState.load(each, run, payer(paid)) for each in stores]
        ends = await asyncio.gather(*(Runner.run(agent, each) for each in states), return_exceptions=True)
        assert sum(not isinstance(end, BaseException) for end in ends) >= 1
        assert all(isinstance(end, Conflict) for end in ends if isinstance(end, BaseException))
        assert len(paid) - before == (winner.state == "approve")
    assert (await check(stores[0])).ok
    for each in stores:
        await each.close()


# Bad input ----------------------------------------------------------------------------------------------------------

ODD = [
    "'",
    '"',
    "' OR 1=1 --",
    "'; DROP TABLE runs; --",
    "%",
    "_",
    "a%b",
    "$.a[*]",
    "\\",
    "*",
    "\u202e",
    "x" * 5_000,
    "",
]


async def test_what_is_asked_for_is_a_value_and_never_a_part_of_the_question(store: Any) -> None:
    paid: list[int] = []
    run = (await Runner.run(payer(paid), "go", journal=store)).run_id
    [row] = await store.requests(Query(run=run))
    for odd in ODD:
        for field in ("id", "run", "state", "agent", "tool", "kind"):
            assert await store.requests(Query(**{field: odd})) == [], (field, odd)
        for field in ("run", "state", "agent"):
            assert await store.runs(Query(**{field: odd})) == [], (field, odd)
        assert await store.grants(Query(tool=odd)) == []
        assert await store.read(odd) == []
    for field in ("id", "run", "state", "agent", "tool", "kind"):
        assert await store.requests(Query(**{field: getattr(row, field)})) == [row]


@pytest.mark.trial
@pytest.mark.parametrize("what", ["calls of one reply", "turns of one run"])
def test_many_of_one_run_cost_what_many_cost(what: str) -> None:
    """Eight times as many take about eight times as many steps, and no square of it, which would be 64 times."""

    async def held(count: int) -> None:
        paid: list[int] = []
        agent, journal = payer(paid, calls=count), MemoryJournal()
        state = (await Runner.run(agent, "go", journal=journal)).to_state()
        assert len(state.get_interruptions()) == count
        approve_all(state)
        assert (await Runner.run(agent, state)).final_output == "done"
        assert len(paid) == count

    async def turns(count: int) -> None:
        @function_tool
        async def look(n: int) -> str:
            return "seen"

        left = iter(range(count))

        def reply(_items: Any) -> Any:
            n = next(left, None)
            return "done" if n is None else [function_call("look", {"n": n}, call_id=f"c{n}")]

        agent, journal = Agent("a", model=ScriptedModel(reply), tools=[look]), MemoryJournal()
        result = await Runner.run(agent, "go", max_turns=None, journal=journal)
        state = await RunState.load(journal, result.run_id, agent)
        assert (result.final_output, state.live.run.turns) == ("done", count + 1)

    work = held if what == "calls of one reply" else turns
    calls(lambda: asyncio.run(work(20)))  # what is done once for a process is done
    few, many = (calls(lambda count=count: asyncio.run(work(count))) for count in (25, 200))
    assert many < 12 * few, (few, many)


# Time ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York", "right/UTC", "nowhere at all"])
async def test_the_time_zone_of_a_process_changes_nothing(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    now = [1_762_063_200_000]  # an hour before clocks are set back in New York
    journal, paid = MemoryJournal(lambda: now[0]), list[int]()
    agent = payer(paid, approval=Approval(expires="2h"))
    run = (await Runner.run(agent, "go", journal=journal)).run_id
    [row] = await journal.requests(Query(run=run))
    try:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert row.expires_at == row.asked_at + 2 * HOUR
        now[0] += 2 * HOUR - 60_000  # a minute is left, whatever the machine is busy with
        await Inbox(journal).approve(row, by="ada")
        now[0] += 1
        assert (await Runner.run(agent, await RunState.load(journal, run, agent))).final_output == "done"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert paid == [0]


@pytest.mark.parametrize("wrong", [-300, 300, -315_360_000, 315_360_000])
async def test_a_server_whose_clock_is_wrong_decides_by_the_journals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    now = [1_762_063_200_000]
    journal, paid = SQLiteJournal(tmp_path / "runs.db", clock=lambda: now[0]), list[int]()
    agent = payer(paid, approval=Approval(expires="1m"))
    monkeypatch.setattr(open_run, "clock_ms", lambda: now[0] + wrong * 1_000)

    async def asked() -> RunState[Any]:
        run = (await Runner.run(agent, "go", journal=journal)).run_id
        return await RunState.load(journal, run, agent)

    in_time = await asked()
    in_time.approve(in_time.get_interruptions()[0], by="ada")
    assert (await Runner.run(agent, in_time)).final_output == "done"
    assert paid == [0]
    late = await asked()
    [request] = await journal.requests(Query(run=late.run_id))
    now[0] += 61_000
    with pytest.raises((Expired, Conflict)):
        await Inbox(journal).approve(request, by="ada")
    assert (await Runner.run(agent, await RunState.load(journal, late.run_id, agent))).final_output == "done"
    assert paid == [0]
    await journal.close()


async def test_what_a_tool_writes_about_approvals_changes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file and no variable turns the gate off: there is none that is read for that."""
    monkeypatch.chdir(tmp_path)
    paid: list[int] = []

    @function_tool
    async def settings(text: str) -> str:
        for name in (".env", "keyturn.toml", "policy.yaml", "keyturn.json"):
            (tmp_path / name).write_text(text, encoding="utf-8")
        for name in ("KEYTURN_AUTO_APPROVE", "KEYTURN_YOLO", "KEYTURN_POLICY", "KEYTURN_NEEDS_APPROVAL"):
            monkeypatch.setenv(name, "allow")
        return "written"

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    allow = "auto_approve = true\nneeds_approval: false\ndefault: allow\n"
    script = [[function_call("settings", {"text": allow})], [function_call("pay", {"amount": 1})]]
    agent = Agent("desk", model=ScriptedModel(script), tools=[settings, pay])
    result = await Runner.run(agent, "go", journal=MemoryJournal())
    assert ([item.tool_name for item in result.interruptions], paid) == (["pay"], [])


async def test_a_writer_that_stopped_in_a_transaction_keeps_nobody_from_opening_and_reading(tmp_path: Path) -> None:
    """Only a write waits for it, for as long as was said, and then says what to do."""
    import apsw

    path = tmp_path / "runs.db"
    journal = SQLiteJournal(path)
    await journal.append("run", 0, [b"one"])
    await journal.close()
    stopped = apsw.Connection(str(path))
    stopped.execute("BEGIN IMMEDIATE")
    for opened in (
        SQLiteJournal(path, busy_timeout=0.01),
        open_journal(f"sqlite:///{path!s}?busy_timeout=0.01"),
    ):
        whole: Any = opened
        assert await whole.read("run") == [b"one"]
        with pytest.raises(StorageError, match=r"another process has a write transaction open.*busy_timeout"):
            await whole.append("run", 1, [b"two"])
        await whole.close()
    with pytest.raises(UserError, match="busy_timeout is a number of seconds above 0"):
        SQLiteJournal(path, busy_timeout=0)
    stopped.execute("ROLLBACK")
    stopped.close()
