"""When guardrails on a tool's input run, beside the question whether a person is asked."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    RunConfig,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    tool_input_guardrail,
)
from tests.playing import (
    Carry,
    Effects,
    Run,
    call,
    fresh,
    labels,
    pay_tool,
    script,
    told,
)

# --------------------------------------------------------------------------------------------- 5: input guardrails


def guardrail(seen: list[str], verdict: ToolGuardrailFunctionOutput) -> Any:
    @tool_input_guardrail
    async def watch(data: Any) -> ToolGuardrailFunctionOutput:
        seen.append(data.context.tool_arguments)
        return verdict

    return watch


EARLY = RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=True))


async def test_tool_input_guardrails_run_before_execution_and_not_before_asking(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """By default after the approval; what they reject does not run."""
    seen: list[str] = []
    tool = pay_tool(
        effects, tool_input_guardrails=[guardrail(seen, ToolGuardrailFunctionOutput.reject_content("too risky"))]
    )
    model = script([call("pay", "c1", to="ada")], "done")
    agent = Agent("a", model=model, tools=[tool])
    result = await run(agent, "go")
    assert (labels(result), seen) == (["c1"], [])
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    assert (len(seen), effects, told(model)) == (1, [], [("c1", "too risky")])
    assert [one.output.behavior["type"] for one in result.tool_input_guardrail_results] == ["reject_content"]


async def test_pre_approval_guardrails_reject_before_anybody_is_asked(run: Run, effects: Effects) -> None:
    seen: list[str] = []
    tool = pay_tool(
        effects, tool_input_guardrails=[guardrail(seen, ToolGuardrailFunctionOutput.reject_content("too risky"))]
    )
    model = script([call("pay", "c1", to="ada")], "done")
    result = await run(Agent("a", model=model, tools=[tool]), "go", run_config=EARLY)
    assert (result.final_output, effects, told(model), len(seen)) == ("done", [], [("c1", "too risky")], 1)


async def test_pre_approval_guardrails_that_let_pass_run_again_before_execution(
    run: Run, carry: Carry, effects: Effects
) -> None:
    """Once before asking, not at a resume without a decision, once before the tool."""
    seen: list[str] = []
    tool = pay_tool(effects, tool_input_guardrails=[guardrail(seen, ToolGuardrailFunctionOutput.allow())])
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    result = await run(agent, "go", run_config=EARLY)
    assert (labels(result), len(seen)) == (["c1"], 1)
    result = await run(agent, await carry(agent, result.to_state()), run_config=EARLY)
    assert (labels(result), len(seen)) == (["c1"], 1)
    state = await carry(agent, result.to_state())
    state.approve(state.get_interruptions()[0])
    await run(agent, state, run_config=EARLY)
    assert (len(seen), effects) == (2, [("pay", "ada", 5)])


@pytest.mark.parametrize("config", [None, EARLY], ids=["before execution", "before asking"])
async def test_a_guardrail_that_raises_its_tripwire_stops_the_run_before_the_tool(
    run: Run, effects: Effects, config: RunConfig | None
) -> None:
    """And it trips again whenever the run is taken up."""
    seen: list[str] = []
    tool = pay_tool(effects, tool_input_guardrails=[guardrail(seen, ToolGuardrailFunctionOutput.raise_exception("no"))])
    agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
    if config is None:
        state = (await run(agent, "go")).to_state()
        state.approve(state.get_interruptions()[0])
    else:
        state = fresh(agent)
    for times in (1, 2):
        with pytest.raises(ToolInputGuardrailTripwireTriggered):
            await run(agent, state, run_config=config)
        assert (len(seen), effects) == (times, [])


async def test_a_guardrail_that_crashes_lets_nothing_run(run: Run, effects: Effects) -> None:

    @tool_input_guardrail
    def broken(_data: Any) -> ToolGuardrailFunctionOutput:
        raise OSError("disk")

    for config in (None, EARLY):
        tool = pay_tool(effects, tool_input_guardrails=[broken], needs_approval=config is not None)
        agent = Agent("a", model=script([call("pay", "c1", to="ada")], "done"), tools=[tool])
        with pytest.raises(OSError, match="disk"):
            await run(agent, "go", run_config=config)
    assert effects == []
