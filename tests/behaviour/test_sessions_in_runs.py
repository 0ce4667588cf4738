"""A session holds what happened, once and in order, and a newer message never leaves an orphan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MemorySession,
    OutputGuardrailBlockedMessageArgs,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunErrorHandlerResult,
    Runner,
    SessionSettings,
    SQLiteSession,
    UserError,
    input_guardrail,
    output_guardrail,
)
from keyturn.core.items import Item
from keyturn.models.scripted.model import ModelStep
from keyturn.sessions.history import orphan_calls, orphan_outputs
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    asking,
    call,
    model,
    outputs,
    plain,
    shape,
    state_of,
    streamed,
    user,
)
from tests.waiting import turns_of_the_loop, until

MOVED_ON = "no result: the user moved on. If the call still waited for approval, it is not executed."


class Own:
    """A user's own session: the protocol and nothing else, and it counts its writes."""

    session_id = "own"

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.writes: list[int] = []
        self.fail: list[str] = []

    async def get_items(self, limit: int | None = None) -> list[Item]:
        first = 0 if limit is None else max(0, len(self.items) - limit)
        return [dict(item) for item in self.items[first:]]

    async def add_items(self, items: list[Item]) -> None:
        how = self.fail.pop(0) if self.fail else ""
        if how == "before":
            raise OSError("disk full")
        self.items += items
        self.writes.append(len(items))
        if how == "after":
            raise OSError("connection lost")

    async def pop_item(self) -> Item | None:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


@pytest.fixture(params=["memory", "sqlite", "own"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A session of each kind."""
    made = {"memory": lambda: MemorySession("s"), "sqlite": lambda: SQLiteSession("s", tmp_path / "s.db"), "own": Own}
    return made[request.param]()


async def held(session: Any) -> list[str]:
    """What a session holds, in short; a conversation that a provider would refuse is a failure."""
    items = await session.get_items()
    return shape(items)


async def acceptable(session: Any) -> bool:
    items = await session.get_items()
    return orphan_calls(items) == orphan_outputs(items) == []


async def test_a_pause_and_a_resume_each_add_what_is_new(world: World, run: Run, saved: bool, session: Any) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2")], [call("ask", "c3")], "done")
    result = await run(agent, "go", session=session)
    assert await held(session) == ["user", "call c1", "call c2", "output c2"]
    result = await run(agent, await approved(result, agent, saved), session=session)
    assert await held(session) == ["user", "call c1", "call c2", "output c2", "output c1", "call c3"]
    result = await run(agent, await approved(result, agent, saved), session=session)
    expected = ["user", "call c1", "call c2", "output c2", "output c1", "call c3", "output c3", "assistant"]
    assert await held(session) == expected
    assert await acceptable(session)
    assert sorted(world.done) == ["ask(0)", "ask(0)", "free(0)"]


async def test_idle_resumes_write_nothing(world: World, run: Run) -> None:
    session = Own()
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", session=session)
    for _ in range(3):
        result = await run(agent, result.to_state(), session=session)
    assert session.writes == [2]
    await run(agent, await approved(result, agent), session=session)
    assert session.writes == [2, 2]


async def test_the_live_state_remembers_its_session(world: World, run: Run) -> None:
    session = Own()
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", session=session)
    await run(agent, await approved(result, agent))
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]


async def test_conversation_after_conversation(world: World, run: Run, session: Any) -> None:
    agent = asking(world, "hello", [call("ask", "c1")], "paid", "bye")
    await run(agent, "hi", session=session)
    result = await run(agent, "pay", session=session)
    result = await run(agent, await approved(result, agent, saved=True), session=session)
    await run(agent, "thanks", session=session)
    sent = [shape(request.input) for request in asked(agent)]
    assert sent == [
        ["user"],
        ["user", "assistant", "user"],
        ["user", "assistant", "user", "call c1", "output c1"],
        ["user", "assistant", "user", "call c1", "output c1", "assistant", "user"],
    ]
    assert await held(session) == [*sent[-1], "assistant"]
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1", "assistant"]


@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_failed_append_never_repeats_the_tool(world: World, run: Run, saved: bool, how: str) -> None:
    session = Own()
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go", session=session), agent, saved)
    session.fail = [how]
    with pytest.raises(OSError, match=r"disk full|connection lost") as raised:
        await run(agent, state, session=session)
    assert world.done == ["ask(0)"]
    failed = raised.value.run_data
    result = await run(agent, await state_of(failed, agent, saved), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]


@pytest.mark.each
@pytest.mark.parametrize("how", ["before", "after"])
async def test_a_failed_append_at_the_pause_is_made_good(world: World, run: Run, saved: bool, how: str) -> None:
    session = Own()
    session.fail = [how]
    agent = asking(world, [call("ask", "c1")], "done")
    with pytest.raises(OSError, match=r"disk full|connection lost") as raised:
        await run(agent, "go", session=session)
    failed = raised.value.run_data
    assert len(failed.interruptions) == 1
    result = await run(agent, await approved(failed, agent, saved), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]


async def test_a_provider_failure_leaves_no_orphan_in_the_session(
    world: World, run: Run, saved: bool, session: Any
) -> None:
    """The tool ran: a later message must not be told that it did not."""
    agent = asking(world, [call("ask", "c1")], OSError("down"), "other")
    state = await approved(await run(agent, "go", session=session), agent, saved)
    with pytest.raises(OSError, match="down"):
        await run(agent, state, session=session)
    assert world.done == ["ask(0)"]
    await run(agent, "never mind", session=session)
    items = await session.get_items()
    assert outputs(items) == {"c1": "ask(0)"}
    assert await acceptable(session)


async def test_a_run_that_failed_is_resumed_on_its_session(world: World, run: Run, session: Any) -> None:
    agent = asking(world, [call("free", "c1")], OSError("down"), "done")
    with pytest.raises(OSError, match="down") as raised:
        await run(agent, "go", session=session)
    state = raised.value.run_data.to_state()
    result = await run(agent, state, session=session)
    assert (result.final_output, world.done) == ("done", ["free(0)"])
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]


async def test_a_stream_that_breaks_off_leaves_no_half_reply(world: World, run: Run, session: Any) -> None:
    broken = ModelStep(["half a tho", call("ask", "c9")], error=OSError("cut"), break_after=6)
    agent = asking(world, [call("free", "c1")], broken, "done")
    with pytest.raises(OSError, match="cut") as raised:
        await run(agent, "go", session=session)
    state = raised.value.run_data.to_state()
    await run(agent, state, session=session)
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]
    assert world.done == ["free(0)"]


def tripping(*words: str) -> Any:
    @output_guardrail
    def guard(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, output in words)

    return guard


async def test_a_withheld_answer_is_not_stored_and_the_tools_result_is(
    world: World, run: Run, saved: bool, session: Any
) -> None:
    agent = asking(world, [call("ask", "c1")], "bad word", "better", output_guardrails=[tripping("bad word")])
    state = await approved(await run(agent, "go", session=session), agent, saved)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, state, session=session)
    assert world.done == ["ask(0)"]
    assert "bad word" not in str(await session.get_items())
    await run(agent, "again", session=session)
    assert outputs(await session.get_items()) == {"c1": "ask(0)"}
    assert await acceptable(session)


async def test_a_withheld_tool_result_leaves_its_call_answered(world: World, run: Run, session: Any) -> None:
    stop: Any = {"tool_use_behavior": "stop_on_first_tool", "output_guardrails": [tripping("ask(0)")]}
    agent = asking(world, [call("ask", "c1"), call("free", "c2")], "fine", **stop)
    state = await approved(await run(agent, "go", session=session), agent)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, state, session=session)
    items = await session.get_items()
    assert outputs(items) == {"c1": "Output withheld by an output guardrail.", "c2": "free(0)"}
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, state, session=session)
    assert await session.get_items() == items
    assert await acceptable(session)
    assert sorted(world.done) == ["ask(0)", "free(0)"]


@pytest.mark.each
@pytest.mark.parametrize("words", ["text", "callable", "none", "empty", "raises"])
async def test_what_stands_in_place_of_a_withheld_result(world: World, run: Run, words: str) -> None:
    """A text, or what a callable makes of who withheld it; where that fails, it is withheld all the same."""
    seen: list[OutputGuardrailBlockedMessageArgs[Any]] = []

    def formatter(args: OutputGuardrailBlockedMessageArgs[Any]) -> Any:
        seen.append(args)
        if words == "raises":
            raise ValueError("bug")
        return {"none": None, "empty": ""}.get(words, f"{args.guardrail_name} of {args.agent.name} said no")

    session = MemorySession("s")
    stop: Any = {"tool_use_behavior": "stop_on_first_tool", "output_guardrails": [tripping("free(0)")]}
    agent = asking(world, [call("free", "c1")], **stop)
    config = RunConfig(output_guardrail_blocked_message="withheld" if words == "text" else formatter)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, "go", session=session, context="ann", run_config=config)
    default = "Output withheld by an output guardrail."
    said = {"text": "withheld", "callable": "guard of a said no"}.get(words, default)
    assert outputs(await session.get_items()) == {"c1": said}
    assert {(args.run_context.context, args.default_message) for args in seen} <= {("ann", default)}
    assert "free(0)" not in str(await session.get_items())


@pytest.mark.parametrize("words", ["", 7, True])
def test_words_that_are_none_are_refused(words: Any) -> None:
    with pytest.raises(UserError, match="output_guardrail_blocked_message must be a string"):
        RunConfig(output_guardrail_blocked_message=words)


async def test_words_may_not_be_waited_for() -> None:
    async def later(_args: Any) -> str:
        return "late"

    with pytest.raises(UserError, match="a synchronous callable"):
        RunConfig(output_guardrail_blocked_message=later)  # type: ignore[arg-type]  # it is wrong on purpose


@pytest.mark.each
async def test_a_stopped_input_is_stored_without_what_the_model_made_of_it(
    world: World, run: Run, session: Any
) -> None:
    @input_guardrail
    async def guard(context: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        await until(lambda: asked(agent))
        await turns_of_the_loop(20)
        return GuardrailFunctionOutput(None, True)

    agent = asking(world, [call("free", "c1")], "never", input_guardrails=[guard])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(agent, "go", session=session)
    assert await held(session) == ["user"]
    assert world.done == []


async def test_an_answer_that_no_guardrail_judged_is_not_stored(
    world: World, run: Run, saved: bool, session: Any
) -> None:
    broken = [True]

    @output_guardrail
    def guard(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        if broken:
            broken.clear()
            raise RuntimeError("classifier down")
        return GuardrailFunctionOutput(None, False)

    agent = asking(world, [call("ask", "c1")], "who knows", output_guardrails=[guard])
    state = await approved(await run(agent, "go", session=session), agent, saved)
    with pytest.raises(RuntimeError, match="classifier down") as raised:
        await run(agent, state, session=session)
    assert await held(session) == ["user", "call c1", "output c1"]
    result = await run(agent, await state_of(raised.value.run_data, agent, saved), session=session)
    assert (result.final_output, world.done) == ("who knows", ["ask(0)"])
    assert await held(session) == ["user", "call c1", "output c1", "assistant"]


@pytest.mark.parametrize("kept", [True, False])
async def test_an_error_handlers_answer_is_stored_if_it_says_so(
    world: World, run: Run, session: Any, kept: bool
) -> None:
    agent = asking(world, [call("free", "c1")])
    handlers = {"max_turns": lambda data: RunErrorHandlerResult("gave up", include_in_history=kept)}
    result = await run(agent, "go", session=session, max_turns=1, error_handlers=handlers)
    assert result.final_output == "gave up"
    assert await held(session) == ["user", "call c1", "output c1", *(["assistant"] if kept else [])]


# A newer message while a run of the session waits.
async def test_a_new_message_supersedes_the_pause_openly(world: World, run: Run, saved: bool, session: Any) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2"), call("ask", "c3")], "as you wish")
    paused = await run(agent, "pay", session=session)
    late = await approved(paused, agent, saved)
    result = await run(agent, "forget it", session=session)
    assert result.final_output == "as you wish"
    items = await session.get_items()
    assert outputs(items) == {"c1": MOVED_ON, "c2": "free(0)", "c3": MOVED_ON}
    assert await acceptable(session)
    request = asked(agent)[-1]
    assert orphan_calls(request.input) == []
    with pytest.raises(Conflict, match="superseded"):
        await run(agent, late, session=session)
    assert world.done == ["free(0)"]
    assert await held(session) == [*shape(request.input), "assistant"]


async def test_a_newer_run_that_pauses_supersedes_just_the_same(world: World, run: Run, session: Any) -> None:
    agent = asking(world, [call("ask", "c1", x=1)], [call("ask", "c2", x=2)], "done")
    first = await run(agent, "pay", session=session)
    second = await run(agent, "pay this instead", session=session)
    with pytest.raises(Conflict):
        await run(agent, await approved(first, agent), session=session)
    result = await run(agent, await approved(second, agent, saved=True), session=session)
    assert (result.final_output, world.done) == ("done", ["ask(2)"])
    assert outputs(await session.get_items()) == {"c1": MOVED_ON, "c2": "ask(2)"}


async def test_the_same_label_again_is_told_apart(world: World, run: Run, session: Any) -> None:
    """Providers repeat call ids: the second run's call of the same id is not the first one's."""
    agent = asking(world, [call("ask", "c1", x=1)], [call("ask", "c1", x=2)], "done")
    first = await run(agent, "pay", session=session)
    second = await run(agent, "pay this instead", session=session)
    with pytest.raises(Conflict):
        await run(agent, await approved(first, agent, saved=True), session=session)
    await run(agent, await approved(second, agent, saved=True), session=session)
    assert world.done == ["ask(2)"]
    assert await acceptable(session)


async def test_a_new_message_can_be_refused(world: World, run: Run, session: Any) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    config = RunConfig(paused_session="refuse")
    paused = await run(agent, "pay", session=session)
    with pytest.raises(Conflict, match="requires a decision"):
        await run(agent, "hello?", session=session, run_config=config)
    assert await held(session) == ["user", "call c1"]
    assert len(asked(agent)) == 1
    result = await run(agent, await approved(paused, agent), session=session, run_config=config)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])


async def test_refusing_lets_a_settled_session_go_on(world: World, run: Run, session: Any) -> None:
    agent = asking(world, "one", "two")
    config = RunConfig(paused_session="refuse")
    await run(agent, "a", session=session, run_config=config)
    assert (await run(agent, "b", session=session, run_config=config)).final_output == "two"


def test_what_nobody_keeps_is_refused_where_it_is_said() -> None:
    with pytest.raises(UserError, match="paused_session must be 'supersede', 'refuse' or 'queue'"):
        RunConfig(paused_session="wait")  # type: ignore[arg-type]  # it is wrong on purpose


# What a run takes from its session.
@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5])
async def test_a_window_on_a_long_history(world: World, run: Run, saved: bool, limit: int) -> None:
    """The window may cut a pair of parallel calls in two; the run resumes all the same."""
    session = Own()
    agent = asking(world, [call("free", "p1"), call("free", "p2")], "one", [call("ask", "c1")], "two")
    await run(agent, "first", session=session)
    config = RunConfig(session_settings=SessionSettings(limit=limit))
    result = await run(agent, "second", session=session, run_config=config)
    sent = asked(agent)[-1].input
    assert len(sent) <= limit + 1
    assert orphan_outputs(sent) == []
    result = await run(agent, await approved(result, agent, saved), session=session, run_config=config)
    assert result.final_output == "two"
    assert shape(asked(agent)[-1].input) == [*shape(sent), "call c1", "output c1"]
    assert (await held(session))[-4:] == ["user", "call c1", "output c1", "assistant"]
    assert world.count("ask(0)") == 1


async def test_a_callback_chooses_what_the_model_sees(world: World, run: Run, saved: bool) -> None:
    session = Own()
    await session.add_items([{"role": "user", "content": f"old {n}"} for n in range(4)])

    async def choose(history: list[Item], new: list[Item]) -> list[Item]:
        assert (len(history), len(new)) == (4, 1)
        return [{"role": "user", "content": "a summary"}, history[-1], *new]

    config = RunConfig(session_input_callback=choose)
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "new", session=session, run_config=config)
    result = await run(agent, await approved(result, agent, saved), session=session, run_config=config)
    said = [item["content"] for item in asked(agent)[-1].input[:3]]
    assert said == ["a summary", "old 3", "new"]
    stored = await session.get_items()
    assert [item.get("content") for item in stored[:4]] == [f"old {n}" for n in range(4)]
    assert shape(stored[-4:]) == ["user", "call c1", "output c1", "assistant"]


async def test_a_saved_state_needs_its_session_again(world: World, run: Run) -> None:
    session = Own()
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", session=session)
    state = await approved(result, agent, saved=True)
    with pytest.raises(UserError, match="session"):
        await run(agent, state)
    with pytest.raises((UserError, Conflict)):
        await run(agent, state, session=MemorySession("another"))
    assert world.done == []
    assert (await run(agent, state, session=session)).final_output == "done"


async def test_a_history_that_was_edited_is_noticed(world: World, run: Run) -> None:
    session = Own()
    await session.add_items([{"role": "user", "content": "old"}, {"role": "assistant", "content": "older"}])
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go", session=session), agent, saved=True)
    session.items[0] = {"role": "user", "content": "forged"}
    with pytest.raises(UserError, match="history"):
        await run(agent, state, session=session)
    assert world.done == []


async def test_a_session_and_a_provider_kept_conversation_exclude_each_other(world: World) -> None:
    agent = asking(world, "hi")
    for kept in ({"conversation_id": "conv"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}):
        with pytest.raises(UserError, match="exclude each other"):
            await plain(agent, "go", session=MemorySession("s"), **kept)


async def test_a_session_that_is_given_at_a_resume_holds_the_whole_run(
    world: World, run: Run, saved: bool, session: Any
) -> None:
    """What came before it is not missing there, and what was there stays, unread by this run."""
    await session.add_items([user("before"), {"role": "assistant", "content": "yes"}])
    agent = asking(world, [call("free", "c0")], [call("ask", "c1"), call("free", "c2")], [call("ask", "c3")], "done")
    state = await state_of(await run(agent, "go"), agent, saved)
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, session=session)
    told = ["user", "assistant", "user", "call c0", "output c0", "call c1", "call c2"]
    assert shape(await session.get_items())[:7] == told
    result = await run(agent, await approved(result, agent, saved), session=session)
    assert shape(await session.get_items())[7:] == ["output c2", "output c1", "call c3", "output c3", "assistant"]
    assert shape(asked(agent)[-1].input)[0] == "user"
    assert len(asked(agent)[-1].input) == 9
    agent.model = model("I remember")
    await run(agent, "and now?", session=session)
    assert len(asked(agent)[-1].input) == 13


async def test_a_session_that_was_given_at_a_resume_is_needed_from_then_on(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], [call("ask", "c2")], "done")
    session = MemorySession("s")
    result = await run(agent, await approved(await run(agent, "go"), agent, True), session=session)
    state = await approved(result, agent, True)
    with pytest.raises(UserError, match="pass the same session="):
        await run(agent, state)
    assert (await run(agent, state, session=session)).final_output == "done"
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "call c2", "output c2", "assistant"]


async def test_a_session_is_refused_where_the_provider_keeps_the_conversation(
    world: World, run: Run, saved: bool
) -> None:
    """A resume that is refused leaves its state as good as before."""
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go", conversation_id="conv"), agent, saved)
    with pytest.raises(UserError, match="exclude each other"):
        await run(agent, state, session=Own())
    assert world.done == []
    assert (await run(agent, state)).final_output == "done"


async def test_a_handoff_within_a_session(world: World, run: Run, saved: bool, session: Any) -> None:
    second = Agent("second", model=model([call("ask", "c2")], "done"), tools=[world.tool("ask", needs_approval=True)])
    first = Agent("first", model=model([call("transfer_to_second", "h")]), handoffs=[second])
    result = await run(first, "go", session=session)
    assert await held(session) == ["user", "call h", "output h", "call c2"]
    result = await run(first, await approved(result, first, saved), session=session)
    assert await held(session) == ["user", "call h", "output h", "call c2", "output c2", "assistant"]
    assert result.last_agent is second


async def test_a_nested_agent_keeps_its_own_session(world: World, run: Run, saved: bool) -> None:
    inside, outside = Own(), Own()
    tools = [world.tool("ask", needs_approval=True)]
    inner = Agent("inner", model=model([call("ask", "i1")], "in one", "in two"), tools=tools)
    steps = ([call("inner", "o1", input="one")], [call("inner", "o2", input="two")], "done")
    outer = Agent("outer", model=model(*steps), tools=[inner.as_tool("inner", "asks", session=inside)])
    result = await run(outer, "go", session=outside)
    assert (await held(inside), await held(outside)) == (["user", "call i1"], ["user", "call o1"])
    result = await run(outer, await approved(result, outer, saved), session=outside)
    assert result.final_output == "done"
    assert await held(inside) == ["user", "call i1", "output i1", "assistant", "user", "assistant"]
    assert await held(outside) == ["user", "call o1", "output o1", "call o2", "output o2", "assistant"]
    sent = asked(inner)[-1].input
    assert shape(sent) == ["user", "call i1", "output i1", "assistant", "user"]


async def test_what_the_session_holds_is_the_runs_input_list(world: World, run: Run, session: Any) -> None:
    agent = asking(world, [call("ask", "c1")], ["thinking", call("free", "c2")], "done")
    result = await run(agent, "go", session=session)
    state = result.to_state()
    state.add_input("and hurry")
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state, session=session)
    assert await session.get_items() == result.to_input_list()


async def test_input_given_as_items_is_stored_as_given(run: Run, session: Any) -> None:
    given = [{"role": "developer", "content": "be kind"}, {"role": "user", "content": "hi"}]
    await run(Agent("a", model=model("hello")), given, session=session)
    items = await session.get_items()
    assert [dict(item) for item in items[:2]] == given


async def test_cancelled_before_its_first_reply_the_session_is_not_broken(world: World) -> None:
    session = Own()
    agent = asking(world, ModelStep("slow", delay=30), "fine")
    stream = Runner.run_streamed(agent, "go", session=session)
    async for _event in stream.stream_events():
        stream.cancel()
    assert await acceptable(session)
    assert (await streamed(agent, "again", session=session)).final_output == "fine"
