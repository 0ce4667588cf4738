"""A nested agent that fails never takes with it what one of its tools has begun: that is in doubt, and is shown."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, MemoryJournal, function_tool, tool_output_guardrail
from keyturn.testing import ScriptedModel, assistant_message, check, function_call
from tests.playing import Run


def agents(paid: list[int]) -> Agent[Any]:
    """An agent whose tool is an agent, whose tool acts and whose guardrail then breaks."""

    @tool_output_guardrail
    def broken(_data: Any) -> Any:
        raise RuntimeError("the guardrail broke")

    @function_tool(tool_output_guardrails=[broken])
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    inner = Agent("inner", tools=[pay], model=ScriptedModel([[function_call("pay", {"amount": 5})], "paid"]))
    tool = inner.as_tool("inner", "Pays.")
    asks = function_call("inner", {"input": "pay"})
    return Agent("outer", tools=[tool], model=ScriptedModel([[asks], assistant_message("done")]))


async def test_what_a_failing_nested_agent_had_begun_is_in_doubt(run: Run) -> None:
    paid: list[int] = []
    journal, agent = MemoryJournal(), agents(paid)

    with pytest.raises(RuntimeError, match="the guardrail broke") as stopped:
        await run(agent, "go", journal=journal)
    result = await run(agent, stopped.value.run_data.to_state(), journal=journal)  # type: ignore[attr-defined]  # every error of a run has it
    assert [item.kind for item in result.interruptions] == ["in_doubt"]
    state = result.to_state()
    state.resolve(result.interruptions[0], "ran", output="paid 5")
    assert (await run(agent, state, journal=journal)).final_output == "done"
    assert paid == [5]
    report = await check(journal)
    assert report.ok, str(report)
