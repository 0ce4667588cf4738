"""A store moved to another database is the same store: its chains, its rows, what waits and what was erased."""

from __future__ import annotations

import asyncio
from asyncio import to_thread
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keyturn import Agent, App, Conflict, Grant, Inbox, Runner, RunState, StorageError, function_tool
from keyturn.audit.checker import check
from keyturn.cli.main import main
from keyturn.core.errors import StoreMoved
from keyturn.inbox.restored import settle
from keyturn.journal import moving, open_journal
from keyturn.journal.moving import copy_store
from keyturn.journal.rows import Changes, Notice, Query, RunRow
from keyturn.journal.store_thread import StoreConnection
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.testing.suites.records import sealed_lines
from tests.waiting import until

from .restoring import Payer, go_on, waits

paid: list[str] = []
lasting = pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)


@function_tool(needs_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    paid.append(to)
    return f"paid {to}"


def clerk() -> Agent[Any]:
    calls = [[function_call("pay", {"to": name}, call_id=name)] for name in ("ada", "bob")]
    return Agent("clerk", model=ScriptedModel([*calls, "done"]), tools=[pay])


@pytest.fixture
async def target(request: pytest.FixtureRequest, tmp_path: Path, store_url: str) -> AsyncGenerator[Any]:
    """An empty store of the other kind."""
    on_server = store_url.startswith("sqlite")
    url = request.getfixturevalue("database") if on_server else f"sqlite:///{tmp_path}/target.db"
    journal: Any = open_journal(url)
    journal.url = url
    yield journal
    await journal.close()


async def filled(store: Any) -> tuple[str, str]:
    """A store with a run that waits, one that was erased, grants, another tenant, a notice; the first two runs."""
    waiting, erased = [(await Runner.run(clerk(), "go", journal=store)).run_id for _ in range(2)]
    [row] = await store.requests(Query(run=waiting))
    await Inbox(store).approve(row, by="ann", grant=Grant(where={"to": "nobody"}))
    agent = clerk()
    agent.model = ScriptedModel([[function_call("pay", {"to": "bob"}, call_id="bob")], "done"])
    await Runner.run(agent, await RunState.load(store, waiting, agent))
    await store.erase(erased)
    await Runner.run(clerk(), "go", journal=store.of("them"))
    notice = Notice("told", "r3", {"a": 1})
    await store.append(
        "r3", 0, sealed_lines(store, "r3", [b"{}"]), None, Changes(RunRow("r3", "x", "running", 1, 2), notices=[notice])
    )
    await store.erase("r3")
    await store.append(
        "r4", 0, sealed_lines(store, "r4", [b"{}"]), None, Changes(RunRow("r4", "x", "running", 1, 2), notices=[notice])
    )
    await store.erase("r4")
    return waiting, erased


@lasting
async def test_everything_comes_along(store: Any, target: Any) -> None:
    paid.clear()
    waiting, erased = await filled(store)
    counts = await copy_store(store, target)
    assert (counts["runs"], counts["grants"]) == (5, 1)
    assert counts["events"] > 8
    for tenant in ("default", "them"):
        one, other = store.of(tenant), target.of(tenant)
        assert await one.runs() == await other.runs()
        assert await one.requests() == await other.requests()
        assert await one.grants() == await other.grants()
        for row in await one.runs():
            assert await one.read(row.run) == await other.read(row.run)
            assert await one.hashes(row.run) == await other.hashes(row.run)
    with pytest.raises(Conflict, match="erased"):
        await target.append(erased, await target.head(erased), [b"{}"])
    [request] = await Inbox(target).list(run=waiting)
    await Inbox(target).approve(request, by="ann")
    agent = clerk()
    agent.model = ScriptedModel(["done"])
    assert (await Runner.run(agent, await RunState.load(target, waiting, agent))).final_output == "done"
    assert paid == ["ada", "bob"]
    report = await check(target.of("them"))
    assert report.ok, report.violations


@lasting
async def test_a_store_at_work_is_not_copied(store: Any, target: Any) -> None:
    await store.append("run", 0, sealed_lines(store, "run", [b"{}"]))
    claim = await store.claim("run", "w", 60_000)
    with pytest.raises(Conflict, match="stop the workers"):
        await copy_store(store, target)
    await store.release(claim)
    assert (await copy_store(store, target))["runs"] == 1


@lasting
async def test_a_store_that_has_runs_is_not_copied_to(store: Any, target: Any) -> None:
    await target.append("run", 0, [b"{}"])
    with pytest.raises(StorageError, match="not empty"):
        await copy_store(store, target)


@lasting
async def test_what_was_altered_is_found_while_it_is_copied(store: Any, target: Any) -> None:
    run = (await Runner.run(clerk(), "go", journal=store)).run_id

    def alter(db: StoreConnection) -> None:
        db.execute("UPDATE events SET line = ? WHERE run = ? AND seq = 1", b"{}", run)

    await store.write(alter)
    with pytest.raises(StorageError, match="at line 1; do not use the copy"):
        await copy_store(store, target)


@lasting
async def test_a_store_that_was_copied_is_shut_until_somebody_takes_it_up_again(
    store: Any, store_url: str, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing starts in it and nothing is decided there, also by who had it open; taken up, all is in doubt."""
    payer = Payer()
    run, asks = await waits(store, payer, approved=True), await waits(store, payer)
    beside: Any = open_journal(store_url)
    await beside.release(await beside.claim(run, "w", 60_000))
    await copy_store(store, target)
    for journal in (store, beside, open_journal(store_url)):
        with pytest.raises(StoreMoved, match="--anyway"):
            await journal.claim(run, "w", 60_000)
        with pytest.raises(StoreMoved):
            await Runner.run(payer.agent, "go", journal=journal)
        with pytest.raises(StoreMoved):
            await App([payer.agent], journal, worker=False).start("payer", "go")
        [row] = await Inbox(journal).list(run=asks)
        with pytest.raises(StoreMoved):
            await Inbox(journal).approve(row, by="ann")
        assert len(await journal.runs()) == 2
    await journal.close()
    assert await to_thread(main, ["restored", store_url]) == 1
    assert await to_thread(main, ["restored", store_url, "--anyway"]) == 0
    result = await go_on(beside, run, payer)
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    assert payer.paid == []
    await beside.close()
    assert (await go_on(target, run, payer)).final_output == "done"
    assert payer.paid == ["ada"]


@lasting
async def test_what_ended_is_erased_where_the_store_is_now(
    store_url: str, store: Any, target: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = (await Runner.run(Agent("clerk", model=ScriptedModel(["done"])), "go", journal=store)).run_id
    await copy_store(store, target)
    with pytest.raises(StoreMoved):
        await store.erase(run)
    for more in ([], ["--yes"]):
        assert await to_thread(main, ["erase", store_url, "--older-than", "1ms", *more]) == 1
        assert "was moved to another database" in capsys.readouterr().err
    assert [row.status for row in await store.runs(Query())] == ["finished"]
    await target.erase(run)


@lasting
async def test_a_claim_of_before_a_move_lets_nothing_be_written(store_url: str, store: Any, target: Any) -> None:
    """What its holder is about to start, a worker of the copy runs."""
    holder: Any = open_journal(store_url)
    await holder.append("run", 0, sealed_lines(holder, "run", [b"{}"]))
    claim = await holder.claim("run", "stands still", 0)
    await copy_store(store, target)
    with pytest.raises(StoreMoved):
        await holder.append("run", 1, [b"the tool runs here as well"], claim)
    await holder.close()


@lasting
async def test_nothing_is_acknowledged_that_a_copy_lacks(
    store_url: str, store: Any, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that was left running records a start once the copy was verified."""
    journal: Any = open_journal(store_url)
    server = App([clerk()], journal, worker=False)
    verified = moving._verified

    async def verified_and_late(copy: Any) -> None:
        await verified(copy)
        await counted_and_late()

    async def counted_and_late() -> None:
        whole = store.whole

        async def counted(do: Any) -> Any:
            found = await whole(do)
            await server.start("clerk", "go")
            return found

        monkeypatch.setattr(store, "whole", counted)

    monkeypatch.setattr(moving, "_verified", verified_and_late)
    await copy_store(store, target)
    monkeypatch.undo()
    with pytest.raises(StoreMoved):
        await server.start("clerk", "go")
    assert await store.runs() == await target.runs()
    await journal.close()


@lasting
async def test_what_is_erased_while_a_store_is_copied_is_not_whole_in_a_copy(
    store: Any, target: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is acknowledged that nothing of it is left."""
    result = await Runner.run(clerk(), "go", journal=store)
    verified = moving._verified

    async def verified_and_erased(copy: Any) -> None:
        await verified(copy)
        await store.erase(result.run_id)

    monkeypatch.setattr(moving, "_verified", verified_and_erased)
    with pytest.raises(Conflict, match="written to while it was copied"):
        await copy_store(store, target)


async def test_what_is_written_as_a_store_is_left_is_in_its_copy_or_refused(database: str, tmp_path: Path) -> None:
    """In PostgreSQL a transaction may begin before the store is left, and go on after it."""
    store: Any = open_journal(database)
    target: Any = open_journal(f"sqlite:///{tmp_path}/target.db")
    beside: Any = open_journal(database)
    server = App([clerk()], beside, worker=False)
    async with await psycopg.AsyncConnection.connect(database) as held, asyncio.TaskGroup() as tasks:
        await held.execute("SELECT * FROM meta FOR UPDATE")  # which the note that the store was moved waits for
        leaving = tasks.create_task(copy_store(store, target))
        await until(lambda: _waiting(held, 1))
        starting = tasks.create_task(_started(server))
        await until(lambda: _waiting(held, 2))
        await held.rollback()
    assert leaving.result()["runs"] == 0
    assert starting.result() == "refused"
    for journal in (store, target, beside):
        await journal.close()


async def _waiting(db: Any, count: int) -> bool:
    found = await db.execute("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")
    return (await found.fetchone()) == (count,)


async def _started(server: App) -> str:
    try:
        await server.start("clerk", "go")
    except StoreMoved:
        return "refused"
    return "acknowledged"


@lasting
@pytest.mark.parametrize("at", range(1, 6))
async def test_a_copy_that_was_interrupted_is_not_taken_for_a_whole_one(
    store: Any, store_url: str, target: Any, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """It can neither be opened nor be filled once more, and the store that it is of goes on."""
    run = (await Runner.run(clerk(), "go", journal=store)).run_id
    url, tables, copied = target.url, 0, moving._copied

    async def interrupted(*which: Any) -> int:
        nonlocal tables
        tables += 1
        count = await copied(*which)
        if tables == at:
            raise OSError("interrupted")
        return count

    monkeypatch.setattr(moving, "_copied", interrupted)
    with pytest.raises(OSError, match="interrupted"):
        await copy_store(store, target)
    monkeypatch.undo()
    with pytest.raises(StoreMoved, match="not finished"):
        await target.claim(run, "w", 60_000)
    with pytest.raises(StoreMoved, match="delete it and copy once more"):
        await copy_store(store, target)
    with pytest.raises(StoreMoved, match="not finished"):
        await settle(target)
    with pytest.raises(StoreMoved, match="not finished"):
        await target.taken_for_restored("was brought back, somebody said")
    with pytest.raises(StoreMoved, match="delete it and copy once more"):
        open_journal(url)
    await store.release(await store.claim(run, "w", 60_000))


def test_a_copy_that_was_interrupted_says_by_command_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    assert Runner.run_sync(clerk(), "go", journal=source).interruptions

    async def full(_target: Any) -> None:
        raise StorageError("there is no room")

    monkeypatch.setattr(moving, "_verified", full)
    assert main(["copy", source, target]) == 1
    monkeypatch.undo()
    for command in (["copy", source, target], ["restored", target, "--anyway"], ["copy", target, f"{source}2"]):
        capsys.readouterr()
        assert main(command) == 1
        assert "delete it and copy once more" in capsys.readouterr().err
    (tmp_path / "b.db").unlink()
    assert main(["copy", source, target]) == 0


def test_by_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    assert Runner.run_sync(clerk(), "go", journal=source).interruptions
    assert main(["copy", source, target]) == 0
    counts = "1 runs, 2 events, 1 requests, 0 grants, 1 outbox, 0 deliveries, 0 tallies"
    assert capsys.readouterr().out == f"copied and verified: {counts}\n"
    assert main(["copy", source, target]) == 1
    assert "was moved to another" in capsys.readouterr().err
    assert main(["copy", target, source]) == 1
    assert main(["restored", source, "--anyway"]) == 0
    capsys.readouterr()
    assert main(["copy", source, target]) == 1
    assert "not empty" in capsys.readouterr().err
    assert main(["copy", "memory://", target]) == 1
    assert "lives in memory" in capsys.readouterr().err
