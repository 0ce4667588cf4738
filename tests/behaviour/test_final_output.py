"""What ends a run and with which value: tool_use_behavior in all its forms, answers of a type over save and load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from keyturn import (
    Agent,
    FunctionToolResult,
    ModelBehaviorError,
    ModelRefusalError,
    ModelSettings,
    RunConfig,
    StopAtTools,
    ToolsToFinalOutputResult,
    function_tool,
)
from keyturn.models.scripted.model import refusal
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
    shape,
    state_of,
)
from tests.table import each


class Receipt(BaseModel):
    order: str
    cents: int


@dataclass
class Point:
    x: int
    y: int


class Pair(TypedDict):
    left: str
    right: int


BOTH_CALLS = [call("free", "c1", x=1), call("ask", "c2", x=2)]


async def test_stop_on_first_tool_takes_the_first_call(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, BOTH_CALLS, tool_use_behavior="stop_on_first_tool")
    result = await run(agent, "go")
    assert (result.final_output, len(result.interruptions)) == (None, 1)
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.done) == ("free(1)", ["free(1)", "ask(2)"])
    assert shape(result.to_input_list()) == ["user", "call c1", "call c2", "output c1", "output c2"]


async def test_stop_at_named_tools(world: World, run: Run, saved: bool) -> None:
    stop = StopAtTools(stop_at_tool_names=["ask"])
    agent = asking(world, [call("free", "c0")], BOTH_CALLS, tool_use_behavior=stop)
    result = await run(agent, "go")
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.done) == ("ask(2)", ["free(0)", "free(1)", "ask(2)"])


async def test_a_callable_judges_each_turn(world: World, run: Run, saved: bool) -> None:
    seen: list[list[tuple[str, Any]]] = []

    async def judge(context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        assert context.context == {"user": "ann"}
        seen.append([(result.tool.name, result.output) for result in results])
        assert all(result.run_item.type == "tool_call_output_item" for result in results)
        final = len(results) == 2
        return ToolsToFinalOutputResult(final, "both" if final else None)

    agent = asking(world, [call("free", "c0")], BOTH_CALLS, tool_use_behavior=judge)
    result = await run(agent, "go", context={"user": "ann"})
    result = await run(agent, await approved(result, agent, saved))
    assert seen == [[("free", "free(0)")], [("free", "free(1)"), ("ask", "ask(2)")]]
    assert result.final_output == "both"


@pytest.mark.parametrize(
    ("behavior", "final"),
    [
        ("stop_on_first_tool", "no"),
        (StopAtTools(stop_at_tool_names=["ask"]), "no"),
        (lambda _context, results: ToolsToFinalOutputResult(True, results[0].output), "no"),
        ("run_llm_again", "end"),
    ],
    ids=["first", "named", "callable", "again"],
)
async def test_a_rejection_is_a_result_like_any_other(world: World, run: Run, behavior: Any, final: str) -> None:
    agent = asking(world, [call("ask", "c1")], "end", tool_use_behavior=behavior)
    state = (await run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no")
    result = await run(agent, state)
    assert (result.final_output, world.done) == (final, [])


async def test_an_edited_call_ends_the_run_with_what_ran(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1", x=1)], tool_use_behavior="stop_on_first_tool")
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"x": 5})
    result = await run(agent, state)
    assert result.final_output.endswith("ask(5)")
    assert world.done == ["ask(5)"]


async def test_a_persons_answer_ends_the_run_too(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], tool_use_behavior="stop_on_first_tool")
    state = (await run(agent, "go")).to_state()
    state.answer(state.get_interruptions()[0], "it is done")
    assert (await run(agent, state)).final_output == "it is done"
    assert world.done == []


async def test_a_handoff_goes_on_whatever_the_tools_said(world: World, run: Run) -> None:
    second = Agent("second", model=model("from second"))
    calls = [call("free", "c1"), call("transfer_to_second", "h")]
    first = Agent("first", model=model(calls), tools=[world.tool("free")], handoffs=[second])
    first.tool_use_behavior = "stop_on_first_tool"
    result = await run(first, "go")
    assert (result.final_output, result.last_agent, world.done) == ("from second", second, ["free(0)"])


async def test_a_tool_that_is_not_there_ends_nothing(world: World, run: Run) -> None:
    agent = asking(world, [call("gone", "c1")], "end", tool_use_behavior="stop_on_first_tool")
    config = RunConfig(tool_not_found_behavior="return_error_to_model")
    assert (await run(agent, "go", run_config=config)).final_output == "end"


async def test_values_reach_the_judge_and_text_agents_answer_with_text(run: Run, saved: bool) -> None:
    @function_tool(needs_approval=True)
    def numbers() -> list[int]:
        return [1, 2]

    got: list[Any] = []

    def judge(_context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        got.extend(result.output for result in results)
        return ToolsToFinalOutputResult(True, results[0].output)

    agent = Agent("a", model=model([call("numbers", "c1")]), tools=[numbers], tool_use_behavior=judge)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert (got, result.final_output) == ([[1, 2]], "[1, 2]")
    typed = Agent("b", model=model([call("numbers", "c1")]), tools=[numbers], output_type=list[int])
    typed.tool_use_behavior = "stop_on_first_tool"
    result = await run(typed, await approved(await run(typed, "go"), typed, saved))
    assert result.final_output == [1, 2]


async def test_a_judge_that_raises_leaves_the_run_resumable(world: World, run: Run) -> None:
    broken = [True]

    def judge(_context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        if broken.pop() if broken else False:
            raise RuntimeError("bug")
        return ToolsToFinalOutputResult(True, results[0].output)

    agent = asking(world, [call("free", "c1")], tool_use_behavior=judge)
    with pytest.raises(RuntimeError, match="bug") as raised:
        await run(agent, "go")
    state = raised.value.run_data.to_state()
    assert (await run(agent, state)).final_output == "free(0)"
    assert world.done == ["free(0)"]


async def test_a_judgement_is_not_asked_for_again(world: World, run: Run, saved: bool) -> None:
    judged: list[int] = []

    def judge(_context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        judged.append(len(results))
        return ToolsToFinalOutputResult(False)

    agent = asking(world, [call("free", "c1")], [call("ask", "c2")], "end", tool_use_behavior=judge)
    result = await run(agent, "go")
    assert judged == [1]
    result = await run(agent, await approved(result, agent, saved))
    assert (judged, result.final_output) == ([1, 1], "end")


# Tool choice.
async def test_a_forced_choice_is_reset_after_a_tool(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "end", model_settings=ModelSettings(tool_choice="required"))
    await run(agent, await approved(await run(agent, "go"), agent, saved))
    choices = [request.model_settings.tool_choice for request in asked(agent)]
    assert choices == ["required", None]


async def test_a_forced_choice_can_be_kept(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "end", model_settings=ModelSettings(tool_choice="ask"))
    agent.reset_tool_choice = False
    await run(agent, await approved(await run(agent, "go"), agent, saved))
    choices = [request.model_settings.tool_choice for request in asked(agent)]
    assert choices == ["ask", "ask"]


async def test_the_runs_own_choice_is_reset_as_well(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], "end")
    await run(agent, "go", run_config=RunConfig(model_settings=ModelSettings(tool_choice="required", temperature=0.5)))
    told = [request.model_settings for request in asked(agent)]
    assert [(settings.tool_choice, settings.temperature) for settings in told] == [("required", 0.5), (None, 0.5)]


# What is offered, and how the agent is instructed.
async def test_tools_that_are_not_enabled_are_not_offered(world: World, run: Run) -> None:
    async def only_for_ann(context: Any, agent: Any) -> bool:
        return bool(context.context == "ann")

    tools = [
        world.tool("always"),
        world.tool("never", is_enabled=False),
        world.tool("ann", is_enabled=only_for_ann),
        world.tool("sync", is_enabled=lambda context, agent: context.context != "ann"),
    ]
    agent = Agent("a", model=model("hi", "hi"), tools=tools)
    await run(agent, "go", context="ann")
    await run(agent, "go", context="bob")
    offered = [[tool.name for tool in request.tools] for request in asked(agent)]
    assert offered == [["always", "ann"], ["always", "sync"]]


async def test_what_is_enabled_is_asked_each_turn(world: World, run: Run) -> None:
    tools = [world.tool("free"), world.tool("later", is_enabled=lambda _context, _agent: bool(world.done))]
    agent = Agent("a", model=model([call("free", "c1")], [call("later", "c2")], "end"), tools=tools)
    assert (await run(agent, "go")).final_output == "end"
    offered = [[tool.name for tool in request.tools] for request in asked(agent)]
    assert offered == [["free"], ["free", "later"], ["free", "later"]]
    assert world.done == ["free(0)", "later(0)"]


async def test_a_tool_that_is_not_enabled_cannot_be_called(world: World, run: Run) -> None:
    agent = Agent("a", model=model([call("off", "c1")], "end"), tools=[world.tool("off", is_enabled=False)])
    with pytest.raises(ModelBehaviorError, match="does not have"):
        await run(agent, "go")
    assert world.done == []


async def test_instructions_may_be_worked_out(run: Run) -> None:
    async def later(context: Any, agent: Any) -> str:
        return f"{agent.name} for {context.context}"

    for instructions in ("plain", later, lambda context, agent: f"{agent.name} for {context.context}"):
        agent = Agent("a", instructions, model=model("hi"))
        await run(agent, "go", context="ann")
        said = asked(agent)[0].system_instructions
        assert said == ("plain" if instructions == "plain" else "a for ann")


async def test_instructions_are_asked_at_every_turn_and_kept_out_of_the_log(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], "end")
    agent.instructions = lambda _context, _agent: f"{len(world.done)} done"
    result = await run(agent, "go")
    told = [request.system_instructions for request in asked(agent)]
    assert told == ["0 done", "1 done"]
    assert "1 done" not in result.to_state().to_string()


# Answers of a type.

TYPED: list[tuple[Any, str, Any]] = [
    (Receipt, '{"order":"o1","cents":5}', Receipt(order="o1", cents=5)),
    (Point, '{"x":1,"y":2}', Point(1, 2)),
    (Pair, '{"left":"l","right":3}', {"left": "l", "right": 3}),
    (list[int], '{"response":[1,2]}', [1, 2]),
    (int, '{"response":7}', 7),
]


@each(("output_type", "text", "value"), TYPED, ids=["model", "dataclass", "dict", "list", "int"])
async def test_typed_answers_over_save_and_load(
    world: World, run: Run, saved: bool, output_type: Any, text: str, value: Any
) -> None:
    agent = asking(world, [call("ask", "c1")], text, output_type=output_type)
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert result.final_output == value
    assert type(result.final_output) is type(value)
    again = await run(agent, await state_of(result, agent, saved))
    assert again.final_output == value
    assert type(again.final_output) is type(value)
    assert asked(agent)[0].output_schema.name()


async def test_a_typed_answer_of_a_tool_survives_as_what_a_log_can_hold(run: Run) -> None:
    @function_tool(needs_approval=True)
    def receipt() -> Receipt:
        return Receipt(order="o1", cents=5)

    agent = Agent("a", model=model([call("receipt", "c1")]), tools=[receipt], output_type=Receipt)
    agent.tool_use_behavior = "stop_on_first_tool"
    result = await run(agent, await approved(await run(agent, "go"), agent))
    assert json.loads(json.dumps(result.to_state().live.run.output)) == {"order": "o1", "cents": 5}
    assert result.final_output in (Receipt(order="o1", cents=5), {"order": "o1", "cents": 5})


async def test_a_judge_and_an_item_get_the_object_that_a_tool_returned(run: Run) -> None:
    made = Receipt(order="o1", cents=5)

    @function_tool
    def receipt() -> Receipt:
        return made

    def judge(_context: Any, results: list[FunctionToolResult]) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(True, f"{results[0].output.order}: {results[0].output.cents}")

    agent = Agent("a", model=model([call("receipt", "c1")]), tools=[receipt], tool_use_behavior=judge)
    result = await run(agent, "go")
    assert result.final_output == "o1: 5"
    [item] = [item for item in result.new_items if item.type == "tool_call_output_item"]
    assert item.output is made
    agent = Agent("b", model=model([call("receipt", "c1")]), tools=[receipt])
    agent.tool_use_behavior = "stop_on_first_tool"
    assert (await run(agent, "go")).final_output == str(made)


async def test_what_stands_in_a_log_is_not_replaced_by_an_object_of_another_result(run: Run, saved: bool) -> None:
    @function_tool(needs_approval=True)
    def receipt() -> Receipt:
        return Receipt(order="o1", cents=5)

    agent = Agent("a", model=model([call("receipt", "c1")], "done"), tools=[receipt])
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    live = result.to_state().live
    [(called, (recorded, held))] = live.objects.items()
    assert held == Receipt(order="o1", cents=5)
    assert live.returned(called, {**recorded, "output": "settled by a person"}, None) == "settled by a person"


async def test_a_reply_without_an_answer_asks_again(run: Run) -> None:
    agent = Agent("a", model=model([{"type": "reasoning", "summary": []}], '{"x":1,"y":2}'), output_type=Point)
    assert (await run(agent, "go")).final_output == Point(1, 2)


async def test_an_answer_of_the_wrong_type_is_the_models_mistake(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], '{"x":"many"}', output_type=Point)
    with pytest.raises(ModelBehaviorError, match="Point"):
        await run(agent, "go")
    assert world.done == ["free(0)"]


async def test_an_answer_that_was_not_taken_can_be_answered(world: World, run: Run, saved: bool) -> None:
    """The same reply is judged again, unless somebody says what was wrong with it."""
    for wrong in ('{"x":"many"}', [refusal("I will not")]):
        agent = asking(world, [call("free", "c1")], wrong, '{"x":1,"y":2}', output_type=Point)
        with pytest.raises((ModelBehaviorError, ModelRefusalError)) as raised:
            await run(agent, "go")
        state = await state_of(raised.value.run_data, agent, saved)
        with pytest.raises((ModelBehaviorError, ModelRefusalError)):
            await run(agent, state)
        state.add_input("numbers, please")
        result = await run(agent, state)
        assert result.final_output == Point(1, 2)
        items = ["user", "call c1", "output c1", "assistant", "user", "assistant"]
        assert shape(result.to_input_list()) == items
        assert shape(asked(agent)[-1].input) == items[:-1]
    assert world.done == ["free(0)", "free(0)"]


async def test_a_handler_can_answer_for_a_wrong_type_and_for_a_refusal(run: Run) -> None:
    handlers = {"invalid_final_output": lambda data: Point(0, 0), "model_refusal": lambda data: data.error.refusal}
    agent = Agent("a", model=model("not json"), output_type=Point)
    result = await run(agent, "go", error_handlers=handlers)
    assert result.final_output == Point(0, 0)
    agent = Agent("a", model=model([refusal("I will not")]), output_type=Point)
    assert (await run(agent, "go", error_handlers=handlers)).final_output == "I will not"


@pytest.mark.parametrize("output_type", [None, str, Point])
async def test_a_refusal_is_no_answer_of_any_agent(run: Run, output_type: Any) -> None:
    agent = Agent("a", model=model([refusal("I will not")]), output_type=output_type)
    with pytest.raises(ModelRefusalError) as raised:
        await run(agent, "go")
    assert raised.value.refusal == "I will not"
    handlers = {"model_refusal": lambda data: data.error.refusal}
    agent = Agent("a", model=model([refusal("I will not")]), output_type=output_type)
    assert (await run(agent, "go", error_handlers=handlers)).final_output == "I will not"


async def test_an_agent_without_tools_answers_at_once(run: Run) -> None:
    result = await run(Agent("a", model=model(["one", "two"])), "go")
    assert result.final_output == "two"
    assert outputs(result.to_input_list()) == {}


async def test_an_empty_answer_is_an_answer() -> None:
    assert (await plain(Agent("a", model=model([])), "go")).final_output == ""
