"""However a realtime session is left, closed, cut off or stopped, nothing of it stays at work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import App, Inbox, MemoryJournal, RunConfig, UserError, function_tool
from keyturn.agents.limits import UsageLimits
from keyturn.audit.checker import check
from keyturn.core.errors import StorageError, UsageLimitExceeded
from keyturn.core.usage import Price, Usage
from keyturn.engine.driving.drive import Drive
from keyturn.realtime import RealtimeRunner
from keyturn.realtime import model_events as me
from tests.realtime.attending import OwnModel, Reader, talking_to
from tests.realtime.desk import ran, refund, support
from tests.waiting import never, turns_of_the_loop, until, until_alone


class Failing(MemoryJournal):
    """A journal whose appends, or reads, fail for as long as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.failed = 0
        self.watched = 0

    def watch(self, *args: Any, **more: Any) -> Any:
        self.watched += 1
        return super().watch(*args, **more)

    async def append(self, *args: Any, **more: Any) -> Any:
        if self.broken:
            self.failed += 1
            raise StorageError("the disk is full")
        return await super().append(*args, **more)

    async def lines(self, *args: Any, **more: Any) -> Any:
        if self.broken:
            self.failed += 1
            raise StorageError("the disk is gone")
        return await super().lines(*args, **more)


# Cancelled and closed ---------------------------------------------------------------------------------------------


@pytest.mark.each
@pytest.mark.parametrize("turns", [*range(0, 30, 3), 40, 60, 100])
async def test_entering_that_is_cancelled_anywhere_holds_no_run(turns: int) -> None:
    before = asyncio.all_tasks()
    journal = MemoryJournal()
    session = await RealtimeRunner(support(), model=OwnModel(), journal=journal).run()
    entering = asyncio.ensure_future(session.enter())
    await turns_of_the_loop(turns)
    entering.cancel()
    await asyncio.wait([entering], timeout=5)
    if not entering.cancelled():
        await session.close()
    await until(lambda: asyncio.all_tasks() == before, 5)
    for row in await journal.runs():  # whoever wants it can have it at once
        if row.status != "finished":
            claim = await journal.claim(row.run, "somebody", 1_000)
            await journal.release(claim)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_closing_that_is_cancelled_anywhere_leaves_nothing_at_work(turns: int) -> None:
    class Slow(OwnModel):
        async def close(self) -> None:
            await turns_of_the_loop(5)
            await super().close()

    before = asyncio.all_tasks()
    journal, model = MemoryJournal(), Slow()
    session = await (await RealtimeRunner(support(), model=model, journal=journal).run()).enter()
    await model.calls("refund", '{"order": "A1"}')
    await until(lambda: session.pending_approvals)
    closing = asyncio.ensure_future(session.close())
    await turns_of_the_loop(turns)
    closing.cancel()
    await asyncio.wait([closing], timeout=5)
    await session.close()
    await until(lambda: asyncio.all_tasks() == before, 5)
    [row] = await journal.runs()
    await journal.release(await journal.claim(row.run, "somebody", 1_000))


async def test_who_closes_a_second_time_waits_for_the_end() -> None:
    class Slow(OwnModel):
        async def close(self) -> None:
            await turns_of_the_loop(50)
            await super().close()

    model, journal = Slow(), MemoryJournal()
    session = await (await RealtimeRunner(support(), model=model, journal=journal).run()).enter()
    first = asyncio.ensure_future(session.close())
    await turns_of_the_loop(2)
    await session.close()
    [row] = await journal.runs()
    assert (model.closes, row.status) == (1, "finished")
    await first


async def test_a_tool_that_closes_its_own_session_does_not_hang_it() -> None:
    sessions: list[Any] = []

    @function_tool
    async def hang_up() -> str:
        """Hang up."""
        await sessions[0].close()
        return "bye"

    model = OwnModel()
    config: Any = {"close_timeout": 0.1}
    session = await (await RealtimeRunner(support(hang_up), model=model, config=config).run()).enter()
    sessions.append(session)
    reader = Reader(session)
    await model.calls("hang_up")
    await asyncio.wait_for(reader.task, 5)
    await session.close()
    await until_alone()


# Connecting -------------------------------------------------------------------------------------------------------


async def test_reconnecting_a_connection_that_lives_replaces_it_and_delivers_on() -> None:
    """The seam lets a model connect again once its connection has ended: so it is ended first."""

    class Strict(OwnModel):
        up = False

        async def connect(self, options: Any) -> None:
            if self.up:
                raise UserError("the realtime model is connected already: close it first")
            self.up = True
            await super().connect(options)

        async def close(self) -> None:
            await super().close()
            if self.up:
                self.up = False
                await self.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))

    model = Strict()
    async with talking_to(model, support()) as (session, told):
        await session.reconnect()
        await session.send_message("hello?")
        await until(lambda: "hello?" in str(model.sent))
        await asyncio.gather(session.reconnect(), session.reconnect())
        await session.send_message("still there?")
        await until(lambda: "still there?" in str(model.sent))
        await turns_of_the_loop(500)
        assert (model.connects, told.errors()) == (4, [])


async def test_reconnecting_while_a_lost_connection_is_made_anew_makes_one() -> None:
    class Slow(OwnModel):
        ended = 0

        async def connect(self, options: Any) -> None:
            await super().connect(options)
            if self.connects == 2:
                try:
                    await never()
                finally:
                    await turns_of_the_loop(20)
                    self.ended += 1
            assert self.ended == (self.connects > 2), "two at once"

    model = Slow()
    async with talking_to(model, support()) as (session, told):
        await model.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
        await until(lambda: model.connects == 2)  # the session is connecting by itself
        await session.reconnect()
        await session.send_message("hello?")
        await until(lambda: "hello?" in str(model.sent))
        await turns_of_the_loop(500)
        assert (model.connects, str(model.sent).count("hello?"), told.errors()) == (3, 1, [])


async def test_a_connection_that_is_lost_while_it_is_opened_is_made_anew() -> None:
    """The provider hangs up just as the conversation so far was told: nobody would ever send, and notice."""

    class HangsUp(OwnModel):
        async def send_event(self, event: Any) -> None:
            await super().send_event(event)
            if self.connects == 2:
                await self.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))

    model = HangsUp()
    async with talking_to(model, support()) as (session, told):
        await session.send_message("hello?")
        await until(lambda: model.sent)
        await model.tell(me.RealtimeModelConnectionStatusEvent("disconnected"))
        await until(lambda: model.connects >= 3, 5)
        assert told.ended is None


async def test_a_late_word_on_an_old_connection_ends_no_new_one() -> None:
    """OpenAI's model tells the end of a connection once, and not after there is another."""
    from keyturn.realtime import OpenAIRealtimeWebSocketModel
    from keyturn.testing.loopback.realtime import RealtimeServer
    from tests.realtime.listening import Heard

    heard = Heard()
    model = OpenAIRealtimeWebSocketModel()
    model.add_listener(heard)
    async with RealtimeServer(["Hi."]) as server:
        options: Any = {"url": server.url, "api_key": "k"}
        await model.connect(options)
        first: Any = model._connection
        slow, close = asyncio.Event(), first.socket.close

        async def closes(**more: Any) -> None:
            await slow.wait()
            await close(**more)

        first.socket.close = closes
        await server.hang_up()
        await until(lambda: not model.connected)
        await model.connect(options)
        slow.set()
        await turns_of_the_loop(500)
        statuses = [event.status for event in heard.of("connection_status")]
        assert statuses == ["connecting", "connected", "connecting", "connected"]
        await model.close()


# The end against its will -----------------------------------------------------------------------------------------


async def test_a_run_that_is_cancelled_from_outside_hangs_up_on_its_model() -> None:
    """Nobody reads the events: the model must not talk on, at somebody's cost, in a conversation that is over."""
    journal, model = MemoryJournal(), OwnModel()
    session = await (await RealtimeRunner(support(), model=model, journal=journal).run()).enter()
    await Inbox(journal).cancel(session.run_id, by="ann", why="enough")
    await until(lambda: model.closes, 5)
    for use in (session.send_message("hi"), session.send_audio(b""), session.reconnect()):
        with pytest.raises(UserError, match="ended"):
            await use
    await session.close()
    assert model.connects == 1


async def test_a_session_that_ended_takes_no_decision_that_nobody_would_carry_out() -> None:
    @function_tool(failure_error_function=None)
    def breaks() -> str:
        """Break."""
        raise ValueError("out of order")

    model = OwnModel()
    async with talking_to(model, support(refund, breaks)) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        item = session.pending_approvals[0]
        await model.calls("breaks", call_id="c2")
        await until(lambda: told.ended)
        with pytest.raises(UserError, match="ended"):
            await session.approve_tool_call(item)
    assert ran == []


# The store --------------------------------------------------------------------------------------------------------


async def test_a_store_that_fails_at_the_close_keeps_nothing_at_work() -> None:
    before = asyncio.all_tasks()
    journal, model = Failing(), OwnModel()
    session = await (await RealtimeRunner(support(), model=model, journal=journal).run()).enter()
    journal.broken = True
    with pytest.raises(StorageError):
        await session.close()
    await until(lambda: asyncio.all_tasks() == before, 5)
    journal.broken = False
    [row] = await journal.runs()
    assert row.status != "finished"
    await session.close()
    await journal.release(await journal.claim(row.run, "somebody", 1_000))


async def test_closing_waits_for_no_store_that_does_not_answer() -> None:
    class Silent(MemoryJournal):
        silent = False

        async def append(self, *args: Any, **more: Any) -> Any:
            if self.silent:
                await never()
            return await super().append(*args, **more)

    journal, model = Silent(), OwnModel()
    config: Any = {"close_timeout": 0.05}
    session = await (await RealtimeRunner(support(), model=model, journal=journal, config=config).run()).enter()
    await model.says("hello")
    journal.silent = True
    with pytest.raises(StorageError, match="did not answer within"):
        await asyncio.wait_for(session.close(), 5)


async def test_a_store_that_failed_once_lets_what_runs_out_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody does anything else, the clock alone moves the run: it tries again."""
    from keyturn import Approval

    @function_tool(needs_approval=True, approval=Approval(expires="1s"))
    def pay(order: str) -> str:
        """Pay."""
        ran.append(order)
        return "paid"

    journal, model = Failing(), OwnModel()
    async with talking_to(model, support(pay), journal=journal) as (_session, told):
        await model.calls("pay", '{"order": "A1"}')
        await told.until("tool_approval_required")
        journal.broken = True
        await until(lambda: journal.failed, 5)
        journal.broken = False
        await told.until("tool_end", seconds=10)
        assert "tool_approval_decided c1" in told.calls()
    assert ran == []


async def test_a_store_that_failed_once_does_not_make_a_session_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an inbox decides is heard after the store could not be read for a moment."""
    journal, model = Failing(), OwnModel()
    async with talking_to(model, support(), journal=journal) as (_session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        failed: list[int] = []

        async def heard(drive: Drive, place: int) -> bool:
            if not failed:
                failed.append(place)
                raise StorageError("the disk is gone")
            return await hears(drive, place)

        hears = Drive.heard
        monkeypatch.setattr(Drive, "heard", heard)
        await until(lambda: journal.watched)
        [row] = await Inbox(journal).list()
        await Inbox(journal).approve(row, by="ann")
        await told.until("tool_end", seconds=10)
        assert failed
    assert ran == ["A1"]


# Limits -----------------------------------------------------------------------------------------------------------


def spent(tokens: int) -> Usage:
    return Usage(requests=1, input_tokens=tokens, total_tokens=tokens)


@pytest.mark.parametrize("limits", [{"requests": 2}, {"total_tokens": 20}, {"input_tokens": 20}])
async def test_usage_limits_end_a_session_of_a_model_that_talks_by_itself(limits: Any) -> None:
    journal, model = MemoryJournal(), OwnModel()
    config: Any = {"usage_limits": UsageLimits(**limits)}
    async with talking_to(model, support(), journal=journal, config=config) as (session, told):
        await model.says("One.", "m1", "r1", spent(10))
        await turns_of_the_loop(100)
        assert told.ended is None
        await model.says("Two.", "m2", "r2", spent(10))
        await until(lambda: told.ended)
        assert isinstance(told.ended, UsageLimitExceeded)
        assert told.ended.limit == next(iter(limits))
        await until(lambda: model.closes)
        with pytest.raises(UserError, match="ended"):
            await session.send_message("more")
        run = session.run_id
    with pytest.raises(UsageLimitExceeded):  # nor does it help to take it up again
        async with talking_to(again := OwnModel(), support(), journal=journal, config=config, resume=run):
            pass
    assert again.connects == 0
    more: Any = {"usage_limits": UsageLimits(requests=100)}
    async with talking_to(again := OwnModel(), support(), journal=journal, config=more, resume=run) as (_s, told):
        await again.says("Three.", "m3", "r3", spent(10))
        await again.calls("weather")
        await until(again.outputs)
        assert told.ended is None
    assert "One." in str(again.sent)


async def test_a_limit_of_tool_calls_lets_the_last_end_and_is_told_then() -> None:
    model = OwnModel()
    config: Any = {"usage_limits": UsageLimits(tool_calls=2)}
    async with talking_to(model, support(), config=config) as (_session, told):
        await model.calls("weather", call_id="c1")
        await until(model.outputs)
        await model.calls("weather", call_id="c2")
        await until(lambda: told.ended)
        assert isinstance(told.ended, UsageLimitExceeded)
    assert ran == ["weather", "weather"]
    assert len(told.of("tool_end")) == 2


async def test_a_model_over_its_limit_is_cut_off_while_a_tool_is_still_at_work() -> None:
    go_on = asyncio.Event()

    @function_tool
    async def slow() -> str:
        """Work for long."""
        await go_on.wait()
        ran.append("slow")
        return "done"

    model = OwnModel()
    config: Any = {"usage_limits": UsageLimits(requests=1)}
    async with talking_to(model, support(slow), config=config) as (_session, told):
        await model.calls("slow")
        await told.until("tool_start")
        await model.says("One.", "m1", "r1", spent(10))
        await until(lambda: model.closes)
        assert told.ended is None
        go_on.set()
        await until(lambda: told.ended)
        assert isinstance(told.ended, UsageLimitExceeded)
        assert told.of("tool_end")
    assert ran == ["slow"]


async def test_a_limit_of_cost_wants_a_price_of_the_model_before_it_talks() -> None:
    price = Price(input=1, output=1)
    for prices, works in ({"other": price}, False), ({"gpt-voice": price}, True):
        config: Any = {
            "usage_limits": UsageLimits(cost=1, prices=prices),
            "model_settings": {"model_name": "gpt-voice"},
        }
        model = OwnModel()
        if works:
            async with talking_to(model, support(), config=config) as (_session, told):
                await model.says("One.", "m1", "r1", spent(2_000_000))
                await until(lambda told=told: told.ended)
                assert isinstance(told.ended, UsageLimitExceeded)
        else:
            with pytest.raises(UserError, match="gpt-voice"):
                async with talking_to(model, support(), config=config):
                    pass
            assert model.connects == 0


async def test_limits_that_are_none_are_refused_at_the_call() -> None:
    wrong: Any = {"usage_limits": 7}
    with pytest.raises(UserError, match="usage_limits"):
        await RealtimeRunner(support(), model=OwnModel(), config=wrong).run()


async def test_usage_of_turns_that_never_end_counts_too() -> None:
    model = OwnModel()
    config: Any = {"usage_limits": UsageLimits(total_tokens=20)}
    async with talking_to(model, support(), config=config) as (_session, told):
        for _ in range(4):
            await model.tell(me.RealtimeModelUsageEvent(spent(10)))
        await until(lambda: told.ended)
        assert isinstance(told.ended, UsageLimitExceeded)


async def test_the_limits_of_an_app_hold_for_its_sessions() -> None:
    agent = support()
    config = RunConfig(usage_limits=UsageLimits(requests=1))
    async with App([agent], MemoryJournal(), run_config=config, worker=False) as app:
        model = OwnModel()
        async with talking_to(model, agent, app=app) as (_session, told):
            await model.says("One.", usage=spent(10))
            await until(lambda: told.ended)
            assert isinstance(told.ended, UsageLimitExceeded)
            await until(lambda: model.closes)


async def test_a_call_that_waited_over_the_limit_is_still_decided_by_people() -> None:
    """The limit is of what the model uses: what a person approves afterwards runs, and no model is asked."""
    agent, journal, model = support(), MemoryJournal(), OwnModel()
    async with App([agent], journal) as app:
        config: Any = {"usage_limits": UsageLimits(requests=1)}
        async with talking_to(model, agent, app=app, config=config) as (_session, told):
            await model.calls("refund", '{"order": "A1"}')
            await told.until("tool_approval_required")
            await model.says("One.", usage=spent(10))
            await until(lambda: told.ended)
        assert ran == []
        [row] = await app.inbox.list()
        await app.inbox.approve(row, by="ann")
        await until(lambda: ran)
    assert (ran, model.connects) == (["A1"], 1)
    assert (await check(journal)).ok


async def test_entering_twice_at_once_makes_one_run() -> None:
    journal, model = MemoryJournal(), OwnModel()
    session = await RealtimeRunner(support(), model=model, journal=journal).run()
    said = await asyncio.gather(session.enter(), session.enter(), return_exceptions=True)
    assert [type(each) for each in said] == [type(session), UserError]
    await session.close()
    assert (len(await journal.runs()), model.connects) == (1, 1)


async def test_a_model_object_is_of_one_session_at_a_time() -> None:
    """Else the second session hears what is said in the first one, and its end hangs up on the first one's user."""
    model = OwnModel()
    runner = RealtimeRunner(support(), model=model, journal="memory://")
    first = await (await runner.run()).enter()
    second = await runner.run()
    with pytest.raises(UserError, match="another session uses this OwnModel"):
        await second.enter()
    await second.close()
    assert (model.closes, len(model.listeners)) == (0, 1)
    await first.close()
    async with await runner.run() as third:
        await third.send_message("hi")
