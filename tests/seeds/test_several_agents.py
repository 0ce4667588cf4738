"""Agents as tools and handoffs, with pauses at every depth."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from keyturn import (
    Agent,
    FunctionTool,
    ModelSettings,
    RunContextWrapper,
    RunState,
    function_tool,
)
from keyturn.testing import ScriptedModel, function_call
from tests.playing import Run
from tests.seeds.conftest import outputs, sale


class Visitor(BaseModel):
    name: str


def expert(sold: list[str], seat: str) -> Agent[Visitor]:
    """An agent with a tool that asks, to be the tool of another."""

    @function_tool(needs_approval=True)
    async def seat_of(ctx: RunContextWrapper[Visitor], guest: str) -> str:
        sold.append(f"{guest} for {ctx.context.name}")
        return seat

    model = ScriptedModel([[function_call("seat_of", {"guest": seat}, call_id=seat)], f"It is {seat}."])
    settings = ModelSettings(tool_choice="required")
    return Agent[Visitor](name=f"Usher {seat}", model=model, model_settings=settings, tools=[seat_of])


@pytest.mark.parametrize("outer", [True, False], ids=["asks", "does not ask"])
async def test_an_expert_and_its_tools_ask(run: Run, sold: list[str], outer: bool) -> None:
    usher = expert(sold, "C4")
    tool = usher.as_tool(tool_name="ask_usher", tool_description="Finds a seat", needs_approval=outer)
    model = ScriptedModel([[function_call("ask_usher", {"input": "Where do I sit?"}, call_id="u")], "In C4."])
    agent = Agent[Visitor](name="Door", model=model, tools=[tool])
    result = await run(agent, "Where is my seat?", context=Visitor(name="Ida"))
    asked: list[tuple[str, str | None]] = []
    while result.interruptions:
        text = result.to_state().to_string(context_serializer=lambda visitor: visitor.model_dump())
        state = await RunState.from_string(agent, text, context_deserializer=Visitor.model_validate)
        for interruption in state.get_interruptions():
            asked.append((interruption.agent.name, interruption.name))
            state.approve(interruption)
        result = await run(agent, state)
    inner = ("Usher C4", "seat_of")
    assert asked == ([("Door", "ask_usher"), inner] if outer else [inner])
    assert (result.final_output, sold) == ("In C4.", ["C4 for Ida"])
    assert outputs(model) == {"u": "It is C4."}


async def test_two_experts_ask_at_once(run: Run, sold: list[str]) -> None:
    tools = [expert(sold, seat).as_tool(f"usher_{seat}", "Finds a seat") for seat in ("L1", "R1")]
    calls = [function_call(tool.name, {"input": "go"}, call_id=tool.name) for tool in tools]
    model = ScriptedModel([calls, "Left or right."])
    agent = Agent[Visitor](name="Door", model=model, tools=[*tools])
    result = await run(agent, "Where do we sit?", context=Visitor(name="Ida"))
    assert [item.call_id for item in result.interruptions] == ["L1", "R1"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    state.reject(result.interruptions[1])
    result = await run(agent, state)
    assert (result.final_output, sold) == ("Left or right.", ["L1 for Ida"])
    assert outputs(model) == {"usher_L1": "It is L1.", "usher_R1": "It is R1."}


async def test_a_handoff_between_two_pauses(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    manager = Agent(name="Manager", model=ScriptedModel([[sale("Box 1")], "With pleasure."]), tools=[sell])
    first = [sale("A1"), function_call("transfer_to_manager", call_id="up")]
    clerk = Agent(name="Clerk", model=ScriptedModel([first]), tools=[sell], handoffs=[manager])
    result = await run(clerk, "A box, please")
    agents: list[str] = []
    while result.interruptions:
        state = await RunState.from_string(clerk, result.to_state().to_string())
        for interruption in state.get_interruptions():
            agents.append(interruption.agent.name)
            state.approve(interruption)
        result = await run(clerk, state)
    assert (result.final_output, result.last_agent) == ("With pleasure.", manager)
    assert (agents, sold) == (["Clerk", "Manager"], ["A1", "Box 1"])
