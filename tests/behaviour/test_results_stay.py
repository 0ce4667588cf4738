"""A result is of the moment at which it was made: nothing that the run does afterwards changes what it says."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    GuardrailFunctionOutput,
    HandoffInputData,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    OutputGuardrail,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunState,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    UserError,
    function_tool,
    handoff,
    tool_input_guardrail,
)
from tests.playing import Run, World, approved, asked, asking, asking_as, call, item_of, model, outputs, shape, state_of

EARLY = RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=True))


# ------------------------------------------------------------------------------------------- the context, and its usage


async def test_a_results_context_and_usage_are_those_of_its_pause(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], [call("ask", "c2")], "done")
    first = await run(agent, "go", context={"user": "ann"})
    state = await approved(first, agent, saved)
    second = await run(agent, state, context={"user": "bob"})
    third = await run(agent, await approved(second, agent, saved))
    results = [first, second, third]
    assert [one.context_wrapper.context for one in results] == [{"user": "ann"}, {"user": "bob"}, {"user": "bob"}]
    assert [one.context_wrapper.usage.requests for one in results] == [1, 2, 3]
    assert [len(one.context_wrapper.usage.request_usage_entries) for one in results] == [1, 2, 3]


async def test_what_was_decided_later_is_not_on_an_older_result(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    first = await run(agent, "go")
    second = await run(agent, await approved(first, agent))
    assert first.context_wrapper.is_tool_approved("ask", "c1") is None
    assert second.context_wrapper.is_tool_approved("ask", "c1") is True


async def test_counting_on_a_results_usage_counts_nowhere_else(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    first = await run(agent, "go")
    first.context_wrapper.usage.requests += 100
    first.context_wrapper.usage.replies.clear()
    second = await run(agent, await approved(first, agent))
    assert (second.context_wrapper.usage.requests, second.usage.requests, first.usage.requests) == (2, 2, 1)


# ---------------------------------------------------------------------------------------- guardrails before an approval


def guarded(world: World, *said: ToolGuardrailFunctionOutput) -> Agent[Any]:
    """An agent whose tool asks, and whose guardrail says these things in turn."""
    words = list(said)

    @tool_input_guardrail(name="look")
    def look(_data: Any) -> ToolGuardrailFunctionOutput:
        return words.pop(0)

    tool = world.tool("ask", needs_approval=True, tool_input_guardrails=[look])
    return Agent("a", model=model([call("ask", "c1")], "done"), tools=[tool])


def infos(result: Any) -> list[Any]:
    return [one.output.output_info for one in result.tool_input_guardrail_results]


async def test_what_a_guardrail_said_before_the_approval_stands_on_the_paused_result(
    world: World, run: Run, saved: bool
) -> None:
    allow = ToolGuardrailFunctionOutput.allow
    agent = guarded(world, allow("before"), allow({"when": "after"}))
    paused = await run(agent, "go", run_config=EARLY)
    assert infos(paused) == ["before"]
    assert paused.tool_input_guardrail_results[0].guardrail.get_name() == "look"
    done = await run(agent, await approved(paused, agent, saved), run_config=EARLY)
    assert (infos(done), infos(paused)) == (["before", {"when": "after"}], ["before"])
    assert world.done == ["ask(0)"]


async def test_what_a_guardrail_rejected_before_anybody_was_asked_stands_on_the_result(world: World, run: Run) -> None:
    agent = guarded(world, ToolGuardrailFunctionOutput.reject_content("no", "why"))
    result = await run(agent, "go", run_config=EARLY)
    assert (infos(result), outputs(result.to_input_list()), world.done) == (["why"], {"c1": "no"}, [])


async def test_guardrails_have_their_names_wherever_the_run_was_loaded(world: World, run: Run, saved: bool) -> None:
    """Programs ask each result for `guardrail.get_name()`, and what it reported."""

    def report(info: str) -> Any:
        return lambda *_given: GuardrailFunctionOutput(info, tripwire_triggered=False)

    agent = guarded(world, ToolGuardrailFunctionOutput.reject_content("no", "why"))
    agent.tools[0].needs_approval = False
    agent.tools += [world.tool("later", needs_approval=True)]
    agent.model = model([call("ask", "c1"), call("later", "c2")], "done")
    agent.input_guardrails = [InputGuardrail(report("in"), "before")]
    agent.output_guardrails = [OutputGuardrail(report("out"), "after")]
    done = await run(agent, await approved(await run(agent, "go"), agent, saved))
    [given], [answered], [looked] = (
        done.input_guardrail_results,
        done.output_guardrail_results,
        done.tool_input_guardrail_results,
    )
    assert [one.guardrail.get_name() for one in (given, answered, looked)] == ["before", "after", "look"]
    assert [one.output.output_info for one in (given, answered, looked)] == ["in", "out", "why"]
    assert (answered.agent, answered.agent_output) == (agent, "done")
    assert looked.output.behavior == {"type": "reject_content", "message": "no"}
    loaded = await state_of(done, agent, saved)
    again = await run(agent, loaded)
    assert [one.guardrail.get_name() for one in again.output_guardrail_results] == ["after"]
    assert again.output_guardrail_results[0].agent_output == "done"


@pytest.mark.parametrize("stage", ["input", "output"])
async def test_a_tripwire_names_its_guardrail_when_the_run_is_resumed(run: Run, saved: bool, stage: str) -> None:
    def trips(*_given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput("off topic", tripwire_triggered=True)

    agent = Agent("a", model=model("done"))
    if stage == "input":
        agent.input_guardrails = [InputGuardrail(trips, "topic")]
    else:
        agent.output_guardrails = [OutputGuardrail(trips, "topic")]
    tripwires = (InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered)
    with pytest.raises(tripwires) as raised:
        await run(agent, "go")
    state = await state_of(raised.value.run_data, agent, saved)
    with pytest.raises(tripwires, match="'topic'") as again:
        await run(agent, state)
    told = again.value.guardrail_result
    assert (told.guardrail.get_name(), told.output.output_info) == ("topic", "off topic")


async def test_a_guardrail_that_lets_pass_before_may_stop_after(world: World, run: Run) -> None:
    said = ToolGuardrailFunctionOutput
    agent = guarded(world, said.allow("before"), said.raise_exception("after"))
    paused = await run(agent, "go", run_config=EARLY)
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await run(agent, await approved(paused, agent), run_config=EARLY)
    assert (infos(paused), world.done) == (["before"], [])


# --------------------------------------------------------------------------------------------- as input for another run


def handing(world: World, input_filter: Any) -> Agent[Any]:
    second = asking_as(world, "second", [call("free", "c1"), call("ask", "c2")], "done")
    made = handoff(second, input_filter=input_filter)
    return Agent("first", model=model([call("transfer_to_second", "h1")]), handoffs=[made])


def newest(data: HandoffInputData) -> HandoffInputData:
    return HandoffInputData(input_history="in short", pre_handoff_items=(), new_items=())


WHOLE = ["user", "call h1", "output h1", "call c1", "call c2", "output c1", "output c2", "assistant"]


@pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
async def test_normalized_is_what_the_last_agent_sees(world: World, run: Run, saved: bool, filtered: bool) -> None:
    agent = handing(world, newest if filtered else None)
    paused = await run(agent, "go")
    waits = paused.to_input_list(mode="normalized")
    done = await run(agent, await approved(paused, agent, saved))
    assert shape(done.to_input_list()) == shape(done.to_input_list(mode="preserve_all")) == WHOLE
    seen = ["user", *WHOLE[3:]] if filtered else WHOLE
    assert shape(done.to_input_list(mode="normalized")) == seen
    assert done.to_input_list(mode="normalized")[0]["content"] == ("in short" if filtered else "go")
    assert shape(waits) == seen[:-1]
    assert outputs(waits)["c2"] == "not executed: it still requires a decision"
    assert paused.to_input_list(mode="normalized") == waits


async def test_what_a_list_gives_is_the_readers_own(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    paused = await run(agent, "go")
    paused.to_input_list(mode="normalized")[0]["content"] = "changed"
    await run(agent, await approved(paused, agent))
    assert asked(agent)[-1].input[0]["content"] == "go"


@pytest.mark.parametrize("mode", ["all", None, ""])
async def test_a_mode_that_nobody_knows_is_refused(world: World, run: Run, mode: Any) -> None:
    result = await run(asking(world, "done"), "go")
    with pytest.raises(UserError, match="preserve_all"):
        result.to_input_list(mode=mode)


# ----------------------------------------------------------------------------------------------- ids of reasoning items


async def test_a_policy_for_ids_holds_over_every_pause(world: World, run: Run, saved: bool) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    agent = asking(world, [thought, call("ask", "c1")], [call("ask", "c2")], [call("ask", "c3")], "done")
    bare = {"type": "reasoning", "summary": []}
    result = await run(agent, "go")
    seen = [result.to_input_list()[1]]
    for config in (RunConfig(reasoning_item_id_policy="omit"), None, RunConfig(reasoning_item_id_policy="preserve")):
        result = await run(agent, await approved(result, agent, saved), run_config=config)
        seen += [asked(agent)[-1].input[1], result.to_input_list()[1], result.to_input_list(mode="normalized")[1]]
    assert seen == [thought, *[bare] * 6, *[thought] * 3]


# -------------------------------------------------------------------- a tool that is an agent, replaced before or after


def nested(world: World) -> Agent[Any]:
    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    return Agent("outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "asks")])


async def refused(agent: Agent[Any], run: Run, state: Any) -> None:
    """Resume what cannot go on as its agent is: loaded already, or as text that is not."""
    with pytest.raises(UserError):
        await run(agent, await RunState.from_string(agent, state) if isinstance(state, str) else state)


@pytest.mark.each
@pytest.mark.parametrize("when", ["before the load", "after the load", "in hand"])
@pytest.mark.parametrize("how", ["gone", "a function"])
async def test_an_agent_tool_that_is_gone_is_refused_whenever_that_was(
    world: World, run: Run, when: str, how: str
) -> None:
    @function_tool(name_override="inner")
    def function(input: str) -> str:
        world.done.append("function")
        return "function"

    agent = nested(world)
    state = await approved(await run(agent, "go"), agent, when == "after the load")
    kept, agent.tools = agent.tools, [] if how == "gone" else [function]
    for _ in range(2):
        await refused(agent, run, state.to_string() if when == "before the load" else state)
    agent.tools = kept  # nothing is lost: the same state goes on once the tool is there again
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


@pytest.mark.parametrize("when", ["before the load", "after the load", "in hand"])
async def test_an_agent_tool_whose_agent_was_replaced_asks_anew_whenever_that_was(
    world: World, run: Run, when: str
) -> None:
    tool = world.tool("ask", needs_approval=True, description_override="Asks otherwise.")
    other = Agent("inner", model=model("inside"), tools=[tool])
    agent = nested(world)
    state = await approved(await run(agent, "go"), agent, when == "after the load")
    agent.tools = [other.as_tool("inner", "asks")]
    if when == "before the load":
        state = await RunState.from_string(agent, state.to_string())
    again = await run(agent, state)
    assert [(item.tool_name, item.agent) for item in again.interruptions] == [("ask", other)]
    assert world.done == []
    assert (await run(agent, await approved(again, agent))).final_output == "done"


async def test_an_older_result_knows_its_own_agents(world: World, run: Run) -> None:
    agent = nested(world)
    first = await run(agent, "go")
    state = first.to_state()
    state.approve(item_of(state, "i1"))
    await run(agent, state)
    agent.tools = []
    assert shape(first.to_input_list()) == ["user", "call o1", "output o1"]
    assert [item.agent.name for item in first.interruptions] == ["inner"]
    assert (await state_of(first, agent, False)).run_id == first.run_id
