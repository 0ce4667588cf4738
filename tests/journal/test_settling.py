"""A restored store is settled whole: what people said before it is void, every run is told, and nothing runs before."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from keyturn import Agent, App, Grant, Inbox, Runner, RunState, function_tool
from keyturn.core import events as ev
from keyturn.core.errors import Conflict, LogDamaged, StoreRestored
from keyturn.directory.events import Restored
from keyturn.directory.people import People
from keyturn.engine import worker
from keyturn.engine.run.log_cache import log_in
from keyturn.inbox import restored
from keyturn.inbox.restored import settle
from keyturn.journal.rows import Query
from keyturn.journal.sql_journal import SQLJournal
from keyturn.journal.store_thread import StoreConnection
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs
from tests.waiting import until, until_status

from .restoring import Payer, Place, go_on, waits

WHY = "was brought back, the test says"
TABLES = ("runs", "events", "requests", "grants")


class Desk:
    """An agent that pays and sends, each twice, and what it did."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @function_tool(needs_approval=True)
        def pay(to: str) -> str:
            self.did.append(f"pay {to}")
            return "paid"

        @function_tool(needs_approval=True)
        def send(to: str) -> str:
            self.did.append(f"send {to}")
            return "sent"

        def reply(items: Any) -> Any:
            seen = len(tool_outputs(items))
            if seen >= 4:
                return "done"
            calls = {"pay": "ada", "send": "bob"} if seen == 0 else {"pay": "cyd", "send": "dee"}
            return [function_call(tool, {"to": to}, call_id=to) for tool, to in calls.items()]

        self.agent = Agent("desk", model=ScriptedModel(reply), tools=[pay, send])


async def told(journal: Any, run: str) -> int:
    """How often a run was told that its store was restored."""
    log = await log_in(journal, run)
    return sum(isinstance(event, ev.RunRestored) for step in log.steps for event in step.events)


async def is_settled(journal: Any) -> bool:
    return await journal.restored() is None


async def test_a_restore_revokes_standing_approvals_and_keeps_standing_rejections(place: Place) -> None:
    """How often a grant was used after the copy was made is not in the copy; what was refused stays refused."""
    desk, journal = Desk(), place.opened()
    run = (await Runner.run(desk.agent, "go", journal=journal)).run_id
    asked = {row.tool: row for row in await Inbox(journal).list()}
    await Inbox(journal).approve(asked["pay"], by="ann", grant=Grant())
    await Inbox(journal).reject(asked["send"], by="ann", always=True)
    await journal.taken_for_restored(WHY)
    assert await settle(journal) is not None
    assert {row.tool: row.revoked for row in await journal.grants()} == {"pay": True, "send": False}
    [doubt] = await Inbox(journal).list()
    assert (doubt.kind, doubt.tool) == ("in_doubt", "pay")
    await Inbox(journal).resolve(doubt, "ran", "paid", by="ann")
    result = await go_on(journal, run, desk)
    assert [item.tool_name for item in result.interruptions] == ["pay"], "it asks, and the other one is refused"
    assert desk.did == []
    await journal.close()


async def test_what_was_decided_for_the_request_of_before_is_refused(place: Place) -> None:
    """By its row, its digest or its revision: a decision says which asking it answers. H6, H7."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer)
    [before] = await Inbox(journal).list()
    state = await RunState.load(journal, run, payer.agent)
    state.approve(state.get_interruptions()[0], by="ann")
    said = state.to_json()
    await journal.close()
    place.back_up()
    journal = place.opened()
    await Inbox(journal).approve(before, by="ann")
    await go_on(journal, run, payer)
    await journal.close()
    place.bring_back()
    seen = [before]
    for _ in range(2):  # the same copy is brought back once more
        journal = place.opened()
        assert await settle(journal) is not None
        [now] = await Inbox(journal).list()
        assert now.digest not in [row.digest for row in seen]
        for old in seen:
            with pytest.raises(Conflict):
                await Inbox(journal).approve(old, by="ann")
            with pytest.raises(Conflict):
                await Inbox(journal).approve(old.id, digest=old.digest, by="ann")
        with pytest.raises(Conflict):
            await Inbox(journal).approve(before.id, revision=before.request.revision, by="ann")
        with pytest.raises(Conflict):
            await Runner.run(payer.agent, await RunState.from_json(payer.agent, said), journal=journal)
        assert payer.paid == ["ada"]
        [still] = await Inbox(journal).list()
        assert still.digest == now.digest
        seen.append(now)
        await journal.close()
        place.bring_back()


async def test_what_was_approved_after_one_restore_is_not_after_the_next(place: Place) -> None:
    """The same copy twice: its requests are asked under another nonce each time, so no word on one fits the other."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer)
    await journal.close()
    place.back_up()
    journal = place.opened()
    await journal.taken_for_restored(WHY)
    assert await settle(journal) is not None
    [first] = await Inbox(journal).list()
    await Inbox(journal).approve(first, by="ann")
    await go_on(journal, run, payer)
    assert payer.paid == ["ada"]
    await journal.close()
    place.bring_back()
    journal = place.opened()
    assert await settle(journal) is not None
    [second] = await Inbox(journal).list()
    assert (second.id, second.request.revision) == (first.id, first.request.revision)
    assert second.digest != first.digest
    with pytest.raises(Conflict):
        await Inbox(journal).approve(first, by="ann")
    assert (await go_on(journal, run, payer)).interruptions
    assert payer.paid == ["ada"]
    await journal.close()


def kept_of(db: StoreConnection, run: str) -> dict[str, list[Any]]:
    """All rows of a run."""
    return {table: db.execute(f"SELECT * FROM {table} WHERE run = ?", run) for table in TABLES}


def put_back(db: StoreConnection, run: str, rows: dict[str, list[Any]]) -> None:
    """Put other rows in the place of those of a run, or none."""
    for table in TABLES:
        db.execute(f"DELETE FROM {table} WHERE run = ?", run)
        for row in rows.get(table, []):
            db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", *row)


async def test_a_log_that_became_shorter_is_damaged_unless_its_store_was_restored(place: Place) -> None:
    """One run put back by itself is a lie, whatever its seals say; a store put back as a whole is settled."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer)
    for number in range(20):  # as long as a log must be to be remembered
        await Inbox(journal).send(run, f"word {number}")
    [row] = await Inbox(journal).list()
    await Inbox(journal).approve(row, by="ann")
    await journal.close()
    place.back_up()
    journal = place.opened()
    before = await journal.whole(lambda db: kept_of(db, run))
    await go_on(journal, run, payer)
    await log_in(journal, run)
    after = await journal.whole(lambda db: kept_of(db, run))
    await journal.write(lambda db: put_back(db, run, before))
    with pytest.raises(LogDamaged, match="was here before"):
        await go_on(journal, run, payer)
    await journal.write(lambda db: put_back(db, run, after))
    assert (await go_on(journal, run, payer)).final_output == "done"
    place.bring_back()  # under this very process
    with pytest.raises(StoreRestored):
        await go_on(journal, run, payer)
    assert str(await settle(journal)) == "1 open runs stopped; 1 calls in doubt, 0 ask anew"
    assert [item.kind for item in (await go_on(journal, run, payer)).interruptions] == ["in_doubt"]
    assert payer.paid == ["ada"]
    await journal.close()


@pytest.mark.parametrize("remedy", ["mended", "taken away"])
async def test_one_run_that_cannot_be_read_keeps_a_worker_waiting_until_it_is_mended(
    place: Place, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs meanwhile, and the worker's error names the run; then it goes on by itself."""
    monkeypatch.setattr(worker, "_BACKOFF", 0.01)
    payer, journal = Payer(), place.opened()
    good, bad = [await waits(journal, payer, approved=True) for _ in range(2)]
    whole = await journal.whole(lambda db: kept_of(db, bad))
    await journal.write(lambda db: db.execute("UPDATE events SET line = ? WHERE run = ? AND seq = 1", b"{}", bad))
    await journal.taken_for_restored(WHY)
    done = await settle(journal)
    assert done is not None
    assert (done.left, done.runs) == ([bad], 1)
    assert "not settled" in str(done)
    assert bad in str(done)
    async with App([payer.agent], journal) as app:
        await until(lambda: app.trouble)
        assert bad in str(app.trouble)
        with pytest.raises(StoreRestored):
            await journal.claim(good, "w", 60_000)
        kept = whole if remedy == "mended" else {}
        await journal.write(lambda db: put_back(db, bad, kept))
        await until(lambda: app.trouble is None)
        assert await journal.restored() is None
    await journal.release(await journal.claim(good, "w", 60_000))
    assert await told(journal, good) == 1
    assert [row.run for row in await Inbox(journal).list(kind="in_doubt")] == (
        [good, bad] if remedy == "mended" else [good]
    )
    assert payer.paid == []
    await journal.close()


@pytest.mark.parametrize("at", range(5))
async def test_an_interrupted_settlement_begun_again_tells_each_run_once(
    place: Place, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it was interrupted, also just before all is said to be settled; another process goes on with it."""
    payer, journal = Payer(), place.opened()
    runs = [await waits(journal, payer, approved=number % 2 == 0) for number in range(3)]
    await People(journal).start("ada")
    await journal.taken_for_restored(WHY)
    count, tell, settled = 0, Inbox.tell, SQLJournal.settled

    def counted() -> None:
        nonlocal count
        if count == at:
            raise OSError("interrupted")
        count += 1

    async def telling(self: Inbox, run: str, *commands: Any) -> Any:
        counted()
        return await tell(self, run, *commands)

    async def settling(self: SQLJournal) -> None:
        if at < 4:
            counted()
            await settled(self)
        else:
            await settled(self)
            raise OSError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(Inbox, "tell", telling)
        patched.setattr(SQLJournal, "settled", settling)
        with pytest.raises(OSError, match="interrupted"):
            await settle(journal)
    await journal.close()
    journal = place.opened()
    if at < 4:
        with pytest.raises(StoreRestored):
            await journal.claim(runs[0], "w", 60_000)
        assert await settle(journal) is not None
    assert await settle(journal) is None
    assert [await told(journal, run) for run in runs] == [1, 1, 1]
    entries = [event for entry in await People(journal).entries() for event in entry.events]
    assert sum(isinstance(event, Restored) for event in entries) == 1, "what was issued since is not revoked once more"
    assert sorted(row.kind for row in await Inbox(journal).list()) == ["approval", "in_doubt", "in_doubt"]
    await journal.close()


def settled_in_a_thread(place: Place, ready: threading.Barrier, done: list[Any]) -> None:
    async def settling() -> None:
        journal = place.opened()
        ready.wait(20)
        try:
            done.append(await settle(journal))
        finally:
            await journal.close()

    asyncio.run(settling())


async def test_two_processes_that_settle_at_once_tell_every_run(place: Place) -> None:
    payer, journal = Payer(), place.opened()
    runs = [await waits(journal, payer, approved=True) for _ in range(6)]
    await journal.taken_for_restored(WHY)
    await journal.close()
    ready, done = threading.Barrier(2), list[Any]()
    both = [threading.Thread(target=settled_in_a_thread, args=(place, ready, done)) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        await asyncio.to_thread(thread.join, 40)
    assert len(done) == 2
    journal = place.opened()
    assert await journal.restored() is None
    assert all([await told(journal, run) for run in runs])
    assert len(await Inbox(journal).list(kind="in_doubt")) == len(runs)
    assert all(row.status == "failed" for row in await journal.runs(Query()))
    await journal.close()


async def test_a_slow_settlement_undoes_nothing_that_was_decided_after_a_quicker_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    payer, journal = Payer(), place.opened()
    for _ in range(2):
        await waits(journal, payer, approved=False)
    await journal.taken_for_restored(WHY)
    other, settle_run = place.opened(), restored._settle_run

    async def slow(*given: Any) -> None:
        """Tell one run, and stand still while another process settles the store and a person decides."""
        monkeypatch.setattr(restored, "_settle_run", settle_run)
        await settle_run(*given)
        assert await settle(other) is not None
        for row in await Inbox(other).list():
            await Inbox(other).approve(row, by="ben")

    monkeypatch.setattr(restored, "_settle_run", slow)
    await settle(journal)
    assert sorted(row.state for row in await journal.requests(Query())) == ["approve", "approve"]
    await journal.close()
    await other.close()


async def test_two_workers_that_begin_at_once_run_nothing_of_a_restored_store(place: Place) -> None:
    payer, journal = Payer(), place.opened()
    runs = [await waits(journal, payer, approved=True) for _ in range(4)]
    await journal.taken_for_restored(WHY)
    await journal.close()
    one = place.opened()
    other = place.opened()
    async with App([payer.agent], one) as app, App([payer.agent], other):
        for run in runs:
            await until_status(app, run, "failed")
        for store in (one, other):
            await until(partial(is_settled, store))
    assert payer.paid == []
    assert len(await Inbox(one).list(kind="in_doubt")) == len(runs)
    await one.close()
    await other.close()


async def test_a_revision_alone_says_nothing_after_a_restore(place: Place) -> None:
    """Askings are counted anew in a copy: what was shown before may have the number of what asks now."""
    payer, journal = Payer(), place.opened()
    await waits(journal, payer)
    await journal.taken_for_restored(WHY)
    await settle(journal)
    inbox = Inbox(journal, {payer.agent.name: payer.agent})
    [row] = await inbox.list()
    with pytest.raises(Conflict, match="its revision does not identify what was shown"):
        await inbox.approve(row.id, by="ann", revision=row.request.revision)
    assert (await inbox.approve(row.id, by="ann", digest=row.digest)).state != "open"
    await journal.close()


async def test_what_was_claimed_before_a_restore_is_held_by_nobody_once_it_is_settled(place: Place) -> None:
    """The holder knows another log than the store has; one that settles it a second time ends no newer claim."""
    payer, journal = Payer(), place.opened()
    run = await waits(journal, payer)
    before = await journal.claim(run, "worker", 60_000)
    await journal.taken_for_restored(WHY)
    assert await settle(journal) is not None
    for moved in (journal.append(run, await journal.head(run), [b"{}"], before), journal.renew(before, 60_000)):
        with pytest.raises(Conflict, match="not held under this claim"):
            await moved
    assert await journal.due() == [run]
    now = await journal.claim(run, "worker", 60_000)
    assert now.epoch > before.epoch
    await journal.settled()
    assert (await journal.renew(now, 60_000)).epoch == now.epoch
    await journal.close()
