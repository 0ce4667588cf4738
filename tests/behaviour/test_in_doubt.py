"""What was started and never finished, and what is never an approval."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    MemoryJournal,
    NotPending,
    Runner,
    RunState,
    ToolContext,
    ToolMissing,
    function_tool,
)
from keyturn.core.events import CallDecided, CallLost, CallStarted
from tests.playing import (
    Carry,
    Clock,
    Effects,
    Run,
    call,
    cut_off,
    events,
    fresh,
    item_of,
    labels,
    look_tool,
    pay_tool,
    read,
    script,
    streamed,
    told,
)


class Slow:
    """A tool that is entered, acts, and does not come back before it is let go."""

    def __init__(self, effects: Effects) -> None:
        self.effects = effects
        self.entered = asyncio.Event()
        self.free = asyncio.Event()
        self.keys: list[str] = []

    def tool(self, **options: Any) -> Any:
        async def transfer(context: ToolContext[Any], to: str) -> str:
            """Transfer money."""
            self.keys.append(context.idempotency_key)
            self.effects.append(to)
            self.entered.set()
            await self.free.wait()
            return f"transferred to {to}"

        return function_tool(transfer, **{"needs_approval": True, **options})


def transferring(slow: Slow, *more: Any, **options: Any) -> Agent[Any]:
    reply = [call("transfer", "c1", to="ada"), *more]
    return Agent("a", model=script(reply, "done"), tools=[slow.tool(**options)])


async def interrupted(run: Run, agent: Agent[Any], slow: Slow, state: RunState[Any]) -> None:
    """Cancel a run while its tool is inside."""
    await cut_off(agent, state, slow.entered.wait, run is streamed)
    slow.free.set()


async def in_doubt(run: Run, agent: Agent[Any], slow: Slow) -> RunState[Any]:
    """A run whose approved call was cancelled in the middle."""
    result = await run(agent, "go")
    state = result.to_state()
    for item in state.get_interruptions():
        if item.tool_name == "transfer":
            state.approve(item, by="ann")
    await interrupted(run, agent, slow, state)
    return state


# --------------------------------------------------------------------------------------------- 29: in doubt


async def test_a_call_that_was_cancelled_in_the_middle_is_in_doubt(run: Run, carry: Carry, effects: Effects) -> None:
    """A request of kind `in_doubt`; resuming runs nothing and asks no model."""
    slow = Slow(effects)
    agent = transferring(slow)
    state = await in_doubt(run, agent, slow)
    state = await carry(agent, state)
    [item] = state.get_interruptions()
    assert (item.kind, item.call_id, item.params) == ("in_doubt", "c1", {"to": "ada"})
    assert item.reason
    for _ in range(2):
        result = await run(agent, state)
        assert [one.kind for one in result.interruptions] == ["in_doubt"]
        state = await carry(agent, result.to_state())
    assert (effects, len(agent.model.calls), len(events(state, CallStarted))) == (["ada"], 1, 1)


@pytest.mark.parametrize(
    ("outcome", "output", "expected"),
    [
        ("ran", "receipt 7", "receipt 7"),
        ("ran", None, "The tool ran; its output was lost."),
        ("ran", {"receipt": 7}, "{'receipt': 7}"),
        ("did_not_run", None, "The tool did not run."),
    ],
    ids=["ran with output", "ran", "ran with a value", "did not run"],
)
async def test_a_person_says_what_became_of_it(
    run: Run, carry: Carry, effects: Effects, outcome: Any, output: Any, expected: str
) -> None:
    """The tool is not touched again, the model reads the person's word, and who said so is recorded."""
    slow = Slow(effects)
    agent = transferring(slow)
    state = await carry(agent, await in_doubt(run, agent, slow))
    state.resolve(state.get_interruptions()[0], outcome, output, by="bob", note="looked it up")
    result = await run(agent, await carry(agent, state))
    assert (result.final_output, effects) == ("done", ["ada"])
    [(label, text)] = told(agent.model)
    assert (label, text) == ("c1", expected)
    assert [event.decision.by for event in events(result, CallDecided)] == ["ann", "bob"]


async def test_a_person_lets_it_be_tried_again(run: Run, carry: Carry, effects: Effects) -> None:
    """Once more, under the same idempotency key."""
    slow = Slow(effects)
    agent = transferring(slow)
    state = await carry(agent, await in_doubt(run, agent, slow))
    state.resolve(state.get_interruptions()[0], "retry")
    result = await run(agent, state)
    assert (result.final_output, effects, len(set(slow.keys))) == ("done", ["ada", "ada"], 1)
    assert told(agent.model) == [("c1", "transferred to ada")]


async def test_a_retry_can_be_in_doubt_again(run: Run, carry: Carry, effects: Effects) -> None:
    """Each time a person's word is needed anew; an old decision is not reused."""
    slow, clock = Slow(effects), Clock()
    agent = transferring(slow)
    state = await in_doubt(run, agent, slow)
    for times in (2, 3):
        clock.pass_ms(1)
        state = await carry(agent, state)
        state.live.clock = clock
        slow.entered.clear()
        slow.free.clear()
        state.resolve(state.get_interruptions()[0], "retry", by="ann")
        await interrupted(run, agent, slow, state)
        assert ([item.kind for item in state.get_interruptions()], len(effects)) == (["in_doubt"], times)
    result = await run(agent, await carry(agent, state))
    assert ([item.kind for item in result.interruptions], len(effects)) == (["in_doubt"], 3)
    state = result.to_state()
    state.resolve(state.get_interruptions()[0], "ran")
    assert (await run(agent, state)).final_output == "done"


async def test_the_verbs_of_approval_do_not_decide_a_doubt(run: Run, carry: Carry, effects: Effects) -> None:
    slow = Slow(effects)
    agent = transferring(slow)
    state = await carry(agent, await in_doubt(run, agent, slow))
    [item] = state.get_interruptions()
    for decide in (state.approve, state.reject, lambda one: state.answer(one, "x")):
        with pytest.raises(NotPending, match="resolve"):
            decide(item)
    with pytest.raises(NotPending):
        state.approve(item, always_approve=True)
    assert (state.undelivered.decisions, state.grants) == ({}, [])


async def test_a_grant_does_not_decide_a_doubt(run: Run, carry: Carry, effects: Effects) -> None:
    """ "always" means calls to come; what became of this one nobody knows."""
    slow = Slow(effects)
    agent = transferring(slow, call("transfer", "c2", to="bob"))
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    await interrupted(run, agent, slow, state)
    state = await carry(agent, state)
    assert {item.call_id: item.kind for item in state.get_interruptions()} == {"c1": "in_doubt", "c2": "approval"}
    state.approve(item_of(state, "c2"), always_approve=True)
    result = await run(agent, state)
    assert ([item.kind for item in result.interruptions], effects) == (["in_doubt"], ["ada", "bob"])


async def test_siblings_of_a_doubt_are_decided_as_ever(run: Run, carry: Carry, effects: Effects) -> None:
    """And the model is not asked before the doubt is resolved too."""
    slow = Slow(effects)
    agent = transferring(slow, call("pay", "c2", to="bob"), call("look", "c3"))
    agent.tools += [pay_tool(effects), look_tool(effects)]
    state = await carry(agent, await in_doubt(run, agent, slow))
    assert labels(state) == ["c1", "c2"]
    state.approve(item_of(state, "c2"))
    result = await run(agent, state)
    assert (labels(result), len(agent.model.calls)) == (["c1"], 1)
    state = await carry(agent, result.to_state())
    state.resolve(item_of(state, "c1"), "did_not_run")
    result = await run(agent, state)
    assert [label for label, _ in told(agent.model)] == ["c1", "c2", "c3"]
    assert effects.count(("pay", "bob", 5)) == effects.count(("look", "sky")) == effects.count("ada") == 1


async def test_an_edited_call_in_doubt_stays_edited_and_the_model_is_told(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """Whether it is tried again or said to have run."""
    for outcome in ("retry", "ran"):
        effects.clear()
        slow = Slow(effects)
        agent = transferring(slow)
        state = (await run(agent, "go")).to_state()
        state.approve(item_of(state, "c1"), edit={"to": "eve"})
        await interrupted(run, agent, slow, state)
        state = await carry(agent, state)
        [item] = state.get_interruptions()
        assert item.params == {"to": "eve"}
        state.resolve(item, outcome)  # type: ignore[arg-type]  # of a tuple of texts
        await run(agent, state)
        assert effects == ["eve"] * (2 if outcome == "retry" else 1)
        assert '{"to":"eve"}' in told(agent.model)[0][1]


@pytest.mark.parametrize("kind", ["idempotent", "read_only"])
async def test_an_idempotent_tool_is_simply_tried_again(run: Run, carry: Carry, effects: Effects, kind: str) -> None:
    """Under the same key, without asking anybody; both starts are recorded."""
    slow = Slow(effects)
    agent = transferring(slow, **{kind: True})
    state = await carry(agent, await in_doubt(run, agent, slow))
    assert state.get_interruptions() == []
    result = await run(agent, state)
    assert (result.final_output, effects, len(set(slow.keys))) == ("done", ["ada", "ada"], 1)
    assert (len(events(result, CallStarted)), len(events(result, CallLost))) == (2, 1)


ANSWERS: dict[str, tuple[Any, str, int]] = {
    "it ran": (True, "The tool ran; its output was lost.", 1),
    "its output": ("receipt 7", "receipt 7", 1),
    "it did not": (False, "transferred to ada", 2),
}


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("answer", "output", "times"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_a_probe_resolves_the_doubt_without_a_person(
    run: Run, carry: Carry, effects: Effects, kind: str, answer: Any, output: str, times: int
) -> None:
    """It is asked when the run is taken up, with the call's own key."""
    slow = Slow(effects)
    probed: list[str] = []

    def check(context: ToolContext[Any]) -> Any:
        probed.append(context.idempotency_key)
        assert context.tool_arguments == '{"to":"ada"}'
        return answer

    async def check_async(context: ToolContext[Any]) -> Any:
        return check(context)

    agent = transferring(slow, check=check if kind == "sync" else check_async)
    state = await carry(agent, await in_doubt(run, agent, slow))
    result = await run(agent, state)
    assert (result.final_output, len(effects), told(agent.model)) == ("done", times, [("c1", output)])
    assert probed == slow.keys[:1]
    assert len(set(slow.keys)) == 1
    assert "probe" in [event.decision.by for event in events(result, CallDecided)]


class Unclear:
    """What a library has in the place of False."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize(
    "answer",
    [None, OSError("no line"), Unclear(), NotImplemented, float("nan")],
    ids=["cannot tell", "raises", "neither True nor False", "not implemented", "no JSON"],
)
async def test_a_probe_that_cannot_tell_leaves_the_doubt_to_a_person(
    run: Run, carry: Carry, effects: Effects, answer: Any
) -> None:
    slow = Slow(effects)

    def check(_context: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = transferring(slow, check=check)
    state = await carry(agent, await in_doubt(run, agent, slow))
    result = await run(agent, state)
    assert ([item.kind for item in result.interruptions], effects) == (["in_doubt"], ["ada"])
    state = await carry(agent, result.to_state())
    state.resolve(state.get_interruptions()[0], "ran", "receipt 7")
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", ["ada"])


CRASHED: dict[str, tuple[dict[str, Any], Any, int]] = {
    "nothing said": ({}, None, 1),
    "idempotent": ({"idempotent": True}, "done", 2),
    "its probe says it ran": ({"check": lambda _context: True}, "done", 1),
    "its probe says it did not": ({"check": lambda _context: False}, "done", 2),
    "its probe cannot tell": ({"check": lambda _context: None}, None, 1),
}


@pytest.mark.each
@pytest.mark.parametrize(("options", "output", "times"), CRASHED.values(), ids=CRASHED.keys())
async def test_a_process_that_died_inside_a_tool_leaves_the_call_in_doubt(
    run: Run, effects: Effects, another_process: Callable[[], None], options: Any, output: Any, times: int
) -> None:
    """The journal ends with the intent. Another process takes the run up from there."""
    slow, journal = Slow(effects), MemoryJournal()
    slow.free.set()
    agent = transferring(slow, **options)
    state = (await run(agent, "go", journal=journal)).to_state()
    state.approve(item_of(state, "c1"))
    await run(agent, state)
    lines = await journal.read(state.run_id)
    intent = next(place for place, line in enumerate(lines) if b"CallStarted" in line)
    rest = MemoryJournal()
    await rest.append(state.run_id, 0, lines[: intent + 1])
    another_process()
    result = await run(agent, await RunState.load(rest, state.run_id, agent))
    assert (result.final_output, len(effects), len(set(slow.keys))) == (output, times, 1)
    assert [item.kind for item in result.interruptions] == ([] if output else ["in_doubt"])


async def test_a_persons_word_in_hand_beats_the_probe(run: Run, carry: Carry, effects: Effects) -> None:
    """Whoever has decided is not overruled by a machine that is asked later."""
    slow = Slow(effects)
    agent = transferring(slow, check=lambda _context: False)
    state = await carry(agent, await in_doubt(run, agent, slow))
    if state.get_interruptions():
        state.resolve(state.get_interruptions()[0], "ran", "receipt 7")
        result = await run(agent, state)
        assert (result.final_output, effects, told(agent.model)) == ("done", ["ada"], [("c1", "receipt 7")])


async def test_a_sync_tool_that_cannot_be_stopped_is_in_doubt(run: Run, carry: Carry, effects: Effects) -> None:
    """Its thread goes on; whatever it does, it is started once."""
    entered, free, left = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def transfer(to: str) -> str:
        """Transfer money."""
        loop.call_soon_threadsafe(entered.set)
        free.wait(10)
        effects.append(to)
        left.set()
        return "transferred"

    tool = function_tool(transfer, needs_approval=True)
    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[tool])
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    await cut_off(agent, state, entered.wait, run is streamed)
    assert [item.kind for item in state.get_interruptions()] == ["in_doubt"]
    free.set()
    await asyncio.to_thread(left.wait, 10)
    state = await carry(agent, state)
    state.resolve(state.get_interruptions()[0], "ran", "transferred")
    result = await run(agent, state)
    assert (result.final_output, effects, len(events(result, CallStarted))) == ("done", ["ada"], 1)


async def test_a_call_of_a_nested_agent_in_doubt_surfaces_on_the_run(run: Run, carry: Carry, effects: Effects) -> None:
    """And its sibling frames and the delegation itself are not in doubt."""
    slow = Slow(effects)
    inner = Agent("inner", model=script([call("transfer", "i1", to="ada")], "inner is done"), tools=[slow.tool()])
    ask = inner.as_tool("ask_inner", "Asks.")
    agent = Agent("a", model=script([call("ask_inner", "n1", input="x")], "done"), tools=[ask])
    state = await carry(agent, await in_doubt(run, agent, slow))
    assert [(item.call_id, item.kind) for item in state.get_interruptions()] == [("i1", "in_doubt")]
    state.resolve(state.get_interruptions()[0], "ran", "receipt 7")
    result = await run(agent, state)
    assert (result.final_output, effects, told(inner.model)) == ("done", ["ada"], [("i1", "receipt 7")])
    assert told(agent.model) == [("n1", "inner is done")]


async def test_a_doubt_survives_without_its_tool_and_can_be_resolved(run: Run, effects: Effects) -> None:
    """To say that it ran needs no tool; to try again does, and then nothing is lost."""
    slow = Slow(effects)
    agent = transferring(slow)
    state = await in_doubt(run, agent, slow)
    bare = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"))
    text = state.to_string()
    loaded = await RunState.from_string(bare, text)
    assert [item.kind for item in loaded.get_interruptions()] == ["in_doubt"]
    loaded.resolve(loaded.get_interruptions()[0], "ran", "receipt 7")
    result = await run(bare, loaded)
    assert (result.final_output, effects) == ("done", ["ada"])


async def test_a_retry_without_its_tool_is_a_typed_error_and_nothing_is_lost(run: Run, effects: Effects) -> None:
    slow = Slow(effects)
    agent = transferring(slow)
    state = await in_doubt(run, agent, slow)
    bare = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"))
    state.resolve(state.get_interruptions()[0], "retry")
    for _ in range(2):
        with pytest.raises(ToolMissing):
            await run(bare, state)
    assert effects == ["ada"]
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", ["ada", "ada"])


async def test_an_approval_on_an_old_copy_does_not_resolve_a_doubt(run: Run, effects: Effects) -> None:
    slow = Slow(effects)
    agent = transferring(slow)
    result = await run(agent, "go")
    old = result.to_state()
    old.approve(item_of(old, "c1"))
    state = result.to_state()
    state.approve(item_of(state, "c1"))
    await interrupted(run, agent, slow, state)
    with pytest.raises(Conflict):
        await run(agent, old)
    assert effects == ["ada"]


# ---------------------------------------------------------------------------------- 30: never an approval


async def test_cancelling_while_a_callable_thinks_approves_nothing(run: Run, carry: Carry, effects: Effects) -> None:
    """The question is asked again at the next resume, since it was never answered."""
    thinking, asked = asyncio.Event(), [0]

    async def gate(_context: Any, _params: Any, _label: str) -> bool:
        asked[0] += 1
        if asked[0] == 1:
            thinking.set()
            await asyncio.Event().wait()
        return True

    agent = Agent(
        "a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects, needs_approval=gate)]
    )
    state = fresh(agent)
    await cut_off(agent, state, thinking.wait, run is streamed)
    assert (state.get_interruptions(), effects) == ([], [])
    result = await run(agent, await carry(agent, state))
    assert (labels(result), effects, asked) == (["c1"], [], [2])


async def test_cancelling_while_the_policy_looks_at_a_decision_approves_nothing(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """The decision stands, the policy is asked at the next resume, and may deny."""
    thinking, asked = asyncio.Event(), [0]

    async def policy(_view: Any, _context: Any) -> Any:
        asked[0] += 1
        if asked[0] == 2:
            thinking.set()
            await asyncio.Event().wait()
        return "ask" if asked[0] == 1 else "deny"

    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
    state = (await run(agent, "go", policy=policy)).to_state()
    state.approve(item_of(state, "c1"))
    await cut_off(agent, state, thinking.wait, run is streamed, policy=policy)
    result = await run(agent, await carry(agent, state), policy=policy)
    assert (result.final_output, effects, asked) == ("done", [], [3])


async def test_a_timeout_around_a_run_approves_nothing(carry: Carry, effects: Effects) -> None:
    """A timeout of the caller's, while a slow sibling is at work."""
    slow = Slow(effects)
    agent = transferring(slow, call("pay", "c2", to="bob"), needs_approval=False, idempotent=True)
    agent.tools.append(pay_tool(effects))
    state = fresh(agent)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Runner.run(agent, state), 0.02)
    slow.free.set()
    assert (labels(state), effects) == (["c2"], ["ada"])
    result = await Runner.run(agent, await carry(agent, state))
    assert (labels(result), effects) == (["c2"], ["ada", "ada"])


async def test_cancelling_a_stream_approves_nothing(effects: Effects) -> None:
    """At once, and after the turn."""
    for mode in ("immediate", "after_turn"):
        agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
        stream = Runner.run_streamed(agent, "go")
        async for event in stream.stream_events():
            if event.type == "run_item_stream_event":
                stream.cancel(mode=mode)  # type: ignore[arg-type]  # of a tuple of texts
        assert effects == []
        state = stream.to_state()
        result = await Runner.run(agent, state)
        assert (labels(result), effects) == (["c1"], [])


async def test_a_stream_that_is_cancelled_after_the_turn_runs_what_was_approved_and_asks_no_model(
    carry: Carry, effects: Effects
) -> None:
    """It goes on later from where it stands."""
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[pay_tool(effects)])
    state = (await Runner.run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    stream = Runner.run_streamed(agent, state)
    stream.cancel(mode="after_turn")
    await read(stream)
    assert (effects, len(agent.model.calls), stream.final_output) == ([("pay", "ada", 5)], 1, None)
    result = await Runner.run(agent, await carry(agent, stream.to_state()))
    assert (result.final_output, len(effects)) == ("done", 1)


async def test_a_tool_that_runs_out_of_time_is_a_result_and_never_run_again(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """An async tool is stopped; the model is told."""

    async def transfer(to: str) -> str:
        """Transfer money."""
        effects.append(to)
        await asyncio.Event().wait()
        return "never"

    tool = function_tool(transfer, needs_approval=True, timeout=0.01)
    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[tool])
    state = await carry(agent, (await run(agent, "go")).to_state())
    state.approve(item_of(state, "c1"))
    result = await run(agent, state)
    assert (result.final_output, effects) == ("done", ["ada"])
    assert "timed out" in told(agent.model)[0][1]


async def test_a_sync_tool_that_runs_out_of_time_is_in_doubt(run: Run, carry: Carry, effects: Effects) -> None:
    """Its thread cannot be stopped, so nobody knows."""
    free = threading.Event()

    def transfer(to: str) -> str:
        """Transfer money."""
        free.wait(10)
        effects.append(to)
        return "transferred"

    tool = function_tool(transfer, needs_approval=True, timeout=0.01)
    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[tool])
    state = (await run(agent, "go")).to_state()
    state.approve(item_of(state, "c1"))
    result = await run(agent, state)
    free.set()
    assert ([item.kind for item in result.interruptions], len(agent.model.calls)) == (["in_doubt"], 1)
    state = await carry(agent, result.to_state())
    state.resolve(state.get_interruptions()[0], "did_not_run")
    result = await run(agent, state)
    assert (result.final_output, len(events(result, CallStarted))) == ("done", 1)


async def test_a_tool_that_raises_cancelled_error_itself_has_failed_and_is_not_in_doubt(
    run: Run, effects: Effects
) -> None:
    """Nobody cancelled the run; it goes on."""

    async def transfer(to: str) -> str:
        """Transfer money."""
        effects.append(to)
        raise asyncio.CancelledError

    agent = Agent("a", model=script([call("transfer", "c1", to="ada")], "done"), tools=[function_tool(transfer)])
    result = await run(agent, "go")
    assert (result.final_output, effects) == ("done", ["ada"])
    assert told(agent.model)[0][1].startswith("An error occurred")
