"""What is added to a waiting run reaches its model, whatever would otherwise be its last word."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    MaxTurnsExceeded,
    MemoryJournal,
    MemorySession,
    Runner,
    RunState,
    StopAtTools,
    ToolsToFinalOutputResult,
    UserError,
    output_guardrail,
)
from keyturn.agents.guardrail import GuardrailFunctionOutput
from keyturn.core import commands as cm
from keyturn.core import events as ev
from keyturn.inbox.desk import Inbox
from keyturn.testing import ScriptedModel
from tests.core.samples import Pen, reply, start, tool
from tests.playing import Run, World, approved, asked, asking, call, shape


def final(_context: Any, results: Any) -> ToolsToFinalOutputResult:
    return ToolsToFinalOutputResult(is_final_output=True, final_output=results[0].output)


ENDS: list[Any] = ["run_llm_again", "stop_on_first_tool", StopAtTools(stop_at_tool_names=["ask"]), final]
NAMES = ["model", "first tool", "that tool", "callable"]


@pytest.mark.parametrize("behavior", ENDS, ids=NAMES)
async def test_a_message_beside_the_last_result_is_answered(world: World, run: Run, saved: bool, behavior: Any) -> None:
    session = MemorySession("s")
    agent = asking(world, [call("ask", "c1")], "to both", tool_use_behavior=behavior)
    state = (await run(agent, "go", session=session)).to_state()
    state.add_input(input="and this")
    state.approve(state.get_interruptions()[0])
    if saved:
        state = await _read(agent, state)
    result = await run(agent, state, session=session)
    assert (result.final_output, world.done) == ("to both", ["ask(0)"])
    assert shape(asked(agent)[-1].input) == ["user", "call c1", "output c1", "user"]
    assert shape(await session.get_items()) == ["user", "call c1", "output c1", "user", "assistant"]


async def _read(agent: Agent[Any], state: RunState[Any]) -> RunState[Any]:
    return await RunState.from_string(agent, state.to_string())


@pytest.mark.parametrize("behavior", ENDS[1:], ids=NAMES[1:])
async def test_without_a_message_the_result_is_the_answer(world: World, run: Run, behavior: Any) -> None:
    agent = asking(world, [call("ask", "c1")], tool_use_behavior=behavior)
    assert (await run(agent, await approved(await run(agent, "go"), agent))).final_output == "ask(0)"


async def test_a_message_that_was_answered_does_not_keep_the_next_result_from_being_the_answer(
    world: World, run: Run
) -> None:
    agent = asking(world, [call("ask", "c1")], [call("free", "c2")], tool_use_behavior="stop_on_first_tool")
    state = await approved(await run(agent, "go"), agent)
    state.add_input([{"role": "user", "content": "and this"}])
    result = await run(agent, state)
    assert (result.final_output, world.done) == ("free(0)", ["ask(0)", "free(0)"])


async def test_a_message_at_the_last_turn_waits_for_another(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "to both", tool_use_behavior="stop_on_first_tool")
    state = (await run(agent, "go", max_turns=1)).to_state()
    state.approve(state.get_interruptions()[0])
    state.add_input("and this")
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state)
    if saved:
        state = await _read(agent, state)
    assert (await run(agent, state, max_turns=2)).final_output == "to both"
    assert world.done == ["ask(0)"]
    assert [item.get("content") for item in asked(agent)[-1].input if item.get("role") == "user"] == ["go", "and this"]


async def test_a_message_while_the_result_is_judged_is_answered(world: World) -> None:
    """It comes through an inbox, between the tool's result and the word that this is the answer."""
    journal = MemoryJournal()

    @output_guardrail
    async def look(_context: Any, _agent: Any, _output: Any) -> GuardrailFunctionOutput:
        if len(asked(agent)) == 1:
            [row] = await journal.runs()
            await Inbox(journal).send(row.run, "and this")
        return GuardrailFunctionOutput(None, False)

    agent = asking(
        world, [call("free", "c1")], "to both", tool_use_behavior="stop_on_first_tool", output_guardrails=[look]
    )
    result = await Runner.run(agent, "go", journal=journal)
    assert result.final_output == "to both"


async def test_a_run_that_is_over_refuses_a_message(world: World, run: Run) -> None:
    state = (await run(asking(world, "done"), "go")).to_state()
    with pytest.raises(UserError, match="over"):
        state.add_input("too late")
    with pytest.raises(TypeError):
        state.add_input(message="and by no other name")  # type: ignore[call-arg]  # so it must fail


def test_the_core_takes_no_result_for_an_answer_over_an_unread_message() -> None:
    pen = Pen()
    pen(start())
    pen(reply(tool("c0"), judged=True))
    pen.begin()
    pen(cm.AddInput("r", [{"role": "user", "content": "wait"}]))
    pen.end("r/1.0", "ok")
    assert pen.root().unread
    assert pen(cm.JudgeFrame("r", final=True, output="ok")) == [ev.ToolsJudged("r")]
    assert (pen.root().phase, pen.root().unread) == ("model", False)


@pytest.mark.parametrize("calls", [False, True], ids=["the reply is an answer", "the reply has calls"])
@pytest.mark.parametrize("chained", [False, True], ids=["sent whole", "kept by the provider"])
async def test_a_message_that_comes_while_the_model_is_asked_is_read_at_its_next_turn(
    world: World, calls: bool, chained: bool
) -> None:
    """It stood before the reply that had passed over it, as if it had been read; the run ended, or went on without."""
    journal, session, read = MemoryJournal(), MemorySession("s"), list[Any]()

    async def says(request: Any) -> Any:
        read.append(shape(request.input))
        if len(read) == 1:
            [row] = await journal.runs()
            await Inbox(journal).send(row.run, "stop")
        return [call("do", "c1")] if calls and len(read) == 1 else f"answer {len(read)}"

    agent = Agent("a", model=ScriptedModel(says), tools=[world.tool("do")])
    given: dict[str, Any] = {"auto_previous_response_id": True} if chained else {"session": session}
    result = await Runner.run(agent, "go", journal=journal, **given)
    assert result.final_output == "answer 2"
    before = ["call c1", "output c1"] if calls else ["assistant"]
    sent = before[-1:] if calls else []
    assert read == [["user"], [*sent, "user"] if chained else ["user", *before, "user"]]
    assert chained or shape(await session.get_items()) == ["user", *before, "user", "assistant"]
