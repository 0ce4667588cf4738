"""A resume costs no turn, limits are kept and honoured, nothing is counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    ModelBehaviorError,
    RunConfig,
    RunErrorHandlerInput,
    RunErrorHandlerResult,
    Runner,
    RunState,
    StopAtTools,
    ToolsToFinalOutputResult,
    Usage,
    UserError,
)
from keyturn.models.scripted.model import ModelStep, ScriptedModel, function_call
from keyturn.testing import approve_all
from tests.playing import (
    Run,
    World,
    approved,
    asking,
    call,
    counted,
    model,
    outputs,
    plain,
    read,
    shape,
    state_of,
)


async def test_a_resume_costs_no_turn(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], [call("ask", "c2")], "done")
    result = await run(agent, "go", max_turns=3)
    assert result.max_turns == 3
    result = await run(agent, await approved(result, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)", "ask(0)"])
    assert result.max_turns == 3


async def test_turns_go_on_counting_over_a_pause(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("free", "c1")], [call("ask", "c2")], [call("free", "c3")], "never")
    result = await run(agent, "go", max_turns=3)
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, await approved(result, agent, saved))
    assert world.done == ["free(0)", "ask(0)", "free(0)"]


async def test_spent_turns_are_said_before_an_approved_tool_runs(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", max_turns=1)
    state = await approved(result, agent, saved)
    with pytest.raises(MaxTurnsExceeded) as raised:
        await run(agent, state)
    assert world.done == []
    assert len(raised.value.run_data.interruptions) == 1
    again = await run(agent, state, max_turns=2)
    assert (again.final_output, world.done, again.max_turns) == ("done", ["ask(0)"], 2)


async def test_the_error_at_the_limit_carries_a_state_that_goes_on(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", max_turns=1)
    with pytest.raises(MaxTurnsExceeded) as raised:
        await run(agent, await approved(result, agent))
    state = await approved(raised.value.run_data, agent, saved=True)
    result = await run(agent, state, max_turns=5)
    assert (result.final_output, world.done) == ("done", ["ask(0)"])


async def test_a_rejection_at_the_limit_is_kept_for_a_higher_one(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = (await run(agent, "go", max_turns=1)).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no")
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state)
    result = await run(agent, state, max_turns=2)
    assert outputs(result.to_input_list()) == {"c1": "no"}
    assert world.done == []


@pytest.mark.parametrize(
    "behavior",
    [
        "stop_on_first_tool",
        StopAtTools(stop_at_tool_names=["ask"]),
        lambda _context, results: ToolsToFinalOutputResult(True, results[0].output),
    ],
    ids=["first", "named", "callable"],
)
async def test_the_last_turn_may_end_with_an_approved_tool(world: World, run: Run, behavior: Any) -> None:
    agent = asking(world, [call("ask", "c1")], tool_use_behavior=behavior)
    result = await run(agent, "go", max_turns=1)
    result = await run(agent, await approved(result, agent))
    assert (result.final_output, world.done) == ("ask(0)", ["ask(0)"])


async def test_a_tool_that_cannot_end_the_last_turn_does_not_run(world: World, run: Run) -> None:
    """`StopAtTools` tells: none of these calls ends the run, so another model call would follow."""
    agent = asking(world, [call("ask", "c1")], "done", tool_use_behavior=StopAtTools(stop_at_tool_names=["free"]))
    result = await run(agent, "go", max_turns=1)
    state = await approved(result, agent)
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, state)
    assert world.done == []
    assert (await run(agent, state, max_turns=2)).final_output == "done"


async def test_calls_of_the_last_turn_that_need_nobody_still_run(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], "done")
    with pytest.raises(MaxTurnsExceeded) as raised:
        await run(agent, "go", max_turns=1)
    assert world.done == ["free(0)"]
    state = raised.value.run_data.to_state()
    result = await run(agent, state, max_turns=2)
    assert (result.final_output, world.done) == ("done", ["free(0)"])


async def test_another_limit_at_resume_is_honoured_and_kept(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], [call("ask", "c2")], [call("ask", "c3")], "done")
    result = await run(agent, "go", max_turns=2)
    result = await run(agent, await approved(result, agent, saved), max_turns=4)
    result = await run(agent, await approved(result, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, result.max_turns) == ("done", 4)


async def test_a_lower_limit_at_resume_is_honoured(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], [call("free", "c2")], "never")
    result = await run(agent, "go")
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, await approved(result, agent), max_turns=2)
    assert world.done == ["ask(0)", "free(0)"]


async def test_no_limit_at_all(world: World, run: Run, saved: bool) -> None:
    rounds = [[call("free", f"c{n}", x=n)] for n in range(15)]
    agent = asking(world, *rounds, [call("ask", "last")], "done")
    result = await run(agent, "go", max_turns=None)
    assert result.max_turns is None
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, len(world.done)) == ("done", 16)


async def test_a_limit_can_be_taken_away_at_resume(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], *[[call("free", f"f{n}")] for n in range(12)], "done")
    result = await plain(agent, "go", max_turns=1)
    result = await plain(agent, await approved(result, agent), max_turns=None)
    assert (result.final_output, result.max_turns) == ("done", None)


HANDLERS: dict[str, Any] = {
    "a value": lambda data: "out of turns",
    "a dict": lambda data: {"final_output": "out of turns"},
    "a result": lambda data: RunErrorHandlerResult(final_output="out of turns"),
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=list(HANDLERS))
async def test_a_handler_answers_at_the_limit(world: World, run: Run, handler: Any) -> None:
    agent = asking(world, [call("free", "c1")], "never")
    result = await run(agent, "go", max_turns=1, error_handlers={"max_turns": handler})
    assert result.final_output == "out of turns"
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1", "assistant"]


async def test_a_handlers_answer_can_stay_out_of_the_history(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], "never")

    async def handler(data: RunErrorHandlerInput[Any]) -> RunErrorHandlerResult:
        assert isinstance(data.error, MaxTurnsExceeded)
        assert data.context.context == "ctx"
        assert [item.type for item in data.run_data.new_items] == ["tool_call_item", "tool_call_output_item"]
        assert shape(data.run_data.history) == ["user", "call c1", "output c1"]
        return RunErrorHandlerResult(final_output={"gave": "up"}, include_in_history=False)

    result = await run(agent, "go", context="ctx", max_turns=1, error_handlers={"max_turns": handler})
    assert result.final_output == {"gave": "up"}
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1"]


async def test_a_handler_that_answers_nothing_leaves_the_error(world: World, run: Run) -> None:
    agent = asking(world, [call("free", "c1")], "never")
    with pytest.raises(MaxTurnsExceeded):
        await run(agent, "go", max_turns=1, error_handlers={"max_turns": lambda data: None})


async def test_a_handler_at_resume_sees_the_tool_that_ran(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "never")
    result = await run(agent, "go", max_turns=1)
    handlers = {"max_turns": lambda data: f"{len(data.run_data.new_items)} items"}
    result = await run(agent, await approved(result, agent), error_handlers=handlers)
    assert (result.final_output, world.done) == ("3 items", ["ask(0)"])


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3"])
async def test_a_limit_that_is_none_is_refused(world: World, limit: Any) -> None:
    agent = asking(world, "hi")
    with pytest.raises(UserError, match="max_turns"):
        await plain(agent, "go", max_turns=limit)


async def test_no_turn_at_all_is_a_limit_too(world: World) -> None:
    with pytest.raises(MaxTurnsExceeded):
        await plain(asking(world, "hi"), "go", max_turns=0)


async def test_an_unknown_kind_of_handler_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="error_handlers has no kind"):
        await plain(asking(world, "hi"), "go", error_handlers={"maxturns": lambda data: "x"})


def counting(world: World) -> Agent[Any]:
    """An agent whose replies each count something else."""
    steps = [
        ModelStep([call("ask", "c1"), call("free", "c0")], usage=counted(1)),
        ModelStep([call("ask", "c2")], usage=counted(2)),
        ModelStep("done", usage=counted(4)),
    ]
    return asking(world, *steps)


def total(usage: Usage) -> tuple[int, int, int, int]:
    return usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens


async def test_usage_goes_on_and_is_counted_once(world: World, run: Run, saved: bool) -> None:
    agent = counting(world)
    first = await run(agent, "go")
    assert total(first.usage) == total(first.context_wrapper.usage) == (1, 10, 1, 11)
    second = await run(agent, await approved(first, agent, saved))
    assert total(second.usage) == total(second.context_wrapper.usage) == (2, 30, 3, 33)
    third = await run(agent, await approved(second, agent, saved))
    assert total(third.usage) == total(third.context_wrapper.usage) == (3, 70, 7, 77)
    assert total(first.usage) == (1, 10, 1, 11)
    assert total(third.to_state().usage) == (3, 70, 7, 77)


async def test_an_idle_resume_counts_nothing(world: World, run: Run) -> None:
    agent = counting(world)
    result = await run(agent, "go")
    for _ in range(3):
        result = await run(agent, result.to_state())
    assert total(result.usage) == total(result.context_wrapper.usage) == (1, 10, 1, 11)


async def test_usage_of_nested_agents_counts_on_the_outer_run(world: World, run: Run, saved: bool) -> None:
    steps = [ModelStep([call("ask", "i1")], usage=counted(1)), ModelStep("in", usage=counted(2))]
    inner = asking(world, *steps)
    outer_steps = [ModelStep([call("inner", "o1", input="x")], usage=counted(4)), ModelStep("out", usage=counted(8))]
    outer = Agent("outer", model=model(*outer_steps), tools=[inner.as_tool("inner", "asks")])
    result = await run(outer, "go")
    assert total(result.usage) == (2, 50, 5, 55)
    result = await run(outer, await approved(result, outer, saved))
    assert total(result.usage) == total(result.context_wrapper.usage) == (4, 150, 15, 165)


async def test_a_context_given_at_resume_keeps_the_usage(world: World, run: Run) -> None:
    agent = counting(world)
    result = await run(agent, "go", context={"n": 1})
    result = await run(agent, await approved(result, agent), context={"n": 2})
    assert total(result.usage) == total(result.context_wrapper.usage) == (2, 30, 3, 33)
    assert result.context_wrapper.context == {"n": 2}


async def test_a_failed_model_call_costs_no_turn_and_no_usage(world: World, run: Run) -> None:
    steps = [ModelStep([call("free", "c1")], usage=counted(1)), OSError("down"), ModelStep("done", usage=counted(2))]
    agent = asking(world, *steps)
    with pytest.raises(OSError, match="down") as raised:
        await run(agent, "go", max_turns=2)
    result = await run(agent, raised.value.run_data.to_state())
    assert (result.final_output, world.done) == ("done", ["free(0)"])
    assert total(result.usage) == total(result.context_wrapper.usage) == (2, 30, 3, 33)


async def test_a_stream_tells_its_turn(world: World) -> None:
    agent = counting(world)
    stream = Runner.run_streamed(agent, "go")
    assert stream.current_turn == 0
    await read(stream)
    assert stream.current_turn == 1
    stream = Runner.run_streamed(agent, await approved(stream.run_loop_task.result(), agent))
    assert stream.current_turn == 1
    await read(stream)
    assert stream.current_turn == 2


async def test_two_states_of_one_result_count_for_themselves(world: World) -> None:
    agent = counting(world)
    result = await plain(agent, "go")
    one, other = await state_of(result, agent, True), await state_of(result, agent, True)
    assert one.usage is not other.usage
    assert total(one.usage) == total(other.usage) == (1, 10, 1, 11)
    approve_all(one)
    await plain(agent, one)
    assert total(other.usage) == (1, 10, 1, 11)
    assert isinstance(other, RunState)


async def test_a_reply_of_very_many_calls_is_refused_whole_before_they_are_read(run: Run) -> None:
    """So many calls hold up every other run; what the reply used is counted, and the run can be resumed."""
    seen: list[str] = []

    class Counted(FunctionTool):
        def prepare(self, item: Any) -> Any:
            seen.append(item["call_id"])
            return super().prepare(item)

    async def nothing(_context: Any, _arguments: str) -> str:
        return "done"

    tool = Counted("note", "Note.", {"type": "object", "properties": {}}, nothing, strict_json_schema=False)
    for most, options in ((1_000, {}), (3, {"run_config": RunConfig(max_calls_per_reply=3)})):
        seen.clear()
        calls = [function_call("note", {}, call_id=f"c{number}") for number in range(10 * most)]
        agent = Agent("desk", model=ScriptedModel([calls, "done"]), tools=[tool])
        with pytest.raises(ModelBehaviorError, match=f"more than {most} calls in one reply; nothing of it was used"):
            await run(agent, "go", **options)
        assert len(seen) <= most
        agent = Agent("desk", model=ScriptedModel([calls[:most], "done"]), tools=[tool])
        assert (await run(agent, "go", **options)).final_output == "done"
    for wrong in (0, -1, True, 1.5, None):
        with pytest.raises(UserError, match="max_calls_per_reply must be a whole number"):
            RunConfig(max_calls_per_reply=wrong)  # pyright: ignore[reportArgumentType] - the mistake that is tried
