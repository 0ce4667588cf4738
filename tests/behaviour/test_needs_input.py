"""Calls that cannot end before somebody answers: the question waits as any call does, its answer reaches the tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    Grant,
    MemoryJournal,
    MemorySession,
    NeedsInput,
    NotPending,
    Policy,
    Preview,
    Resumed,
    Rule,
    RunHooks,
    Runner,
    RunState,
    Text,
    ToolContext,
    ToolMissing,
    UserError,
    function_tool,
)
from keyturn.core.events import CallDecided, CallLost, CallStarted
from keyturn.engine.run.log_cache import forget
from keyturn.engine.views.event_stream import ApprovalRequestedStreamEvent
from keyturn.models.scripted.model import ModelStep
from keyturn.sessions.history import orphan_calls, orphan_outputs
from keyturn.testing import approve_all, drive, reject_all
from tests.playing import (
    Carry,
    Effects,
    Run,
    asked,
    call,
    counted,
    events,
    item_of,
    labels,
    look_tool,
    model,
    pay_tool,
    script,
    shape,
    told,
)
from tests.table import each


class Desk:
    """A tool that books a room once it was told enough: `rounds` answers, or that there will be none."""

    def __init__(self, rounds: int = 1, **options: Any) -> None:
        self.rounds, self.options = rounds, options
        self.booked: list[tuple[Any, ...]] = []
        self.resumed: list[Resumed | None] = []
        self.approvals: list[Any] = []
        self.keys: set[str] = set()

    def tool(self, name: str = "book") -> Any:
        async def book(context: ToolContext[Any], room: str) -> Any:
            """Book a room."""
            resumed: Resumed | None = context.resumed
            self.resumed.append(resumed)
            self.approvals.append(context.approval)
            self.keys.add(context.idempotency_key)
            answers = [] if resumed is None else [*resumed.state, resumed.answers]
            if resumed is not None and resumed.refused:
                return f"not booked: {resumed.message}"
            if len(answers) < self.rounds:
                return NeedsInput({"question": f"number {len(answers) + 1} for {room}?"}, answers)
            self.booked.append((room, *answers))
            return f"booked {room}: {answers}"

        return function_tool(book, name_override=name, **self.options)


def books(label: str, room: str = "blue", name: str = "book") -> Any:
    return call(name, label, room=room)


def clerk(desk: Desk, *replies: Any, more: Any = ()) -> Agent[Any]:
    return Agent("clerk", model=script(*(replies or ([books("c1")],)), "done"), tools=[desk.tool(), *more])


async def answering(run: Run, agent: Agent[Any], state: RunState[Any], *answers: Any) -> Any:
    """Answer the one call that waits, and then what it asks next."""
    result: Any = None
    for answer in answers:
        state.answer(state.get_interruptions()[0], answer)
        result = await run(agent, state)
        state = result.to_state()
    return result


# --------------------------------------------------------------------------------------------------- asked and answered


async def test_a_question_waits_and_its_answer_reaches_the_tool(run: Run, carry: Carry) -> None:
    desk = Desk()
    agent = clerk(desk)
    result = await run(agent, "go")
    [item] = result.interruptions
    assert (item.kind, item.name, item.call_id, item.params) == ("external", "book", "c1", {"room": "blue"})
    assert (item.requests, result.final_output) == ({"question": "number 1 for blue?"}, None)
    assert (desk.booked, desk.resumed) == ([], [None])
    again = await run(agent, await carry(agent, result.to_state()))
    assert (labels(again), len(desk.resumed)) == (["c1"], 1), "a resume without an answer does nothing"
    state = await carry(agent, again.to_state())
    state.answer(item_of(state, "c1"), {"beds": 2}, by="ada")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, told(agent.model)) == ("done", [("c1", "booked blue: [{'beds': 2}]")])
    assert desk.resumed == [None, Resumed([], item.requests, {"beds": 2}, None)]
    assert (desk.booked, len(desk.keys), len(agent.model.calls)) == ([("blue", {"beds": 2})], 1, 2)


async def test_a_tool_may_ask_again_and_again(run: Run, carry: Carry) -> None:
    desk = Desk(rounds=3)
    agent = clerk(desk)
    result = await run(agent, "go")
    seen: list[Any] = []
    for place in range(3):
        state = await carry(agent, result.to_state())
        [item] = state.get_interruptions()
        seen.append((item.requests["question"], item.digest))
        state.answer(item, place)
        result = await run(agent, await carry(agent, state))
    assert (result.final_output, desk.booked) == ("done", [("blue", 0, 1, 2)])
    assert [question for question, _ in seen] == [f"number {number} for blue?" for number in (1, 2, 3)]
    assert len({digest for _, digest in seen}) == 3
    assert len(events(result, CallStarted)) == 4


@pytest.mark.parametrize("message", [None, "ask my boss"])
async def test_who_refuses_to_answer_is_heard_by_the_tool(run: Run, carry: Carry, message: str | None) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.reject(item_of(state, "c1"), rejection_message=message)
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, told(agent.model)) == ("done", [("c1", f"not booked: {message}")])
    assert desk.resumed[1] == Resumed([], {"question": "number 1 for blue?"}, None, message, refused=True)


async def test_null_is_an_answer_and_no_refusal(run: Run, carry: Carry) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.answer(item_of(state, "c1"), None)
    await run(agent, await carry(agent, state))
    assert desk.booked == [("blue", None)]


async def test_another_object_in_another_process_goes_on(run: Run) -> None:
    first = Desk(rounds=2)
    text = (await run(clerk(first), "go")).to_state().to_string()
    for answer in ("one", "two"):
        forget()
        desk = Desk(rounds=2)
        agent = clerk(desk)
        state = await RunState.from_string(agent, text)
        state.answer(item_of(state, "c1"), answer)
        state = await RunState.from_string(agent, state.to_string())
        result = await run(agent, state)
        text = result.to_state().to_string()
    assert (result.final_output, desk.booked, first.booked) == ("done", [("blue", "one", "two")], [])


async def test_siblings_go_on_and_the_model_waits_for_all(run: Run, carry: Carry, effects: Effects) -> None:
    desk = Desk()
    more = [pay_tool(effects), look_tool(effects)]
    agent = clerk(desk, [books("c1"), call("pay", "c2", to="ada"), call("look", "c3"), books("c4", "red")], more=more)
    result = await run(agent, "go")
    assert (labels(result), effects) == (["c1", "c2", "c4"], [("look", "sky")])
    state = await carry(agent, result.to_state())
    state.answer(item_of(state, "c4"), "last")
    state.approve(item_of(state, "c2"))
    result = await run(agent, await carry(agent, state))
    assert (labels(result), len(agent.model.calls)) == (["c1"], 1)
    state = await carry(agent, result.to_state())
    state.answer(item_of(state, "c1"), "first")
    result = await run(agent, await carry(agent, state))
    assert [label for label, _ in told(agent.model)] == ["c1", "c2", "c3", "c4"]
    assert desk.booked == [("red", "last"), ("blue", "first")]


async def test_a_question_of_a_nested_agent_is_asked_on_the_one_run(run: Run, carry: Carry) -> None:
    desk = Desk(rounds=2)
    inner = clerk(desk)
    outer = Agent(
        "outer", model=script([call("inner", "o1", input="x")], "all done"), tools=[inner.as_tool("inner", "x")]
    )
    result = await run(outer, "go")
    for answer in ("one", "two"):
        state = await carry(outer, result.to_state())
        [item] = state.get_interruptions()
        assert (item.agent.name, item.kind) == ("clerk", "external")
        state.answer(item, answer)
        result = await run(outer, await carry(outer, state))
    assert (result.final_output, desk.booked) == ("all done", [("blue", "one", "two")])


async def test_who_listens_is_told_of_each_question() -> None:
    desk = Desk(rounds=2)
    agent = clerk(desk)
    given: Any = "go"
    questions: list[Any] = []
    for answer in ("one", "two"):
        stream = Runner.run_streamed(agent, given)
        seen = [event async for event in stream.stream_events()]
        [told_of] = [event for event in seen if isinstance(event, ApprovalRequestedStreamEvent)]
        assert seen[-1] is told_of
        questions.append(told_of.item.requests["question"])
        given = stream.to_state()
        given.answer(item_of(given, "c1"), answer)
    assert questions == ["number 1 for blue?", "number 2 for blue?"]
    assert (await Runner.run(agent, given)).final_output == "done"


async def test_people_see_what_the_tool_shows_them(run: Run, carry: Carry) -> None:
    async def ask(context: ToolContext[Any]) -> Any:
        """Ask."""
        return (
            context.resumed.answers if context.resumed else NeedsInput("which?", preview=Preview((Text("Which one?"),)))
        )

    agent = Agent("a", model=script([call("ask", "c1")], "done"), tools=[function_tool(ask)])
    state = await carry(agent, (await run(agent, "go")).to_state())
    assert item_of(state, "c1").preview == Preview((Text("Which one?"),))
    plain = clerk(Desk())
    [item] = (await carry(plain, (await run(plain, "go")).to_state())).get_interruptions()
    assert [block.value for block in item.preview.blocks] == [{"question": "number 1 for blue?"}]


# ----------------------------------------------------------------------------------------------------- who may say what


async def test_a_question_is_not_approved(run: Run, carry: Carry) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go")).to_state())
    [item] = state.get_interruptions()
    for approve in (
        lambda: state.approve(item),
        lambda: state.approve(item, always_approve=True),
        lambda: state.approve(item, grant=Grant()),
        lambda: state.approve(item, edit={"room": "red"}),
        lambda: approve_all(state),
    ):
        with pytest.raises(NotPending, match=r"answer\(\)"):
            approve()
    with pytest.raises(NotPending):
        state.resolve(item, "ran")
    with pytest.raises(UserError, match=r"answer\(\)"):
        state.context.approve_tool(item)
    assert (labels(await run(agent, state)), len(desk.resumed)) == (["c1"], 1)


async def test_the_context_can_refuse_it(run: Run) -> None:
    desk = Desk()
    agent = clerk(desk)
    result = await run(agent, "go")
    result.context_wrapper.reject_tool(result.interruptions[0], rejection_message="no")
    await run(agent, result.to_state())
    assert told(agent.model) == [("c1", "not booked: no")]


async def test_a_grant_lets_later_calls_run_and_answers_none_of_their_questions(run: Run, carry: Carry) -> None:
    desk = Desk(needs_approval=True)
    agent = clerk(desk, [books("c1")], [books("c2", "red")])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), always_approve=True)
    result = await run(agent, state)
    for label, answer in (("c1", "one"), ("c2", "two")):
        assert [(item.call_id, item.kind) for item in result.interruptions] == [(label, "external")]
        state = await carry(agent, result.to_state())
        state.answer(item_of(state, label), answer)
        result = await run(agent, state)
    assert desk.booked == [("blue", "one"), ("red", "two")]


async def test_an_old_item_answers_no_new_question(run: Run) -> None:
    desk = Desk(rounds=2)
    agent = clerk(desk)
    state = (await run(agent, "go")).to_state()
    [old] = state.get_interruptions()
    result = await answering(run, agent, state, "one")
    state = result.to_state()
    with pytest.raises(NotPending):
        state.answer(old, "one")
    assert desk.booked == []


async def test_the_first_of_two_answers_counts_and_the_second_learns_of_it(
    run: Run, effects: Effects, another_process: Callable[[], None]
) -> None:
    desk, journal = Desk(rounds=2), MemoryJournal()
    agent = clerk(desk, [books("c1"), call("pay", "c2", to="ada")], more=[pay_tool(effects)])
    run_id = (await run(agent, "go", journal=journal)).run_id
    first, *others = [await RunState.load(journal, run_id, agent) for _ in range(3)]
    first.answer(item_of(first, "c1"), "ada's", by="ada")
    assert labels(await run(agent, first, journal=journal)) == ["c1", "c2"]
    for other, said in zip(others, ("bob's", "ada's"), strict=True):
        another_process()  # another process
        other.answer(item_of(other, "c1"), said, by="bob")
        with pytest.raises(Conflict, match="no longer the one that was shown"):
            await run(agent, other, journal=journal)
    assert [answer for resumed in desk.resumed if resumed for answer in [resumed.answers]] == ["ada's"]


async def test_a_policy_is_asked_again_before_the_tool_goes_on(run: Run, carry: Carry) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go", policy=Policy(Rule("allow")))).to_state())
    state.answer(item_of(state, "c1"), "one")
    result = await run(agent, state, policy=Policy(Rule("deny", reason="closed today")))
    assert (told(agent.model), desk.booked) == ([("c1", "closed today")], [])
    assert result.final_output == "done"


# ---------------------------------------------------------------------------------------------- approved, then answered


async def test_an_approval_stands_beside_the_answers(run: Run, carry: Carry) -> None:
    desk = Desk(rounds=2, needs_approval=True)
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"), edit={"room": "red"}, by="ada", note="the blue one leaks")
    result = await run(agent, await carry(agent, state))
    for answer in ("one", "two"):
        assert result.context_wrapper.is_tool_approved("book", "c1") is True
        state = await carry(agent, result.to_state())
        state.answer(item_of(state, "c1"), answer, by="bob")
        result = await run(agent, await carry(agent, state))
    assert desk.booked == [("red", "one", "two")]
    assert [(made.by, made.verdict, made.note) for made in desk.approvals] == [
        ("ada", "edit", "the blue one leaks")
    ] * 3
    assert result.context_wrapper.is_tool_approved("book", "c1") is True
    [(_label, output)] = told(agent.model)
    assert "A person changed the arguments" in output
    assert [event.decision.verdict for event in events(result, CallDecided)] == ["edit", "answer", "answer"]


async def test_a_refused_question_leaves_its_call_approved(run: Run) -> None:
    desk = Desk(needs_approval=True)
    agent = clerk(desk)
    result = await run(agent, approve_all(await run(agent, "go")))
    result = await run(agent, reject_all(result, message="no"))
    wrapper = result.context_wrapper
    assert (wrapper.is_tool_approved("book", "c1"), wrapper.get_rejection_message("book", "c1")) == (True, None)


async def test_who_answers_a_call_that_nobody_approved_has_not_approved_it(run: Run, carry: Carry) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go")).to_state())
    result = await answering(run, agent, state, "one")
    assert result.context_wrapper.is_tool_approved("book", "c1") is None
    assert desk.approvals == [None, None]


# ------------------------------------------------------------------------------------------------------ what goes wrong


@each("wrong", [object(), float("nan"), "\ud800", {1: "x"}, (1, 2)], ids=lambda wrong: type(wrong).__name__)
@each("where", ["requests", "state"])
async def test_a_question_that_no_log_holds_is_a_failed_result(run: Run, wrong: Any, where: str) -> None:
    async def ask() -> Any:
        """Ask."""
        return NeedsInput(**{"requests": "which?", "state": None, where: wrong})

    agent = Agent("a", model=script([call("ask", "c1")], "done"), tools=[function_tool(ask)])
    result = await run(agent, "go")
    assert (result.final_output, result.interruptions) == ("done", [])
    [(_label, output)] = told(agent.model)
    assert "could not be recorded" in output
    assert result.to_state().to_string()


@pytest.mark.each
@pytest.mark.parametrize(
    "wrong", ["look", Preview((Text("\ud800"),)), Preview((Text("x"),), basis={"\udc00": ""})], ids=str
)
async def test_a_preview_that_no_log_holds_is_a_failed_result(run: Run, wrong: Any) -> None:
    async def ask() -> Any:
        """Ask."""
        return NeedsInput("which?", preview=wrong)

    agent = Agent("a", model=script([call("ask", "c1")], "done"), tools=[function_tool(ask)])
    result = await run(agent, "go")
    assert (result.final_output, result.interruptions) == ("done", [])


async def test_an_answer_without_its_tool_is_kept_until_the_tool_is_back(run: Run) -> None:
    desk = Desk()
    agent = clerk(desk)
    state = (await run(agent, "go")).to_state()
    state.answer(item_of(state, "c1"), "one")
    bare = Agent("clerk", model=agent.model, tools=[])
    state = await RunState.from_string(bare, state.to_string())
    with pytest.raises(ToolMissing, match="book"):
        await run(bare, state)
    state = await RunState.from_string(agent, state.to_string())
    assert (await run(agent, state)).final_output == "done"
    assert desk.booked == [("blue", "one")]


async def test_a_tool_that_changed_after_it_was_started_is_in_doubt(run: Run) -> None:
    """It may have had its effect before it asked: nobody starts it anew as if it had not."""
    desk = Desk()
    agent = clerk(desk)
    state = (await run(agent, "go")).to_state()
    state.answer(item_of(state, "c1"), "one")
    agent.tools[0].description = "Books another hotel now."
    result = await run(agent, state)
    [item] = result.interruptions
    assert (item.kind, len(desk.resumed)) == ("in_doubt", 1)
    assert "started before" in item.reason
    state = result.to_state()
    state.resolve(item, "did_not_run")
    await run(agent, state)
    assert desk.resumed == [None], "what was said to the other tool is not said to this one"


async def test_a_process_that_ends_between_the_rounds_leaves_no_doubt(run: Run) -> None:
    desk, journal = Desk(), MemoryJournal()
    agent = clerk(desk)
    run_id = (await run(agent, "go", journal=journal)).run_id
    state = await RunState.load(journal, run_id, clerk(Desk()))
    assert [(item.kind, item.requests) for item in state.get_interruptions()] == [
        ("external", {"question": "number 1 for blue?"})
    ]


@pytest.mark.parametrize("word", ["retry", "ran", "did_not_run"])
async def test_a_call_stopped_after_its_answer_is_in_doubt_and_keeps_the_answer(word: Any, carry: Carry) -> None:
    entered, seen, slow = asyncio.Event(), list[Any](), [False, True]

    async def book(context: ToolContext[Any]) -> Any:
        """Book."""
        if context.resumed is None:
            return NeedsInput("which?")
        seen.append(context.resumed.answers)
        if slow.pop():
            entered.set()
            await asyncio.Event().wait()
        return "booked"

    agent = Agent("a", model=script([call("book", "c1")], "done"), tools=[function_tool(book, needs_approval=True)])
    state = approve_all(await Runner.run(agent, "go"))
    state = (await Runner.run(agent, state)).to_state()
    state.answer(item_of(state, "c1"), "blue")
    job = asyncio.ensure_future(Runner.run(agent, state))
    await entered.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    state = await carry(agent, state)
    [item] = state.get_interruptions()
    assert (item.kind, len(events(state, CallLost))) == ("in_doubt", 1)
    state.resolve(item, word)
    result = await Runner.run(agent, await carry(agent, state))
    assert result.final_output == "done"
    assert seen == ["blue", "blue"] if word == "retry" else ["blue"]


# ------------------------------------------------------------------------------------ beside it: sessions, usage, hooks


async def test_a_session_holds_the_call_once_and_its_result_when_there_is_one(run: Run, carry: Carry) -> None:
    desk, session = Desk(rounds=2), MemorySession("s")
    agent = clerk(desk)
    result = await run(agent, "go", session=session)
    for answer in ("one", "two"):
        assert shape(await session.get_items()) == ["user", "call c1"]
        state = await carry(agent, result.to_state())
        state.answer(item_of(state, "c1"), answer)
        result = await run(agent, state, session=session)
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "assistant"]


async def test_a_newer_message_supersedes_the_question(run: Run, carry: Carry) -> None:
    desk, session = Desk(), MemorySession("s")
    agent = clerk(desk)
    state = await carry(agent, (await run(agent, "go", session=session)).to_state())
    state.answer(item_of(state, "c1"), "one")
    await run(Agent("other", model=model("hello")), "something else", session=session)
    items = await session.get_items()
    assert orphan_calls(items) == orphan_outputs(items) == []
    with pytest.raises(Conflict, match="superseded"):
        await run(agent, state, session=session)
    assert desk.booked == []


async def test_questions_cost_no_turn_and_no_request(run: Run, carry: Carry) -> None:
    desk = Desk(rounds=3)
    steps = [ModelStep(output=[books("c1")], usage=counted(1)), ModelStep(output="done", usage=counted(2))]
    agent = Agent("a", model=model(*steps), tools=[desk.tool()])
    result = await run(agent, "go", max_turns=2)
    for answer in ("one", "two", "three"):
        state = await carry(agent, result.to_state())
        state.answer(item_of(state, "c1"), answer)
        result = await run(agent, state)
    assert (result.final_output, result.usage.requests, result.usage.total_tokens) == ("done", 2, 33)


async def test_hooks_hear_of_the_end_once(run: Run) -> None:
    heard: list[str] = []

    class Hooks(RunHooks[Any]):
        async def on_tool_start(self, *_args: Any, **_more: Any) -> None:
            heard.append("start")

        async def on_tool_end(self, *_args: Any, **_more: Any) -> None:
            heard.append("end")

    desk = Desk()
    agent = clerk(desk)
    state = (await run(agent, "go", hooks=Hooks())).to_state()
    state.answer(item_of(state, "c1"), "one")
    await run(agent, state, hooks=Hooks())
    assert heard == ["start", "start", "end"]


async def test_a_tool_may_end_the_run_with_what_it_was_answered(run: Run) -> None:
    async def ask(context: ToolContext[Any]) -> Any:
        """Ask."""
        return context.resumed.answers if context.resumed else NeedsInput("which?")

    agent = Agent(
        "a", model=script([call("ask", "c1")]), tools=[function_tool(ask)], tool_use_behavior="stop_on_first_tool"
    )
    state = (await run(agent, "go")).to_state()
    assert (await answering(run, agent, state, "blue")).final_output == "blue"


async def test_a_run_with_questions_is_driven_by_answers(run: Run) -> None:
    desk = Desk(rounds=2)

    def say(result: Any) -> Any:
        state = result.to_state()
        for item in state.get_interruptions():
            state.answer(item, len(desk.resumed))
        return state

    assert (await drive(clerk(desk), "go", decide=say, through_text=True)).final_output == "done"
    assert desk.booked == [("blue", 1, 2)]


async def test_a_need_may_be_raised_as_well_as_returned(run: Run, saved: bool) -> None:
    @function_tool
    def pay(context: ToolContext[Any], amount: int) -> str:
        if context.resumed is None:
            raise NeedsInput({"question": "Which account?"}, state={"amount": amount})
        return f"{context.resumed.state['amount']} from {context.resumed.answers}"

    agent = Agent("a", model=model([call("pay", "c1", amount=3)], "done"), tools=[pay])
    state = (await run(agent, "go")).to_state()
    [item] = state.get_interruptions()
    assert (item.kind, item.requests) == ("external", {"question": "Which account?"})
    state.answer(item, "main")
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    assert (await run(agent, state)).final_output == "done"
    assert asked(agent)[-1].input[-1]["output"] == "3 from main"
