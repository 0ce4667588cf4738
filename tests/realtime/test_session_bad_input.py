"""Whatever a model, a server, a tool or a caller does wrong in a session runs nothing twice and hangs nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import Inbox, MemoryJournal, UserError, function_tool
from keyturn.audit.checker import check
from keyturn.core.errors import Conflict, NotPending, ToolSourceDown
from keyturn.engine.attended import AttendedExecution
from keyturn.realtime import RealtimeAgent, RealtimeRunner, RealtimeToolCallItem
from keyturn.realtime import model_events as me
from keyturn.realtime.model_inputs import RealtimeModelSendToolOutput
from keyturn.testing.loopback.realtime import Call, Event, Frame, ServerError
from tests.realtime.attending import OwnModel, Reader, conversing, talking_to
from tests.realtime.desk import ran, support, weather
from tests.waiting import never, turns_of_the_loop, until, until_alone

# What the server says ---------------------------------------------------------------------------------------------


async def test_events_that_make_no_sense_are_told_and_the_session_goes_on() -> None:
    script = [
        [
            Frame("no json"),
            Frame(b"\x00\xff"),
            Frame("[1, 2]"),
            Event({"type": "something.new", "x": 1}),
            Event({"type": "response.output_item.done", "item": "what"}),
            Event({"type": "response.output_audio.delta", "delta": 17}),
            Event({"no": "type"}),
            ServerError("scripted trouble"),
            Call("weather", {}, "c1"),
        ],
        "Sunny.",
    ]
    async with conversing(support(), script) as (session, server, told):
        await session.send_message("Weather?")
        assert await server.answered("c1") == "sunny"
        await told.until("agent_end", 2)
        assert len(told.errors()) >= 3
    assert ran == ["weather"]
    assert told.ended is None


@pytest.mark.parametrize(
    "arguments", ["{", "[]", "null", '"x"', '{"order": 1}', '{"order": "A1", "more": 1}', "{}", "\ud800", ""]
)
async def test_arguments_that_a_tool_cannot_take_are_told_to_the_model(arguments: str) -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, told):
        await model.calls("refund", arguments)
        await until(lambda: model.outputs() or session.pending_approvals)
        assert session.pending_approvals == []
        assert [call for call, _said in model.outputs()] == ["c1"]
        await model.calls("weather", call_id="c2")
        await until(lambda: len(model.outputs()) == 2)
    assert ran == ["weather"]
    assert told.ended is None


async def test_a_tool_that_nobody_has_is_told_to_the_model() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (_session, _told):
        await model.calls("launch_missiles")
        await until(model.outputs)
        assert "launch_missiles" in model.outputs()[0][1]
    assert ran == []


@pytest.mark.parametrize(
    ("name", "call_id"), [("weather", ""), ("", "c1"), ("x" * 100_000, "c1"), ("weather", "\ud800")]
)
async def test_a_call_with_a_strange_name_or_id_ends_no_session(name: str, call_id: str) -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (_session, told):
        await model.calls(name, call_id=call_id)
        await model.calls("weather", call_id="fine")
        await until(lambda: ("fine", "sunny") in model.outputs())
        assert told.ended is None


async def test_a_model_that_tells_no_text_where_text_belongs_ends_no_session() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (_session, told):
        made: Any = me
        for event in (
            made.RealtimeModelToolCallEvent(None, None, None),
            made.RealtimeModelToolCallEvent("refund", "c1", {"order": "A1"}),
            made.RealtimeModelToolCallEvent("refund", 7, "{}"),
            made.RealtimeModelTranscriptDeltaEvent("m1", None, "r1"),
            made.RealtimeModelItemUpdatedEvent(None),
            made.RealtimeModelUsageEvent(None),
            made.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", 5),
        ):
            await model.tell(event)
        await model.tell(me.RealtimeModelTurnEndedEvent(response_id="r1"))
        await model.calls("weather", call_id="fine")
        await until(lambda: ("fine", "sunny") in model.outputs())
        assert told.ended is None
        assert told.errors()
    assert ran == ["weather"]


async def test_one_call_id_twice_is_asked_about_twice_and_each_is_named_by_its_request() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, _told):
        await model.calls("refund", '{"order": "A1"}')
        await model.calls("refund", '{"order": "B2"}')
        await until(lambda: len(session.pending_approvals) == 2)
        with pytest.raises(UserError, match="request id"):
            await session.approve_tool_call("c1")
        first = session.pending_approvals[0]
        await session.approve_tool_call(first.request_id)
        await until(model.outputs)
        await turns_of_the_loop(200)
        assert ran == ["A1"]


async def test_a_server_that_sends_each_event_twice_gets_one_call() -> None:
    from keyturn.testing.loopback.realtime import Turn

    script = [Turn(Call("weather", {}, "c1"), twice=True), "Sunny.", "Sunny."]
    async with conversing(support(), script) as (session, server, told):
        await session.send_message("Weather?")
        await server.answered("c1")
        await told.until("agent_end", 2)
    assert ran == ["weather"]


# What a caller says -----------------------------------------------------------------------------------------------


async def test_decisions_that_decide_nothing_are_refused_and_run_nothing() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (session, _told):
        with pytest.raises(NotPending, match="c1"):
            await session.approve_tool_call("c1")
        await model.calls("refund", '{"order": "A1"}')
        await until(lambda: session.pending_approvals)
        wrong: Any
        for wrong in ("other", "", None, 7, ["c1"]):
            with pytest.raises(UserError):
                await session.approve_tool_call(wrong)
            with pytest.raises(UserError):
                await session.reject_tool_call(wrong)
        await session.approve_tool_call("c1")
        for again in (session.approve_tool_call, session.reject_tool_call):
            with pytest.raises(NotPending):
                await again("c1")
        await until(model.outputs)
        for again in (session.approve_tool_call, session.reject_tool_call):
            with pytest.raises(NotPending):
                await again("c1")
    for again in (session.approve_tool_call, session.reject_tool_call):
        with pytest.raises(UserError, match="closed"):
            await again("c1")
    assert ran == ["A1"]


async def test_two_that_decide_at_once_decide_once() -> None:
    model = OwnModel()
    journal = MemoryJournal()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        row = (await Inbox(journal).list())[0]
        said = await asyncio.gather(
            session.approve_tool_call("c1"),
            session.approve_tool_call("c1"),
            session.reject_tool_call("c1"),
            Inbox(journal).approve(row, by="ann"),
            return_exceptions=True,
        )
        assert sum(not isinstance(each, BaseException) for each in said) == 1, said
        await until(model.outputs)
        await turns_of_the_loop(100)
    assert ran == ["A1"]
    assert len(model.outputs()) == 1
    assert (await check(journal)).ok


@pytest.mark.each
@pytest.mark.parametrize("message", ["", None, 7, [], {}, {"content": []}, {"content": 5}, {"content": [7]}, b"hi"])
async def test_messages_that_are_none_are_refused_at_the_call(message: Any) -> None:
    async with talking_to(OwnModel(), support()) as (session, told):
        with pytest.raises(UserError, match="message"):
            await session.send_message(message)
        await session.send_message("fine")
        await turns_of_the_loop(50)
        assert told.ended is None


@pytest.mark.parametrize("audio", ["text", None, 5])
async def test_audio_that_is_no_bytes_is_refused_at_the_call(audio: Any) -> None:
    async with talking_to(OwnModel(), support()) as (session, _told):
        with pytest.raises(UserError, match="audio"):
            await session.send_audio(audio)


async def test_a_session_is_entered_once_and_used_in_between() -> None:
    runner = RealtimeRunner(support(), model=OwnModel())
    session = await runner.run()
    for use in (
        session.send_message("hi"),
        session.send_audio(b""),
        session.interrupt(),
        session.approve_tool_call("c"),
    ):
        with pytest.raises(UserError, match="entered"):
            await use
    await session.close()
    async with session:
        with pytest.raises(UserError, match="once"):
            await session.enter()
    await session.close()
    for use in (session.send_message("hi"), session.send_audio(b""), session.interrupt(), session.reconnect()):
        with pytest.raises(UserError, match="closed"):
            await use


# What fails -------------------------------------------------------------------------------------------------------


async def test_a_result_that_could_not_be_sent_is_sent_again_and_its_tool_is_not_run_again() -> None:
    failed: list[Any] = []

    def once(event: Any) -> bool:
        if isinstance(event, RealtimeModelSendToolOutput) and not failed:
            failed.append(event)
            return True
        return False

    model = OwnModel(once)
    journal = MemoryJournal()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("weather")
        await until(lambda: model.connects == 2)
        await until(lambda: "sunny" in str(model.sent))
        assert told.errors()
        await session.send_message("still there?")
        await until(lambda: "still there?" in str(model.sent))
    assert ran == ["weather"]
    assert str(model.sent).count("'output': 'sunny'") + len(model.outputs()) == 1
    assert (await check(journal)).ok


async def test_any_error_of_a_users_own_model_is_a_lost_connection() -> None:
    failed: list[Any] = []

    class Odd(OwnModel):
        async def send_event(self, event: Any) -> None:
            if not failed:
                failed.append(event)
                raise ValueError("not today")
            await super().send_event(event)

    model = Odd()
    async with talking_to(model, support()) as (session, told):
        await session.send_message("hi")
        await until(lambda: "hi" in str(model.sent))
        assert told.ended is None
        await model.calls("weather")
        await until(model.outputs)
    assert ran == ["weather"]


@pytest.mark.parametrize("when", ["connecting", "sending"])
async def test_a_connection_that_breaks_each_time_is_not_made_anew_forever(when: str) -> None:
    class Broken(OwnModel):
        async def connect(self, options: Any) -> None:
            await super().connect(options)
            if when == "connecting" and self.connects > 1:
                raise RuntimeError("no")

    model = Broken(lambda _event: True)
    config: Any = {"reconnect_attempts": 2}
    async with talking_to(model, support(), config=config) as (session, told):
        await session.send_message("hi")
        await until(lambda: any("call reconnect()" in str(error) for error in told.errors()))
        assert model.connects == 3
        model.fails = lambda _event: False
        if when == "sending":
            await session.reconnect()
            await until(lambda: "hi" in str(model.sent))
        assert told.ended is None


@pytest.mark.parametrize("text", ["\ud800", "\x00", "a" * 200_000])
async def test_odd_text_is_recorded_as_it_can_be_and_ends_no_session(text: str, tmp_path: Any) -> None:
    from keyturn.journal import open_journal

    model = OwnModel()
    journal: Any = open_journal(f"sqlite:///{tmp_path}/runs.db")
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.tell(me.RealtimeModelInputAudioTranscriptionCompletedEvent("u1", text))
        await model.says(text)
        await model.calls("weather", call_id="fine")
        await until(lambda: ("fine", "sunny") in model.outputs())
        assert told.ended is None
        run_id = session.run_id
    assert [row.run for row in await journal.runs()] == [run_id]
    assert (await check(journal)).ok


async def test_usage_that_cannot_be_counted_ends_no_session() -> None:
    from keyturn.core.usage import Usage

    model = OwnModel()
    async with talking_to(model, support()) as (_session, told):
        await model.says("Hello.", usage=Usage(requests=1, input_tokens=-5))
        await model.calls("weather", call_id="fine")
        await until(lambda: ("fine", "sunny") in model.outputs())
        assert told.ended is None


async def test_a_model_that_cannot_connect_fails_the_entering_and_leaves_nothing_held() -> None:
    class Dead(OwnModel):
        async def connect(self, options: Any) -> None:
            raise OSError("no route")

    journal = MemoryJournal()
    session = await RealtimeRunner(support(), model=Dead(), journal=journal).run()
    with pytest.raises(OSError, match="no route"):
        async with session:
            pass
    [row] = await journal.runs()
    model = OwnModel()
    async with talking_to(model, support(), journal=journal, resume=row.run) as (_session, _told):
        await model.calls("weather")
        await until(model.outputs)


async def test_a_second_session_on_one_run_is_refused_while_the_first_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttendedExecution, "lease_ms", 300)
    journal = MemoryJournal()
    model = OwnModel()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        second = await RealtimeRunner(support(), model=OwnModel(), journal=journal).run(resume=session.run_id)
        with pytest.raises(Conflict):
            await second.enter()
        await session.approve_tool_call("c1")
        await until(model.outputs)
    assert ran == ["A1"]


async def test_a_tool_that_raises_is_told_to_the_model() -> None:
    @function_tool
    def breaks() -> str:
        """Break."""
        raise ValueError("out of order")

    model = OwnModel()
    async with talking_to(model, support(breaks, weather)) as (_session, told):
        await model.calls("breaks")
        await until(model.outputs)
        assert "error" in model.outputs()[0][1]
        assert "out of order" not in model.outputs()[0][1]
        await model.calls("weather", call_id="c2")
        await until(lambda: len(model.outputs()) == 2)
        assert told.ended is None


async def test_a_tool_without_words_for_its_error_ends_the_session_with_it() -> None:
    @function_tool(failure_error_function=None)
    def breaks() -> str:
        """Break."""
        raise ValueError("out of order")

    model = OwnModel()
    journal = MemoryJournal()
    async with talking_to(model, support(breaks), journal=journal) as (_session, told):
        await model.calls("breaks")
        await until(lambda: told.ended)
        assert "out of order" in repr(told.ended) + repr(told.ended.__cause__)
    assert (await check(journal)).ok


async def test_a_policy_that_denies_or_raises_runs_nothing() -> None:
    def raises(_call: Any, _context: Any) -> Any:
        raise RuntimeError("the policy is broken")

    model = OwnModel()
    async with talking_to(model, support(), policy=lambda _call, _context: "deny") as (session, _told):
        await model.calls("weather")
        await until(model.outputs)
        assert session.pending_approvals == []
    assert ran == []
    model = OwnModel()
    async with talking_to(model, support(), policy=raises) as (session, _told):
        await model.calls("weather")
        await until(lambda: session.pending_approvals)
        assert ran == []
        await session.reject_tool_call("c1")
        await until(model.outputs)
    assert ran == []


# Its end ----------------------------------------------------------------------------------------------------------


async def test_a_tool_at_work_when_the_session_closes_is_in_doubt_and_found_by_who_resumes() -> None:
    @function_tool
    async def slow() -> str:
        """Work for long."""
        ran.append("slow")
        await never()
        return "never"

    journal = MemoryJournal()
    model = OwnModel()
    config: Any = {"close_timeout": 0.05}
    async with talking_to(model, support(slow), journal=journal, config=config) as (session, told):
        await model.calls("slow")
        await told.until("tool_start")
        await until(lambda: ran)
        run_id = session.run_id
    assert told.ended is None
    again = OwnModel()
    async with talking_to(again, support(slow), journal=journal, config=config, resume=run_id) as (session, told):
        asked = await told.until("tool_approval_required")
        assert asked.item.kind == "in_doubt"
        await session.resolve_tool_call(asked.item, "ran", "it did")
        await until(again.outputs)
        assert again.outputs() == [("c1", "it did")]
    assert ran == ["slow"]
    assert (await check(journal)).ok


async def test_a_model_that_talks_on_after_the_end_is_not_held_up_and_runs_nothing() -> None:
    model = OwnModel()
    async with talking_to(model, support()) as (_session, _told):
        listeners = [*model.listeners]
        await model.calls("weather")
        await until(model.outputs)
    model.listeners = listeners
    async with asyncio.timeout(5):
        for _ in range(600):
            await model.calls("weather", call_id="after")
        await model.says("still talking")
    assert ran == ["weather"]


async def test_close_hangs_on_nobody() -> None:
    enough = asyncio.Event()

    @function_tool
    async def stubborn() -> str:
        """Refuse to end."""
        ran.append("stubborn")
        while not enough.is_set():
            try:
                await enough.wait()
            except asyncio.CancelledError:
                ran.append("no")
        return "done"

    class Hanging(OwnModel):
        async def close(self) -> None:
            await never()

    config: Any = {"close_timeout": 0.05}
    session = await RealtimeRunner(support(stubborn), model=(model := Hanging()), config=config).run()
    await session.enter()
    reader = Reader(session)
    await model.calls("stubborn")
    await until(lambda: ran)
    async with asyncio.timeout(1.5):
        await session.close()
        await reader.task
    assert ran == ["stubborn", "no"]
    enough.set()
    await until_alone()


async def test_a_run_that_is_cancelled_from_outside_ends_the_session() -> None:
    journal = MemoryJournal()
    model = OwnModel()
    async with talking_to(model, support(), journal=journal) as (session, told):
        await model.calls("refund", '{"order": "A1"}')
        await told.until("tool_approval_required")
        await Inbox(journal).cancel(session.run_id, by="ann", why="enough")
        await until(lambda: told.task.done())
        assert told.ended is not None
        with pytest.raises(UserError):
            await session.approve_tool_call("c1")
        await model.calls("weather", call_id="c2")
    assert ran == []
    assert (await check(journal)).ok


async def test_tools_that_cannot_be_reached_for_a_moment_end_no_session() -> None:
    """A word of the model asked the servers for their tools, and the session ended where one was down."""
    down = False

    class Server:
        async def tools_for(self, _context: Any, _agent: Any) -> list[Any]:
            if down:
                raise ToolSourceDown("the server is down")
            return [weather]

    model = OwnModel()
    agent: RealtimeAgent[Any] = RealtimeAgent("Support", mcp_servers=[Server()])
    async with talking_to(model, agent) as (_session, told):
        down = True
        await model.says("Hello")
        await model.calls("weather", call_id="c1")
        await until(model.outputs)
        assert "cannot be reached" in dict(model.outputs())["c1"]
        down = False
        await model.calls("weather", call_id="c2")
        await until(lambda: ("c2", "sunny") in model.outputs())
        assert [type(error) for error in told.errors()] == [ToolSourceDown]


@pytest.mark.each
@pytest.mark.parametrize(
    "config",
    [
        {"guardrails_settings": {"debounce_text_lenght": 5}},
        {"guardrails_settings": {"debounce_text_length": "5"}},
        {"output_guardrails": None},
        {"output_guardrails": [print]},
        {"waiting_message": "It waits."},
        {"reconnect_attempts": "3"},
        {"close_timeout": -1},
        {"async_tool_calls": "no"},
        {"tool_execution": {"pre_approval": True}},
        {"model_settings": None},
        {"voice": "ash"},
    ],
    ids=str,
)
def test_settings_that_nothing_would_hear_are_refused_at_the_call(config: Any) -> None:
    with pytest.raises(UserError, match="config"):
        RealtimeRunner(support(), config=config)


async def test_a_call_that_is_refused_at_once_has_its_result_in_the_history() -> None:
    """With a model of one's own it looked as if it were at work for ever."""
    item = RealtimeToolCallItem(item_id="i1", call_id="c1", status="in_progress", arguments="{}", name="nothing")
    model = OwnModel()
    async with talking_to(model, support()) as (session, _told):
        await model.tell(me.RealtimeModelItemUpdatedEvent(item))
        await model.calls("nothing")
        await until(lambda: "There is no tool" in str(session.history[0]))
