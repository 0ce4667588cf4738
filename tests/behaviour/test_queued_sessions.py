"""A message to a session whose run is paused is queued, and none is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from keyturn import (
    Agent,
    App,
    Conflict,
    MemoryJournal,
    MemorySession,
    Runner,
    RunState,
    UserError,
)
from keyturn.audit.checker import check
from keyturn.core import commands as cm
from keyturn.engine.driving.writer import write_to
from keyturn.engine.run.log_cache import forget, log_in
from keyturn.engine.session import turn
from keyturn.engine.session.turn import WHY
from keyturn.journal import opened
from keyturn.journal.rows import Query
from keyturn.models.scripted.model import ScriptedModel, function_call
from keyturn.testing import approve_all
from tests.behaviour.queue_shop import QUEUE, Shop, inputs
from tests.playing import Run
from tests.waiting import until, until_alone, until_status


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_message_waits_until_the_paused_run_is_over(shop: Shop, store: Any) -> None:
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        second = await app.start("shop", "m2", session_id="ann")
        third = await app.start("shop", "m3", session_id="ann")
        other = await app.start("shop", "m1", session_id="ben")
        assert (await other.wait(10)).status == "finished"
        await until_status(app, second.id, "queued")
        assert (await third.get()).status == "queued"
        assert (await third.get()).agent == "shop"
        assert await store.ahead(third.id) == [first.id, second.id]
        [request] = await app.inbox.list(Query(run=first.id, state="open"))
        await app.inbox.approve(request, by="ben")
        assert (await third.result(10)).final_output == "heard m3"
        assert (await second.result(10)).final_output == "heard m2"
    assert shop.paid == ["ada"]
    assert inputs(await shop.told()) == ["pay ada", "m2", "m3"]
    assert await store.ahead(third.id) == []
    assert (await check(store)).ok


@pytest.mark.parametrize("end", ["reject", "cancel", "fail", "erase"])
async def test_however_the_paused_run_ends_the_next_one_begins(shop: Shop, store: Any, end: str) -> None:
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        second = await app.start("shop", "m2", session_id="ann")
        await until_status(app, second.id, "queued")
        [request] = await app.inbox.list(Query(run=first.id, state="open"))
        if end == "reject":
            await app.inbox.reject(request, by="ben")
        elif end == "cancel":
            await app.cancel(first.id)
        elif end == "fail":
            await app.inbox.tell(first.id, cm.Fail("its server is gone"))
        else:
            await until(lambda: _erased(store, first.id))
        assert (await second.result(10)).final_output == "heard m2"
    assert shop.paid == []
    assert inputs(await shop.told())[-1] == "m2"


async def _ahead(store: Any, run: str, wanted: list[str]) -> bool:
    return list(await store.ahead(run)) == wanted


async def _erased(store: Any, run: str) -> bool:
    """Erase a run, once whoever moved it has let go of it."""
    try:
        await store.erase(run)
    except Conflict:
        return False
    return True


async def test_a_queued_run_that_is_cancelled_lets_the_next_one_pass(shop: Shop, store: Any) -> None:
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        second = await app.start("shop", "m2", session_id="ann")
        third = await app.start("shop", "m3", session_id="ann")
        with pytest.raises(Conflict, match="is queued"):
            await app.send(third.id, "and more")
        await app.cancel(second.id)
        await until(lambda: _ahead(store, third.id, [first.id]))  # whoever tells of the cancellation holds it so long
        await app.cancel(first.id)
        assert (await third.result(10)).final_output == "heard m3"
    assert inputs(await shop.told()) == ["pay ada", "m3"]
    assert (await check(store)).ok


async def test_a_plain_run_says_that_it_waits_and_goes_on_when_asked_again(shop: Shop, store: Any, run: Run) -> None:
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    paused = await run(agent, "pay ada", **with_all)
    assert not paused.queued
    waits = await run(agent, "m2", **with_all)
    assert waits.queued
    assert waits.queued_behind == (paused.run_id,)
    assert waits.final_output is None
    assert not waits.interruptions
    assert not waits.new_items
    forget()
    again = await run(agent, waits.to_state(), **with_all)
    assert again.queued
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    assert (await run(agent, state, **with_all)).final_output == "heard pay ada"
    done = await run(agent, again, **with_all)
    assert (done.queued, done.queued_behind, done.final_output) == (False, (), "heard m2")
    assert inputs(await shop.told()) == ["pay ada", "m2"]
    assert [row.status for row in await store.runs()] == ["finished", "finished"]
    assert (await check(store)).ok


async def test_an_idle_session_is_not_waited_for(shop: Shop, store: Any, run: Run) -> None:
    with_all: dict[str, Any] = {"session": shop.session("ann"), "journal": store, "run_config": QUEUE}
    for said in ("m1", "m2"):
        assert (await run(shop.agent(), said, **with_all)).final_output == f"heard {said}"
    assert inputs(await shop.told()) == ["m1", "m2"]


async def test_of_many_starts_at_once_each_runs_alone_and_in_its_order(shop: Shop, store: Any) -> None:
    async with shop.app(store) as app:
        runs = await asyncio.gather(*(app.start("shop", f"m{n}", session_id="ann") for n in range(12)))
        assert [(await each.result(20)).final_output for each in runs] == [f"heard m{n}" for n in range(12)]
    told = await shop.told()
    assert sorted(inputs(told)) == sorted(f"m{n}" for n in range(12))
    assert [told[place + 1] for place in range(0, 24, 2)] == [f"heard {said}" for said in told[::2]]
    assert (await check(store)).ok


@pytest.mark.trial
@pytest.mark.parametrize("store_url", ["sqlite", "postgresql"], indirect=True)
async def test_two_processes_that_start_at_once_give_two_places(shop: Shop, store_url: str) -> None:
    """Two journals on one store, for the stores that several processes share."""
    stores = [opened(store_url), opened(store_url)]
    try:
        apps = [shop.app(store, worker=False) for store in stores]
        for round_ in range(10):
            names = [(app, f"s{round_}") for app in apps for _ in range(3)]
            runs = await asyncio.gather(*(app.start("shop", "m", session_id=name) for app, name in names))
            ahead = sorted([len(await stores[0].ahead(each.id)) for each in runs])
            assert ahead == [0, 1, 2, 3, 4, 5]
    finally:
        for store in stores:
            await store.close()


async def test_a_run_whose_process_died_before_it_began_is_begun_by_another(shop: Shop, store: Any) -> None:
    app = shop.app(store, worker=False)
    run = await app.start("shop", "m1", session_id="ann")
    later = await app.start("shop", "m2", session_id="ann")
    assert (await run.get()).status == "queued"
    assert {*await store.due()} == {run.id, later.id}
    async with shop.app(store) as other:
        assert (await other.result(later.id, 10)).final_output == "heard m2"
        assert (await other.result(run.id, 10)).final_output == "heard m1"
    assert inputs(await shop.told()) == ["m1", "m2"]


async def test_what_holds_a_run_that_is_over_has_the_last_word_first(shop: Shop, store: Any) -> None:
    """A run that is over, and that somebody still holds, may not have told its session yet."""
    app = shop.app(store, worker=False)
    first = await app.start("shop", "m1", session_id="ann")
    second = await app.start("shop", "m2", session_id="ann")
    claim = await store.claim(first.id, "slow", 60_000)
    await app.cancel(first.id)
    assert await store.ahead(second.id) == [first.id]
    await store.release(claim)
    assert await store.ahead(second.id) == []
    assert second.id in await store.due()


async def test_who_takes_up_a_run_that_failed_under_a_lease_that_ran_out_comes_last(shop: Shop, store: Any) -> None:
    """Found by the simulator: the next one had begun, and the run that was resumed kept its place before it."""
    app = shop.app(store, worker=False)
    first = await app.start("shop", "m1", session_id="ann")
    second = await app.start("shop", "m2", session_id="ann")
    await store.claim(first.id, "dies", 1)
    await app.inbox.tell(first.id, cm.Fail("its process was cut off"))

    async def taken() -> bool:
        with contextlib.suppress(Conflict):
            return bool(await store.claim(first.id, "next", 60_000))
        return False

    await until(taken)
    assert await store.ahead(second.id) == []


@pytest.mark.each
@pytest.mark.parametrize("fails", [False, True], ids=["as it ends", "as it fails"])
async def test_a_write_to_the_session_that_was_cut_off_is_waited_for_until_the_lease_is_over(
    shop: Shop, fails: bool
) -> None:
    """It may arrive later, and the next run would have read the session without it."""
    writing, arrives = asyncio.Event(), asyncio.Event()

    class Slow(MemorySession):
        async def add_items(self, items: list[Any]) -> None:
            writing.set()
            await arrives.wait()

    def down(_request: object) -> Any:
        raise OSError("the provider is down")

    journal, agent = MemoryJournal(), Agent("down", model=ScriptedModel(down)) if fails else shop.agent()
    run = asyncio.ensure_future(Runner.run(agent, "hi", journal=journal, session=Slow("ann"), run_config=QUEUE))
    await writing.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    [row] = await journal.runs()
    with pytest.raises(Conflict, match="held by"):
        await journal.claim(row.run, "another", 1_000)
    arrives.set()
    await until_alone()


async def test_a_run_without_a_journal_keeps_what_it_was_asked_though_it_was_cancelled_as_it_wrote(shop: Shop) -> None:
    """Nobody may ever take it up again."""
    writing = asyncio.Event()

    class Slow(MemorySession):
        async def add_items(self, items: list[Any]) -> None:
            if not writing.is_set():
                writing.set()
                await asyncio.Event().wait()
            await super().add_items(items)

    session = Slow("ann")
    run = asyncio.ensure_future(Runner.run(shop.agent(), "hi", session=session))
    await writing.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [item["content"] for item in await session.get_items()] == ["hi"]


async def test_whom_a_newer_message_superseded_is_waited_for_by_nobody(shop: Shop, store: Any, run: Run) -> None:
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    paused = await run(agent, "pay ada", **with_all)
    waits = await run(agent, "m2", **with_all)
    assert waits.queued
    await run(agent, "m3", session=session, journal=store)
    [row] = await store.runs(Query(run=paused.run_id))
    assert (row.status, row.error) == ("cancelled", WHY)
    assert not await store.requests(Query(state="open"))
    assert (await run(agent, waits, **with_all)).final_output == "heard m2"
    state = paused.to_state()
    state.approve(paused.interruptions[0])
    with pytest.raises(Conflict):
        await run(agent, state, **with_all)
    assert shop.paid == []
    assert inputs(await shop.told()) == ["pay ada", "m3", "m2"]


async def test_whoever_asks_for_its_turn_takes_no_due_time_from_those_before(
    shop: Shop, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulator: a run looked overtaken while it was being written, and was due for nobody after that."""
    session, agent, answers = shop.session("ann"), shop.agent(), [True, False]
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    paused = await Runner.run(agent, "pay ada", **with_all)
    await store.release(await store.claim(paused.run_id, "leaves", 60_000), 1)
    assert await store.due() == [paused.run_id]

    async def looks(*_asked: Any) -> bool:
        return answers.pop(0)

    monkeypatch.setattr(turn, "superseded", looks)
    assert (await Runner.run(agent, "m2", **with_all)).queued
    assert (await store.due(), answers) == ([paused.run_id], [])


async def test_a_session_that_was_emptied_ends_no_run_and_a_cancel_lets_the_next_one_begin(
    shop: Shop, store: Any, run: Run
) -> None:
    """What was asked, and may be approved by now, is ended by a person and by nothing that is missing."""
    session, agent = shop.session("ann"), shop.agent()
    with_all: dict[str, Any] = {"session": session, "journal": store, "run_config": QUEUE}
    paused = await run(agent, "pay ada", **with_all)
    await session.clear_session()
    waits = await run(agent, "m2", **with_all)
    assert waits.queued_behind == (paused.run_id,)
    with pytest.raises(UserError, match="was emptied, or it is kept elsewhere"):
        await run(agent, approve_all(paused), **with_all)
    await write_to(store, await log_in(store, paused.run_id), cm.Cancel())
    assert (await run(agent, waits, **with_all)).final_output == "heard m2"
    assert shop.paid == []


async def test_what_is_written_before_a_call_is_settled_is_history_of_the_run_that_settles_it(
    shop: Shop, store: Any, run: Run
) -> None:
    """Found by the simulator: it looked for a history in one piece, and nobody could ever resume it."""
    agent = shop.agent()

    class Busy(MemorySession):
        async def add_items(self, items: list[Any]) -> None:
            if "moved on" in str(items):
                await super().add_items([{"role": "user", "content": "m0"}])
            await super().add_items(items)

    with_all: dict[str, Any] = {"session": Busy("ann"), "journal": store}
    await run(agent, "pay ada", **with_all)
    paused = await run(agent, "pay bob", **with_all)
    forget()
    state = await RunState.load(store, paused.run_id, agent)
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state, **with_all)).final_output == "heard pay bob"
    assert shop.paid == ["bob"]


async def test_a_session_that_fails_as_a_run_begins_fails_that_run_and_no_other(shop: Shop, store: Any) -> None:
    broken: Any = shop.session("ann")
    get_items = broken.get_items

    async def fails(*_args: Any, **_options: Any) -> Any:
        raise OSError("the disk is gone")

    broken.get_items = fails
    async with shop.app(store) as app:
        first = await app.start("shop", "m1", session_id="ann")
        await until_status(app, first.id, "failed")
        broken.get_items = get_items
        second = await app.start("shop", "m2", session_id="ann")
        assert (await second.result(10)).final_output == "heard m2"
        await app.resume(first.id)
        assert (await first.result(10)).final_output == "heard m1"
    assert inputs(await shop.told()) == ["m2", "m1"]


async def test_a_store_that_comes_back_from_a_copy_runs_no_queued_run_unasked(shop: Shop, store: Any) -> None:
    app = shop.app(store, worker=False)
    run = await app.start("shop", "m1", session_id="ann")
    await app.inbox.tell(run.id, cm.RecordRestore("put back", "n1"))
    assert (await run.get()).status == "failed"
    assert run.id not in await store.due() or (await run.get()).status == "failed"
    await app.inbox.tell(run.id, cm.Resume(max_turns=3))
    async with shop.app(store) as other:
        assert (await other.result(run.id, 10)).final_output == "heard m1"


async def test_a_nested_agent_on_a_session_that_waits_is_refused(store: Any) -> None:
    shop = Shop()
    session = MemorySession("inner")
    inner = shop.agent()
    tool = inner.as_tool("ask_shop", "Ask the shop.", session=session)
    calls = [[function_call("ask_shop", {"input": "pay ada"})], [function_call("ask_shop", {"input": "m2"})], "over"]
    outer = Agent("outer", model=ScriptedModel(calls), tools=[tool])
    with_all: dict[str, Any] = {"session": MemorySession("o1"), "journal": store, "run_config": QUEUE}
    paused = await Runner.run(outer, "one", **with_all)
    assert paused.interruptions
    with pytest.raises(Conflict, match="requires a decision"):
        await Runner.run(outer, "two", **(with_all | {"session": MemorySession("o2")}))


def test_where_nothing_can_be_queued_it_is_refused_at_the_call() -> None:
    agent = Agent("a", model=ScriptedModel(["x"]))
    with pytest.raises(UserError, match="needs journal="):
        Runner.run_sync(agent, "hi", session=MemorySession("s"), run_config=QUEUE)
    nameless = MemorySession("s")
    vars(nameless)["session_id"] = None
    with pytest.raises(UserError, match="session_id"):
        Runner.run_sync(agent, "hi", session=nameless, journal="memory://", run_config=QUEUE)
    assert Runner.run_sync(agent, "hi", run_config=QUEUE).final_output == "x"


async def test_a_queued_run_is_resumed_with_its_session_alone(shop: Shop, store: Any) -> None:
    agent = shop.agent()
    await Runner.run(agent, "pay ada", session=shop.session("ann"), journal=store, run_config=QUEUE)
    waits = await Runner.run(agent, "m2", session=shop.session("ann"), journal=store, run_config=QUEUE)
    forget()
    app = App([agent], store, worker=False)
    with pytest.raises(UserError, match="pass the same session="):
        await Runner.run(agent, await app.state(waits.run_id), journal=store)
    state = await app.state(waits.run_id)
    with pytest.raises(UserError, match="another session"):
        await Runner.run(agent, state, session=shop.session("ben"), journal=store)


async def test_a_worker_that_leaves_gives_a_queued_run_back(shop: Shop, store: Any) -> None:
    app = shop.app(store)
    async with app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        second = await app.start("shop", "m2", session_id="ann")
        await until_status(app, second.id, "queued")
    await app.cancel(first.id)
    async with shop.app(store) as other:
        assert (await other.result(second.id, 10)).final_output == "heard m2"


async def test_a_stream_of_a_queued_run_is_followed_from_its_journal(shop: Shop, store: Any) -> None:
    async with shop.app(store) as app:
        first = await app.start("shop", "pay ada", session_id="ann")
        await until_status(app, first.id, "waiting")
        second = await app.start("shop", "m2", session_id="ann")
        kinds: list[str] = []

        async def follow() -> None:
            async for event in second.stream():
                kinds.append(event.type)

        following = asyncio.ensure_future(follow())
        await until(lambda: not following.done())
        await app.cancel(first.id)
        await asyncio.wait_for(following, 10)
    assert "run_item_stream_event" in kinds
