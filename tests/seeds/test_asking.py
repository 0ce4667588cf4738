"""Which calls ask, and what a pause is."""

from __future__ import annotations

import json
from typing import Any

from keyturn import (
    Agent,
    FunctionTool,
    RunContextWrapper,
    ToolApprovalItem,
    function_tool,
)
from keyturn.testing import ScriptedModel, function_call
from tests.playing import Run
from tests.seeds.conftest import outputs, sale


async def test_a_pause_is_no_error(run: Run, sell: FunctionTool, sold: list[str]) -> None:
    agent = Agent(name="Box office", model=ScriptedModel([[sale("B12")], "Enjoy the play."]), tools=[sell])
    result = await run(agent, "A seat in row B, please")
    assert len(result.interruptions) == 1
    assert result.final_output is None
    interruption = result.interruptions[0]
    assert isinstance(interruption, ToolApprovalItem)
    assert (interruption.name, interruption.arguments, interruption.agent) == ("sell_seat", '{"seat":"B12"}', agent)
    assert sold == []


async def test_each_tool_asks_in_its_own_way(run: Run, sell: FunctionTool) -> None:
    asked: list[tuple[str, str]] = []

    async def _is_a_box(ctx: RunContextWrapper[str], params: dict[str, Any], call_id: str) -> bool:
        asked.append((ctx.context, call_id))
        return params.get("row") == "box"

    @function_tool(needs_approval=_is_a_box)
    async def hold_row(row: str, minutes: int = 10) -> str:
        return f"row {row} is held for {minutes} minutes"

    @function_tool(needs_approval=False)
    def price_of(row: str) -> int:
        return 40

    calls = [
        sale("A1"),
        function_call("hold_row", {"row": "C"}, call_id="c"),
        function_call("hold_row", {"row": "box"}, call_id="box"),
        function_call("price_of", {"row": "C"}, call_id="price"),
    ]
    model = ScriptedModel([calls, "All done."])
    agent = Agent[str](name="Box office", model=model, tools=[sell, hold_row, price_of])
    result = await run(agent, "Hold me a row", context="desk 3")
    assert [item.call_id for item in result.interruptions] == ["A1", "box"]
    assert sorted(asked) == [("desk 3", "box"), ("desk 3", "c")]
    state = result.to_state()
    for interruption in result.interruptions:
        state.approve(interruption)
    result = await run(agent, state)
    assert result.final_output == "All done."
    assert list(outputs(model)) == ["A1", "c", "box", "price"]
    assert len(asked) == 2


async def test_a_hand_made_tool_asks(run: Run, sold: list[str]) -> None:
    async def refund(ctx: RunContextWrapper[Any], arguments: str) -> str:
        sold.remove(json.loads(arguments)["seat"])
        return "refunded"

    tool = FunctionTool(
        name="refund_seat",
        description="Takes a seat back.",
        params_json_schema={"type": "object", "properties": {"seat": {"type": "string"}}},
        on_invoke_tool=refund,
        needs_approval=True,
    )
    sold.append("F7")
    model = ScriptedModel([[function_call("refund_seat", {"seat": "F7"})], "It is free again."])
    agent = Agent(name="Box office", model=model, tools=[tool])
    result = await run(agent, "I cannot come")
    assert sold == ["F7"]
    state = result.to_state()
    state.approve(result.interruptions[0])
    result = await run(agent, state)
    assert (result.final_output, sold) == ("It is free again.", [])
