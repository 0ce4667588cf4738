"""Workers with different agents on one journal, workers that stood still, and several in one process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import Agent, App, MemoryJournal, UserError, function_tool
from keyturn.channels import Channel
from keyturn.core import codec
from keyturn.core.settable import own_of
from keyturn.engine import worker
from keyturn.testing import ScriptedModel
from tests.playing import Clock, call, model
from tests.table import each
from tests.waiting import turns_of_the_loop, until, until_status

MINUTE = 60_000


class _Claimed(MemoryJournal):
    """Writes down which runs workers claim."""

    claimed: list[str]

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        own_of(self)["claimed"] = []

    async def claim(self, run: str, worker: str, ttl_ms: int) -> Any:
        self.claimed.append(run)
        return await super().claim(run, worker, ttl_ms)


async def test_a_run_that_one_worker_cannot_take_up_is_taken_up_by_another_at_once() -> None:
    """The clock of the journal stands still: what was left for a minute would not be due."""
    journal = _Claimed(Clock())
    async with App([Agent("other", model=model("done"))], journal) as other:
        await other.at_work()
        run = await App([Agent("desk", model=model("done"))], journal, worker=False).start("desk", "go")
        own = await other.start("other", "go")
        await until_status(other, own.id, "finished")
        assert (await journal.due(), journal.claimed) == ([run.id], [own.id])
        async with App([Agent("desk", model=model("done"))], journal) as desk:
            await desk.at_work()
            await until_status(desk, run.id, "finished")


async def test_an_agent_that_an_app_is_given_later_moves_its_runs_within_two_seconds() -> None:
    desk, journal = Agent("desk", model=model("done", "done")), MemoryJournal(Clock())
    starts = App([desk], journal, worker=False)
    async with App([Agent("other", model=model())], journal) as late:
        await late.at_work()
        first, second = await starts.start("desk", "go"), await starts.start("desk", "go")
        late.agents = [desk]
        async with asyncio.timeout(30):
            await until_status(late, first.id, "finished")
            await until_status(late, second.id, "finished")


@each("row", ["says so", "is of before it could say so"])
async def test_runs_of_a_newer_keyturn_are_left_to_newer_workers_at_once(
    row: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rolling update: the older worker took all of them from everybody for an hour, and advised to erase them."""
    journal, desk = _Claimed(Clock()), Agent("desk", model=ScriptedModel(lambda _items: "done"))
    starts = App([desk], journal, worker=False)
    with monkeypatch.context() as newer:
        written: Any = codec._written
        newer.setattr(codec, "_written", lambda value: written(value).replace(b'{"v":2,', b'{"v":3,', 1))
        newer.setattr("keyturn.engine.views.rows.FORMAT", 3 if row == "says so" else 0)
        runs = [(await starts.start("desk", "go")).id for _ in range(5)]
    async with App([desk], journal) as old:
        await old.at_work()
        own = await old.start("desk", "go")
        await until_status(old, own.id, "finished")
        if row == "says so":
            assert journal.claimed == [own.id]
        else:
            await until(lambda: caplog.text.count("upgrade this process to read it") == len(runs))
            await until(lambda: not old.busy)
        assert sorted(await journal.due()) == sorted(runs), "a newer worker finds all of them, at once"
        assert "erase" not in caplog.text


@each("lacks", ["its tool", "its agent"])
async def test_an_approved_call_is_taken_up_at_once_where_only_another_worker_can_run_it(
    lacks: str, caplog: Any
) -> None:
    """An upgrade under way: the workers of before have an agent of that name, without what the call needs."""
    journal, done = MemoryJournal(Clock()), list[str]()

    @function_tool(needs_approval=True)
    def pay() -> str:
        done.append("paid")
        return "paid"

    desk = Agent("desk", model=model([call("pay", "c1")], "done", "done"), tools=[pay])
    nested = Agent(
        "boss", model=model([call("ask_desk", "c0", input="go")], "done"), tools=[desk.as_tool("ask_desk", "Asks.")]
    )
    new = desk if lacks == "its tool" else nested
    async with App([new], journal) as app:
        run = await app.start(new.name, "go")
        await app.wait(run.id, 30)
    async with App([Agent(new.name, model=model())], journal) as old:
        await old.at_work()
        [row] = await old.inbox.list()
        await old.inbox.approve(row, by="ann")
        await until(lambda: "cannot be executed here" in caplog.text)
        await until(lambda: not old.busy)
        assert await journal.due() == [run.id]
        async with App([new], journal) as app:
            await app.at_work()
            await until_status(app, run.id, "finished")
    assert (done, caplog.text.count("cannot be executed here")) == (["paid"], 1)
    caplog.clear()


async def test_a_worker_claims_a_run_that_it_cannot_move_once_where_its_journal_has_no_filter() -> None:
    """To claim it again and again would keep its own workers from it."""

    class Older(_Claimed):
        """A journal of a user's own, from before there was a filter."""

        async def due(self, limit: int = 100) -> list[str]:
            return await super().due(limit)

    journal = Older(Clock())
    elsewhere = App([Agent("desk", model=model("done"))], journal, worker=False)
    first = await elsewhere.start("desk", "go")
    async with App([Agent("other", model=model("done", "done"))], journal) as other:
        await other.at_work()
        await until(lambda: journal.claimed == [first.id])
        own = await other.start("other", "go")
        await until_status(other, own.id, "finished")
        assert journal.claimed.count(first.id) == 1


async def test_runs_of_other_workers_do_not_hold_up_those_behind_them() -> None:
    """Workers of another fleet are down, and this one has few slots: what is its own it begins at once."""
    looks = list[int]()

    class Counted(MemoryJournal):
        async def due(self, limit: int = 100, only: Any = None) -> list[str]:
            looks.append(limit)
            return await super().due(limit, only)

    clock = Clock()
    journal = Counted(clock)
    elsewhere = App([Agent("desk", model=model("done"))], journal, worker=False)
    for _ in range(200):
        await elsewhere.start("desk", "go")
    clock.pass_ms(1)
    app = App([Agent("own", model=model("done"))], journal, worker=False)
    own = await app.start("own", "go")
    working = asyncio.create_task(app.work(slots=1))
    await until_status(app, own.id, "finished")
    await app.stop()
    await working
    assert len(looks) < 20


async def test_a_worker_that_stood_still_goes_on_with_what_it_holds() -> None:
    """Its lease expired and nobody took the run over: nobody died, and the model is not asked once more."""
    clock, go_on, asked = Clock(), asyncio.Event(), list[int]()
    journal = MemoryJournal(clock)

    async def slow(request: Any) -> str:
        asked.append(1)
        await go_on.wait()
        return "done"

    async with App([Agent("desk", model=ScriptedModel(slow))], journal) as app:
        run = await app.start("desk", "go")
        await until(lambda: asked)
        for _ in range(4):
            clock.pass_ms(2 * MINUTE)
            await app.start("desk", "wakes the worker")
            await turns_of_the_loop(50)
        assert (await app.get(run.id)).status == "running"
        go_on.set()
        await until_status(app, run.id, "finished")
        assert len(asked) == 5


async def test_a_run_that_is_started_by_a_process_at_work_begins_no_second_worker() -> None:
    """That one would be the one which `stop` ends."""
    app = App([Agent("desk", model=model("done", "done"))], MemoryJournal())
    working = asyncio.create_task(app.work())
    await turns_of_the_loop(50)
    run = await app.start("desk", "go")
    await until_status(app, run.id, "finished")
    await app.stop()  # which waits for its own worker alone
    await asyncio.wait_for(working, 30)


async def test_a_journal_that_does_not_answer_is_not_healthy() -> None:
    class Silent(MemoryJournal):
        async def due(self, limit: int = 100) -> list[str]:
            await asyncio.Event().wait()
            return []

    app = App([], Silent(), worker=False)
    assert await app.check_health(0.01) == "the journal did not answer within 0.01 s"
    assert await App([], MemoryJournal(), worker=False).check_health() is None


class _Kept(Channel):
    """Holds something from its first delivery on, until it is closed."""

    name = "kept"
    closed = 0

    async def send(self, message: Any) -> None:
        pass

    async def close(self) -> None:
        self.closed += 1


async def _answers(app: App) -> bool:
    return (await (await app.start("desk", "go")).result(30)).final_output == "done"


async def test_a_user_of_an_app_that_leaves_ends_nothing_that_the_others_use() -> None:
    """A block that is left, or work that is cancelled, ends neither the workers nor the deliveries of an open block."""
    channel = _Kept()
    app = App([Agent("desk", model=ScriptedModel(lambda _items: "done"))], MemoryJournal(), channels=[channel])
    working = asyncio.create_task(app.work())
    await turns_of_the_loop(50)
    async with app:
        async with app:
            pass
        assert await _answers(app)
        working.cancel()
        await asyncio.wait({working})
        assert await app.check_health() is None
        assert await _answers(app)
        assert not channel.closed
    assert (app.busy, channel.closed) == (0, 1)


async def test_a_block_that_is_left_ends_no_work_beside_it() -> None:
    app = App([Agent("desk", model=ScriptedModel(lambda _items: "done"))], MemoryJournal(), worker=False)
    working = asyncio.create_task(app.work())
    await turns_of_the_loop(50)
    async with app:
        pass
    assert await _answers(app)
    await app.stop()
    await asyncio.wait_for(working, 30)


async def test_an_open_app_whose_worker_was_stopped_is_not_healthy() -> None:
    async with App([Agent("desk", model=ScriptedModel(lambda _items: "done"))], MemoryJournal()) as app:
        assert await app.check_health() is None
        await app.stop()
        assert "worker was stopped while the app is open" in str(await app.check_health())
        assert await _answers(app)
        assert await app.check_health() is None


async def test_a_worker_outlives_any_error_of_its_journal_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key file that others could read for a moment ended it: its tools were cut off, and its health was good."""
    monkeypatch.setattr(worker, "_BACKOFF", 0)

    class Unreadable(MemoryJournal):
        broken = False

        async def due(self, limit: int = 100) -> list[str]:
            if self.broken:
                raise UserError("the key file is readable by others")
            return await super().due(limit)

    journal = Unreadable()
    async with App([Agent("desk", model=model("done", "done"))], journal) as app:
        await until_status(app, (await app.start("desk", "go")).id, "finished")
        journal.broken = True
        elsewhere = App([Agent("desk", model=model("done"))], journal, worker=False)
        run = await elsewhere.start("desk", "go")
        await until(lambda: app.trouble == "the key file is readable by others")
        journal.broken = False
        await until_status(app, run.id, "finished")
        await until(lambda: app.trouble is None)


async def test_a_worker_that_cannot_begin_ends_and_its_app_is_not_healthy() -> None:
    class Unusable(MemoryJournal):
        async def due(self, limit: int = 100) -> list[str]:
            raise UserError("this journal is of a newer version")

    app = App([Agent("desk", model=model("done"))], Unusable())
    await app.at_work()
    await until(lambda: app.trouble == "this journal is of a newer version")
    with pytest.raises(UserError, match="newer version"):
        await app.stop()
