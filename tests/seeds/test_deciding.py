"""Deciding: one by one, for good, in a loop, with words for the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    Runner,
    RunState,
    function_tool,
)
from keyturn.testing import ScriptedModel, function_call
from tests.playing import Run
from tests.seeds.conftest import outputs, sale


async def test_a_loop_of_decisions(sell: FunctionTool, sold: list[str]) -> None:
    async def confirm(question: str) -> bool:
        return "A1" not in question

    model = ScriptedModel([[sale("A1")], [sale("A2"), sale("A3")], "Two seats are yours."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    rounds = 0
    result = await Runner.run(agent, "Two seats in front")
    while len(result.interruptions) > 0:
        rounds += 1
        state = result.to_state()
        for interruption in result.interruptions:
            if await confirm(f"Run {interruption.name} with {interruption.arguments}?"):
                state.approve(interruption)
            else:
                state.reject(interruption)
        result = await Runner.run(agent, state)
    assert (result.final_output, rounds) == ("Two seats are yours.", 2)
    assert sold == ["A2", "A3"]


async def test_a_loop_of_decisions_while_listening(sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1")], [sale("A2"), sale("A3")], "Two seats are yours."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    heard: list[str] = []

    async def drained(events: AsyncIterator[Any]) -> None:
        async for event in events:
            if event.type == "run_item_stream_event":
                heard.append(event.name)

    result = Runner.run_streamed(agent, "Two seats in front")
    await drained(result.stream_events())
    while result.interruptions:
        state = result.to_state()
        for interruption in result.interruptions:
            if "A1" in interruption.arguments:
                state.reject(interruption)
            else:
                state.approve(interruption)
        result = Runner.run_streamed(agent, state)
        await drained(result.stream_events())
    assert (result.final_output, sold) == ("Two seats are yours.", ["A2", "A3"])
    assert (heard.count("tool_called"), heard.count("tool_output")) == (3, 3)
    assert heard[-1] == "message_output_created"


async def test_some_are_approved_and_some_not(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2"), sale("A3")], "Here they are."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    state = (await run(agent, "Three seats")).to_state()
    first, second, third = state.get_interruptions()
    state.reject(second)
    state.approve(third)
    state.approve(first)
    result = await run(agent, state)
    assert result.final_output == "Here they are."
    assert sorted(sold) == ["A1", "A3"]
    told = outputs(model)
    assert list(told) == ["A1", "A2", "A3"]
    assert told["A2"] == "Tool execution was not approved."


@pytest.mark.parametrize("always", ["approve", "reject"])
async def test_a_decision_for_good(run: Run, sell: FunctionTool, sold: list[str], always: str) -> None:
    @function_tool(needs_approval=True)
    async def close_desk() -> str:
        sold.append("closed")
        return "closed"

    rounds = [[sale("A1")], [sale("A2")], [function_call("close_desk", call_id="close")], "Good night."]
    model = ScriptedModel(rounds)
    agent = Agent(name="Box office", model=model, tools=[sell, close_desk])
    result = await run(agent, "Sell what you can")
    state = result.to_state()
    if always == "approve":
        state.approve(result.interruptions[0], always_approve=True)
    else:
        state.reject(result.interruptions[0], always_reject=True)
    state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    assert [item.name for item in result.interruptions] == ["close_desk"], "for good, but for one tool"
    assert sold == (["A1", "A2"] if always == "approve" else [])
    state = result.to_state()
    state.reject(result.interruptions[0])
    assert (await run(agent, state)).final_output == "Good night."


async def test_words_for_the_model(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1")], [sale("K9")], "You sit in row K."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    state = (await run(agent, "A good seat")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="Row A is for the critics.")
    result = await run(agent, state)
    assert outputs(model) == {"A1": "Row A is for the critics."}
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "You sit in row K."
    assert sold == ["K9"]


async def test_a_result_in_place_of_its_state(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    paused = await run(agent, "A seat")
    same = await run(agent, paused)
    assert [item.call_id for item in same.interruptions] == ["A1"]
    state = same.state
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "Done."
    assert sold == ["A1"]


def test_resuming_without_await(sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    result = Runner.run_sync(agent, "A seat")
    state = result.to_state()
    state.approve(result.interruptions[0])
    assert Runner.run_sync(agent, state).final_output == "Done."
    assert sold == ["A1"]
