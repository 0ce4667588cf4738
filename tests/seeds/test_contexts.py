"""Deciding through the context, and what it knows of decisions."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    RunState,
    UserError,
    function_tool,
)
from keyturn.testing import ScriptedModel
from tests.playing import Run
from tests.seeds.conftest import sale


async def test_a_context_knows_what_was_decided(run: Run, sold: list[str]) -> None:
    @function_tool(needs_approval=True)
    async def sell_seat(ctx: RunContextWrapper[dict[str, str]], seat: str) -> str:
        seen = [ctx.is_tool_approved("sell_seat", label) for label in ("A1", "A2", "A3")]
        sold.append(f"{seat} by {ctx.context['clerk']}: {seen}")
        return "sold"

    rounds = [[sale("A1")], [sale("A2")], [sale("A3")], "Done."]
    agent = Agent(name="Box office", model=ScriptedModel(rounds), tools=[sell_seat])
    result = await run(agent, "Three seats", context={"clerk": "Ida"})
    for approve in (True, False, True):
        state = await RunState.from_string(agent, result.to_state().to_string())
        [interruption] = state.get_interruptions()
        if approve:
            state.approve(interruption)
        else:
            state.reject(interruption, rejection_message="taken")
        result = await run(agent, state)
    assert sold == ["A1 by Ida: [True, None, None]", "A3 by Ida: [True, False, True]"]
    wrapper = result.context_wrapper
    known = [wrapper.is_tool_approved("sell_seat", label) for label in ("A1", "A2", "A3", "A4")]
    assert known == [True, False, True, None]
    assert wrapper.get_rejection_message("sell_seat", "A2") == "taken"


async def test_deciding_through_the_context(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    model = ScriptedModel([[sale("A1"), sale("A2")], "Done."])
    agent = Agent(name="Box office", model=model, tools=[sell])
    result = await run(agent, "Two seats")
    first, second = result.interruptions
    assert result.context_wrapper.is_tool_approved("sell_seat", "A1") is None
    result.context_wrapper.approve_tool(first)
    result.context_wrapper.reject_tool(second)
    assert result.context_wrapper.is_tool_approved("sell_seat", "A1") is True
    result = await run(agent, result.to_state())
    assert (result.final_output, sold) == ("Done.", ["A1"])


def test_nothing_waits_in_a_new_state() -> None:
    state: RunState[Any] = RunState(context=None, original_input="hello", starting_agent=Agent(name="Box office"))
    assert state.get_interruptions() == []


async def test_a_state_that_has_not_run(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("A1")], "Done."]), tools=[sell])
    interruption = (await run(agent, "A seat")).interruptions[0]
    state: RunState[Any] = RunState(context=None, original_input="hello", starting_agent=agent)
    for decide in (state.approve, state.reject):
        with pytest.raises(UserError, match="get_interruptions"):
            decide(interruption)
    assert sold == []
