"""Guardrails: on input before any tool runs, on output before anybody sees it, around each tool; at every depth."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    MemorySession,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    ToolExecutionConfig,
    ToolGuardrailFunctionOutput,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
    UserError,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from keyturn.models.scripted.model import ModelStep
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    asking,
    call,
    model,
    outputs,
    plain,
)
from tests.waiting import turns_of_the_loop, until


def says(trips: bool, heard: list[Any] | None = None, *, parallel: bool = True, name: str = "g") -> InputGuardrail[Any]:
    """An input guardrail that says that, and writes down what it was shown."""

    async def look(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        if heard is not None:
            heard.append((agent.name, given))
        return GuardrailFunctionOutput({"tripped": trips}, trips)

    return InputGuardrail(look, name, parallel)


# On what comes in.
async def test_an_input_guardrail_sees_the_input_once_over_pauses(world: World, run: Run) -> None:
    heard: list[Any] = []
    agent = asking(world, [call("ask", "c1")], "done", input_guardrails=[says(False, heard)])
    result = await run(agent, "go")
    result = await run(agent, await approved(result, agent, saved=True))
    assert heard == [("a", "go")]
    [told] = result.input_guardrail_results
    assert (told.output.output_info, told.output.tripwire_triggered) == ({"tripped": False}, False)
    assert result.final_output == "done"


@pytest.mark.parametrize("parallel", [True, False], ids=["beside", "before"])
async def test_a_tripped_input_runs_no_tool(world: World, run: Run, parallel: bool) -> None:
    agent = asking(world, [call("free", "c1")], "never", input_guardrails=[says(True, parallel=parallel)])
    with pytest.raises(InputGuardrailTripwireTriggered) as raised:
        await run(agent, "go")
    assert world.done == []
    assert raised.value.guardrail_result.output.output_info == {"tripped": True}
    assert raised.value.guardrail_result.guardrail.get_name() == "g"
    assert len(asked(agent)) == int(parallel)


async def test_no_tool_runs_before_a_slow_guardrail_has_spoken(world: World, run: Run) -> None:
    spoken = asyncio.Event()
    ran_first: list[bool] = []

    @input_guardrail
    async def slow(context: Any, _agent: Any, given: Any) -> GuardrailFunctionOutput:
        await until(lambda: asked(agent))
        await turns_of_the_loop(20)
        ran_first.append(bool(world.done))
        spoken.set()
        return GuardrailFunctionOutput(None, False)

    agent = asking(world, [call("free", "c1")], "done", input_guardrails=[slow])
    assert (await run(agent, "go")).final_output == "done"
    assert (ran_first, world.done) == ([False], ["free(0)"])


async def test_a_blocking_guardrail_comes_before_the_model(world: World, run: Run) -> None:
    order: list[str] = []

    @input_guardrail(run_in_parallel=False)
    async def first(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        await turns_of_the_loop(20)
        order.append("guardrail")
        return GuardrailFunctionOutput(None, False)

    def answer(_request: Any) -> str:
        order.append("model")
        return "done"

    agent = Agent("a", model=model(answer), input_guardrails=[first, says(False)])
    await run(agent, "go")
    assert order == ["guardrail", "model"]


async def test_a_tripped_guardrail_does_not_wait_for_a_slow_model(world: World, run: Run) -> None:
    agent = asking(world, ModelStep([call("free", "c1")], delay=20), input_guardrails=[says(True)])
    with pytest.raises(InputGuardrailTripwireTriggered):
        await asyncio.wait_for(run(agent, "go"), 5)
    assert world.done == []


async def test_a_tripped_run_stays_tripped(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("free", "c1")], "never", "never", input_guardrails=[says(True)])
    with pytest.raises(InputGuardrailTripwireTriggered) as raised:
        await run(agent, "go")
    with pytest.raises(InputGuardrailTripwireTriggered):
        await run(agent, await approved(raised.value.run_data, agent, saved))
    assert world.done == []


async def test_guardrails_of_the_agent_and_of_the_run_both_look(world: World, run: Run) -> None:
    heard: list[Any] = []
    agent = asking(world, "done", input_guardrails=[says(False, heard, name="own")])
    config = RunConfig(input_guardrails=[says(False, heard, name="run")])
    result = await run(agent, "go", run_config=config)
    assert [told.guardrail.get_name() for told in result.input_guardrail_results] == ["own", "run"]
    assert heard == [("a", "go"), ("a", "go")]


async def test_a_guardrail_that_raises_stops_the_run_and_no_tool_runs(world: World, run: Run) -> None:
    @input_guardrail
    async def broken(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        raise RuntimeError("classifier down")

    agent = asking(world, [call("free", "c1")], "done", "done", input_guardrails=[broken])
    with pytest.raises(RuntimeError, match="classifier down") as raised:
        await run(agent, "go")
    assert world.done == []
    agent.input_guardrails = [says(False)]
    result = await run(agent, raised.value.run_data.to_state())
    assert (result.final_output, world.done) == ("done", ["free(0)"])


async def test_a_guardrail_that_reports_nothing_is_an_error(world: World, run: Run) -> None:
    agent = asking(world, "never", input_guardrails=[InputGuardrail(lambda _c, _a, _g: True)])
    with pytest.raises(UserError, match="GuardrailFunctionOutput"):
        await run(agent, "go")


async def test_only_the_first_agent_of_a_run_guards_its_input(run: Run) -> None:
    heard: list[Any] = []
    second = Agent("second", model=model("done"), input_guardrails=[says(True, heard)])
    first = Agent("first", model=model([call("transfer_to_second", "h")]), handoffs=[second])
    assert (await run(first, "go")).final_output == "done"
    assert heard == []


async def test_with_a_session_the_guardrail_sees_the_conversation(run: Run) -> None:
    heard: list[Any] = []
    session = MemorySession("s")
    await session.add_items([{"role": "user", "content": "old"}])
    await run(Agent("a", model=model("done"), input_guardrails=[says(False, heard)]), "new", session=session)
    [(_name, given)] = heard
    assert [item["content"] for item in given] == ["old", "new"]


async def test_a_nested_agent_guards_its_own_input(world: World, run: Run) -> None:
    heard: list[Any] = []
    inner = asking(world, [call("free", "i1")], "never", input_guardrails=[says(True, heard)])
    outer = Agent("outer", model=model([call("inner", "o1", input="dangerous")], "done"))
    outer.tools = [inner.as_tool("inner", "asks")]
    result = await run(outer, "go")
    assert heard == [("a", "dangerous")]
    assert outputs(result.to_input_list())["o1"].startswith("An error occurred")
    assert (result.final_output, world.done) == ("done", [])


async def test_a_nested_guardrail_lets_its_agent_pause(world: World, run: Run, saved: bool) -> None:
    heard: list[Any] = []
    inner = asking(world, [call("ask", "i1")], "inside", input_guardrails=[says(False, heard, parallel=False)])
    outer = Agent("outer", model=model([call("inner", "o1", input="x")], "done"))
    outer.tools = [inner.as_tool("inner", "asks")]
    result = await run(outer, "go")
    result = await run(outer, await approved(result, outer, saved))
    assert (result.final_output, world.done, heard) == ("done", ["ask(0)"], [("a", "x")])


# On what goes out.


def answers(*withheld: Any, heard: list[Any] | None = None) -> Any:
    """An output guardrail that withholds these answers."""

    @output_guardrail(name="out")
    async def look(context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        if heard is not None:
            heard.append((agent.name, output))
        return GuardrailFunctionOutput({"was": output}, output in withheld)

    return look


async def test_an_output_guardrail_sees_the_final_answer_only(world: World, run: Run, saved: bool) -> None:
    heard: list[Any] = []
    agent = asking(world, ["thinking", call("ask", "c1")], "done", output_guardrails=[answers(heard=heard)])
    result = await run(agent, "go")
    assert heard == result.output_guardrail_results == []
    result = await run(agent, await approved(result, agent, saved))
    assert heard == [("a", "done")]
    [told] = result.output_guardrail_results
    assert (told.output.output_info, told.agent_output) == ({"was": "done"}, "done")


async def test_a_withheld_answer_never_repeats_what_led_to_it(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "bad", output_guardrails=[answers("bad")])
    state = await approved(await run(agent, "go"), agent, saved)
    for _ in range(2):
        with pytest.raises(OutputGuardrailTripwireTriggered) as raised:
            await run(agent, state)
    assert world.done == ["ask(0)"]
    assert raised.value.run_data.final_output is None
    assert outputs(raised.value.run_data.to_input_list()) == {"c1": "ask(0)"}


async def test_a_tools_final_answer_is_looked_at_as_well(world: World, run: Run) -> None:
    stop: Any = {"tool_use_behavior": "stop_on_first_tool", "output_guardrails": [answers("ask(0)")]}
    agent = asking(world, [call("ask", "c1")], **stop)
    state = await approved(await run(agent, "go"), agent)
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, state)
    assert world.done == ["ask(0)"]


async def test_an_error_handlers_answer_is_looked_at_as_well(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], output_guardrails=[answers("gave up")])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, "go", max_turns=1, error_handlers={"max_turns": lambda data: "gave up"})


async def test_the_last_agent_guards_the_output(run: Run) -> None:
    heard: list[Any] = []
    second = Agent("second", model=model("done"), output_guardrails=[answers(heard=heard)])
    first = Agent("first", model=model([call("transfer_to_second", "h")]), handoffs=[second])
    first.output_guardrails = [answers("done")]
    config = RunConfig(output_guardrails=[answers(heard=heard)])
    assert (await run(first, "go", run_config=config)).final_output == "done"
    assert heard == [("second", "done"), ("second", "done")]


async def test_a_nested_agents_withheld_answer_is_its_tools_error(run: Run) -> None:
    inner = Agent("inner", model=model("the secret"), output_guardrails=[answers("the secret")])
    outer = Agent(
        "outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "asks")]
    )
    result = await run(outer, "go")
    assert "secret" not in str(result.to_input_list())
    assert result.final_output == "done"


# Around a tool.

ALLOW, REJECT, RAISE = "allow", "reject", "raise"


def decides(what: str, heard: list[Any] | None = None) -> ToolGuardrailFunctionOutput:
    if heard is not None:
        heard.append(what)
    if what == REJECT:
        return ToolGuardrailFunctionOutput.reject_content("not this one", {"why": what})
    return ToolGuardrailFunctionOutput.raise_exception(what) if what == RAISE else ToolGuardrailFunctionOutput.allow()


def before(what: str, heard: list[Any] | None = None) -> Any:
    @tool_input_guardrail(name="before")
    def look(data: Any) -> ToolGuardrailFunctionOutput:
        assert data.context.tool_name == "ask"
        if heard is not None:
            heard.append((data.agent.name, data.context.tool_call_id, data.context.tool_arguments))
        return decides(what)

    return look


def after(what: str, heard: list[Any] | None = None) -> Any:
    @tool_output_guardrail(name="after")
    async def look(data: Any) -> ToolGuardrailFunctionOutput:
        if heard is not None:
            heard.append((data.context.tool_call_id, data.output))
        return decides(what)

    return look


def guarded(world: World, *rounds: Any, gate: bool = False, **guardrails: Any) -> Agent[Any]:
    return Agent("a", model=model(*rounds), tools=[world.tool("ask", needs_approval=gate, **guardrails)])


async def test_tool_guardrails_that_allow(world: World, run: Run) -> None:
    heard: list[Any] = []
    guards = {"tool_input_guardrails": [before(ALLOW, heard)], "tool_output_guardrails": [after(ALLOW, heard)]}
    result = await run(guarded(world, [call("ask", "c1", x=1)], "done", **guards), "go")
    assert heard == [("a", "c1", '{"x":1}'), ("c1", "ask(1)")]
    assert (len(result.tool_input_guardrail_results), len(result.tool_output_guardrail_results)) == (1, 1)
    assert world.done == ["ask(1)"]


async def test_a_rejected_input_never_reaches_the_tool(world: World, run: Run) -> None:
    agent = guarded(world, [call("ask", "c1")], "done", tool_input_guardrails=[before(REJECT), before(RAISE)])
    result = await run(agent, "go")
    assert outputs(result.to_input_list()) == {"c1": "not this one"}
    assert (world.done, result.final_output) == ([], "done")
    [told] = result.tool_input_guardrail_results
    assert (told.output.output_info, told.output.behavior["type"]) == ({"why": "reject"}, "reject_content")


async def test_a_raised_input_stops_the_run_before_the_tool(world: World, run: Run) -> None:
    agent = guarded(world, [call("ask", "c1")], "done", tool_input_guardrails=[before(RAISE)])
    with pytest.raises(ToolInputGuardrailTripwireTriggered) as raised:
        await run(agent, "go")
    assert (world.done, raised.value.output.output_info) == ([], "raise")
    with pytest.raises(ToolInputGuardrailTripwireTriggered):
        await run(agent, raised.value.run_data.to_state())
    assert world.done == []


async def test_a_rejected_output_is_kept_from_the_model(world: World, run: Run) -> None:
    agent = guarded(world, [call("ask", "c1")], "done", tool_output_guardrails=[after(REJECT)])
    result = await run(agent, "go")
    assert outputs(result.to_input_list()) == {"c1": "not this one"}
    assert world.done == ["ask(0)"]
    assert "ask(0)" not in str(asked(agent)[-1].input)


async def test_a_raised_output_stops_the_run_and_the_tool_never_runs_again(world: World, run: Run, saved: bool) -> None:
    agent = guarded(world, [call("ask", "c1")], "done", gate=True, tool_output_guardrails=[after(RAISE)])
    state = await approved(await run(agent, "go"), agent, saved)
    with pytest.raises(ToolOutputGuardrailTripwireTriggered) as raised:
        await run(agent, state)
    assert world.done == ["ask(0)"]
    result = await run(agent, await approved(raised.value.run_data, agent, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert "ask(0)" not in str(result.to_input_list())


async def test_a_waiting_call_is_guarded_when_it_runs_with_what_runs(world: World, run: Run) -> None:
    heard: list[Any] = []
    guards = [before(ALLOW, heard)]
    agent = guarded(world, [call("ask", "c1", x=1)], "done", gate=True, tool_input_guardrails=guards)
    state = (await run(agent, "go")).to_state()
    assert heard == []
    state.approve(state.get_interruptions()[0], edit={"x": 9})
    await run(agent, state)
    assert (heard, world.done) == ([("a", "c1", '{"x":9}')], ["ask(9)"])


async def test_a_rejected_call_is_not_guarded(world: World, run: Run) -> None:
    heard: list[Any] = []
    agent = guarded(world, [call("ask", "c1")], "done", gate=True, tool_input_guardrails=[before(ALLOW, heard)])
    state = (await run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "done"
    assert (heard, world.done) == ([], [])


EARLY = RunConfig(tool_execution=ToolExecutionConfig(pre_approval_tool_input_guardrails=True))


async def test_a_guardrail_before_asking_spares_the_person(world: World, run: Run, saved: bool) -> None:
    heard: list[Any] = []
    agent = guarded(world, [call("ask", "c1")], "done", gate=True, tool_input_guardrails=[before(REJECT, heard)])
    result = await run(agent, "go", run_config=EARLY)
    assert result.interruptions == []
    assert outputs(result.to_input_list()) == {"c1": "not this one"}
    assert (world.done, len(heard)) == ([], 1)
    allowed = guarded(world, [call("ask", "c1")], "done", gate=True, tool_input_guardrails=[before(ALLOW, heard)])
    result = await run(allowed, "go", run_config=EARLY)
    assert (len(result.interruptions), len(heard)) == (1, 2)
    await run(allowed, await approved(result, allowed, saved), run_config=EARLY)
    assert (world.done, len(heard)) == (["ask(0)"], 3)


async def test_what_an_early_guardrail_said_is_in_the_result(world: World, run: Run) -> None:
    agent = guarded(world, [call("ask", "c1")], "done", gate=True, tool_input_guardrails=[before(REJECT)])
    result = await run(agent, "go", run_config=EARLY)
    assert [told.output.behavior["type"] for told in result.tool_input_guardrail_results] == ["reject_content"]


async def test_results_of_guardrails_are_kept_over_pauses(world: World, run: Run, saved: bool) -> None:
    tool = world.tool(
        "ask", needs_approval=lambda _c, params, _i: params["x"] > 5, tool_input_guardrails=[before(ALLOW)]
    )
    agent = Agent("a", model=model([call("ask", "c1", x=1)], [call("ask", "c2", x=9)], "done"), tools=[tool])
    result = await run(agent, "go")
    assert len(result.tool_input_guardrail_results) == 1
    result = await run(agent, await approved(result, agent, saved))
    assert len(result.tool_input_guardrail_results) == 2
    assert world.done == ["ask(1)", "ask(9)"]


async def test_a_tool_guardrail_that_reports_nothing_is_an_error(world: World) -> None:
    @tool_input_guardrail
    def nothing(data: Any) -> Any:
        return None

    with pytest.raises(UserError, match="ToolGuardrailFunctionOutput"):
        await plain(guarded(world, [call("ask", "c1")], tool_input_guardrails=[nothing]), "go")
    assert world.done == []
