"""What a resume does: it goes on from where the run stands, repeats nothing, and changes nothing without news."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from keyturn import (
    Agent,
    Conflict,
    MessageOutputItem,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    ToolApprovalItem,
    ToolCallItem,
    ToolCallOutputItem,
    UserError,
    function_tool,
)
from keyturn.models.scripted.model import ModelStep, last_user_text
from keyturn.sessions.history import orphan_calls, orphan_outputs
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
    streamed,
)


async def test_an_idle_resume_changes_nothing(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2")], "done")
    result = await run(agent, "go")
    for _ in range(3):
        again = await run(agent, await state_of(result, agent, saved))
        assert [item.request_id for item in again.interruptions] == [item.request_id for item in result.interruptions]
        result = again
    assert (world.done, len(asked(agent))) == (["free(0)"], 1)


async def test_resuming_a_finished_run_gives_its_result_and_calls_nothing(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, await approved(await run(agent, "go"), agent))
    again = await run(agent, await state_of(result, agent, saved))
    assert (again.final_output, again.run_id) == ("done", result.run_id)
    assert again.to_input_list() == result.to_input_list()
    assert (world.done, len(asked(agent))) == (["ask(0)"], 2)


async def test_a_result_can_be_passed_for_its_state(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go")
    again = await run(agent, result)
    assert len(again.interruptions) == 1
    assert result.state.run_id == result.run_id


async def test_a_state_made_by_hand_starts_the_run(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state: RunState[Any] = RunState(context={"u": 1}, original_input="go", starting_agent=agent, max_turns=7)
    assert state.get_interruptions() == []
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    assert (result.max_turns, result.input, result.context_wrapper.context) == (7, "go", {"u": 1})
    result = await run(agent, await approved(result, agent))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])


async def test_the_fields_of_a_paused_and_a_finished_result(world: World, run: Run, saved: bool) -> None:
    agent = asking(
        world, ModelStep(["hm", call("ask", "c1", x=1)], response_id="r1"), ModelStep("done", response_id="r2")
    )
    paused = await run(agent, "go", context="ctx")
    assert (paused.final_output, paused.input, paused.last_agent, paused.last_response_id) == (None, "go", agent, "r1")
    assert [type(item) for item in paused.new_items] == [MessageOutputItem, ToolCallItem, ToolApprovalItem]
    assert paused.context_wrapper.context == "ctx"
    assert [reply.response_id for reply in paused.raw_responses] == ["r1"]
    done = await run(agent, await approved(paused, agent, saved))
    kinds = [MessageOutputItem, ToolCallItem, ToolApprovalItem, ToolCallOutputItem, MessageOutputItem]
    assert [type(item) for item in done.new_items] == kinds
    assert (done.final_output, done.interruptions, done.last_response_id) == ("done", [], "r2")
    assert done.final_output_as(str) == "done"
    with pytest.raises(TypeError):
        done.final_output_as(int, raise_if_incorrect_type=True)
    assert [reply.response_id for reply in done.raw_responses] == ["r1", "r2"]
    assert [type(item) for item in paused.new_items] == [MessageOutputItem, ToolCallItem, ToolApprovalItem]
    assert (paused.final_output, len(paused.interruptions)) == (None, 1)


async def test_the_input_list_of_a_paused_result_is_acceptable_to_a_provider(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2"), call("ask", "c3")], "done")
    result = await run(agent, "go")
    items = result.to_input_list()
    assert orphan_calls(items) == orphan_outputs(items) == []
    assert outputs(items)["c2"] == "free(0)"
    assert "not executed" in outputs(items)["c1"]
    fresh = Agent("b", model=model("fine"))
    assert (await run(fresh, [*items, {"role": "user", "content": "never mind"}])).final_output == "fine"
    assert world.done == ["free(0)"]


async def test_results_are_in_the_order_of_the_calls(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2"), call("ask", "c3"), call("free", "c4")], "done")
    result = await run(agent, "go")
    state = await state_of(result, agent, saved)
    state.approve(state.get_interruptions()[1])
    result = await run(agent, state)
    result = await run(agent, await approved(result, agent, saved))
    expected = [f"call c{n}" for n in range(1, 5)] + [f"output c{n}" for n in range(1, 5)]
    assert shape(result.to_input_list()) == ["user", *expected, "assistant"]
    assert shape(asked(agent)[-1].input) == ["user", *expected]
    assert sorted(world.done) == ["ask(0)", "ask(0)", "free(0)", "free(0)"]


async def test_a_stale_state_is_a_conflict_and_nothing_runs_twice(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go")
    one, other = await approved(result, agent), await approved(result, agent, saved=True)
    assert (await run(agent, one)).final_output == "done"
    with pytest.raises(Conflict):
        await run(agent, other)
    assert world.done == ["ask(0)"]


async def test_two_resumes_at_once(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await plain(agent, "go")
    states = [await approved(result, agent, saved=n > 0) for n in range(3)]
    ended = await asyncio.gather(*(Runner.run(agent, state) for state in states), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ended) == ["Conflict", "Conflict", "RunResult"]
    assert world.done == ["ask(0)"]


async def test_a_standing_decision_on_a_stale_state_is_a_typed_error(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = await plain(agent, "go")
    late = result.to_state()
    await plain(agent, await approved(result, agent))
    with pytest.raises((Conflict, UserError)):
        late.approve(late.get_interruptions()[0], always_approve=True)
    with pytest.raises(Conflict):
        await plain(agent, late)
    assert world.done == ["ask(0)"]


async def test_a_state_resumed_again_goes_on_from_where_the_run_stands(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], OSError("down"), [call("ask", "c2")], "done")
    state = await approved(await run(agent, "go"), agent)
    with pytest.raises(OSError, match="down"):
        await run(agent, state)
    assert world.done == ["ask(0)"]
    result = await run(agent, state)
    assert (len(result.interruptions), world.done) == (1, ["ask(0)"])
    state.approve(state.get_interruptions()[0])
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)", "ask(0)"]


async def test_what_was_added_is_read_after_the_results(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1"), call("free", "c2")], "done")
    result = await run(agent, "go")
    state = result.to_state()
    state.add_input("and hurry")
    assert state.pending_input == [{"role": "user", "content": "and hurry"}]
    if saved:
        state = await RunState.from_string(agent, state.to_string())
        assert state.pending_input == [{"role": "user", "content": "and hurry"}]
    state.approve(state.get_interruptions()[0])
    result = await run(agent, state)
    request = asked(agent)[-1]
    assert shape(request.input) == ["user", "call c1", "call c2", "output c1", "output c2", "user"]
    assert last_user_text(request) == "and hurry"
    assert shape(result.to_input_list()) == [*shape(request.input), "assistant"]
    assert [item.type for item in result.new_items].count("message_output_item") == 1
    assert state.pending_input == []


async def test_what_was_added_without_a_decision_waits_with_the_call(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = (await run(agent, "go")).to_state()
    state.add_input([{"role": "user", "content": "first"}])
    result = await run(agent, state)
    assert (len(result.interruptions), len(asked(agent))) == (1, 1)
    result = await run(agent, await approved(result, agent))
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1", "user", "assistant"]


async def test_added_input_can_be_taken_back(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = (await plain(agent, "go")).to_state()
    state.add_input("oops")
    state.clear_pending_input()
    state.approve(state.get_interruptions()[0])
    result = await plain(agent, state)
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1", "assistant"]


async def test_nothing_is_added_to_a_finished_run(world: World) -> None:
    agent = asking(world, "done")
    state = (await plain(agent, "go")).to_state()
    with pytest.raises(UserError, match="over"):
        state.add_input("more")


async def test_trace_and_workflow_are_kept(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    config = RunConfig(workflow_name="Refunds", trace_id="trace_1", group_id="g")
    result = await run(agent, "go", run_config=config)
    state = await approved(result, agent, saved=True)
    about = state.live.run.about
    assert (about["workflow"], about["trace_id"], about["group_id"]) == ("Refunds", "trace_1", "g")


def test_run_sync_without_and_inside_a_running_loop(world: World) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    result = Runner.run_sync(agent, "go")

    async def notebook() -> Any:
        state = result.to_state()
        state.approve(state.get_interruptions()[0])
        return Runner.run_sync(agent, state)

    assert asyncio.run(notebook()).final_output == "done"
    assert world.done == ["ask(0)"]


def test_run_sync_raises_in_the_callers_thread() -> None:
    agent = Agent("a", model=model(OSError("down"), KeyboardInterrupt()))

    async def notebook() -> None:
        Runner.run_sync(agent, "go")

    with pytest.raises(OSError, match="down"):
        asyncio.run(notebook())


def test_run_sync_keeps_context_variables() -> None:
    from contextvars import ContextVar

    who: ContextVar[str] = ContextVar("who", default="nobody")
    agent = Agent("a", instructions=lambda _context, _agent: f"for {who.get()}", model=model("one"))

    async def notebook() -> None:
        who.set("ann")
        Runner.run_sync(agent, "go")

    asyncio.run(notebook())
    assert asked(agent)[0].system_instructions == "for ann"


async def test_decisions_can_be_given_on_the_context(world: World, run: Run) -> None:
    """The older habit: approve on the result's context, then take its state."""
    agent = asking(world, [call("ask", "c1", x=1), call("ask", "c2", x=2)], "done")
    result = await run(agent, "go")
    wrapper = result.context_wrapper
    first, second = result.interruptions
    assert wrapper.is_tool_approved("ask", "c1") is None
    wrapper.approve_tool(first)
    wrapper.reject_tool(second, rejection_message="not two")
    assert (wrapper.is_tool_approved("ask", "c1"), wrapper.is_tool_approved("ask", "c2")) == (True, False)
    result = await run(agent, result.to_state())
    assert outputs(result.to_input_list()) == {"c1": "ask(1)", "c2": "not two"}
    assert world.done == ["ask(1)"]
    wrapper = result.context_wrapper
    assert wrapper.get_approval_status("ask", "c1") is True
    assert wrapper.is_tool_approved("ask", "c2") is False
    assert wrapper.get_rejection_message("ask", "c2") == "not two"


async def test_standing_decisions_can_be_given_on_the_context(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1", x=1)], [call("ask", "c2", x=2)], "done")
    result = await run(agent, "go")
    result.context_wrapper.approve_tool(result.interruptions[0], always_approve=True)
    assert result.context_wrapper.is_tool_approved("ask", "another") is True
    result = await run(agent, result.to_state())
    assert (result.final_output, world.done) == ("done", ["ask(1)", "ask(2)"])


async def test_what_was_given_as_input_is_not_touched(world: World, run: Run) -> None:
    given = [{"role": "user", "content": "go"}]
    agent = asking(world, [call("ask", "c1")], "done", "again")
    result = await run(agent, given)
    result = await run(agent, await approved(result, agent))
    assert given == [{"role": "user", "content": "go"}]
    items = result.to_input_list()
    items.append({"role": "user", "content": "more"})
    assert len(result.to_input_list()) == 4
    await run(agent, items)
    assert len(items) == 5


async def test_a_tool_can_ask_what_was_decided_of_it(run: Run, saved: bool) -> None:
    known: list[Any] = []

    @function_tool(needs_approval=True)
    def ask(context: Any) -> str:
        return "never"

    async def look(context: Any, _arguments: str) -> str:
        known.append((context.is_tool_approved("ask", "c1"), context.get_rejection_message("ask", "c1")))
        return "seen"

    from keyturn import FunctionTool

    look_tool = FunctionTool("look", "looks", {"type": "object", "properties": {}}, look)
    agent = Agent(
        "a", model=model([call("ask", "c1", context=1)], [call("look", "c2")], "done"), tools=[ask, look_tool]
    )
    state = await state_of(await run(agent, "go"), agent, saved)
    state.reject(state.get_interruptions()[0], rejection_message="no")
    await run(agent, state)
    assert known == [(False, "no")]


async def test_hooks_and_config_of_the_resume_are_those_given_there(world: World) -> None:
    seen: list[str] = []

    class Log(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            seen.append(result)

    agent = asking(world, [call("ask", "c1")], "done")
    result = await plain(agent, "go")
    await streamed(agent, await approved(result, agent), hooks=Log())
    assert seen == ["ask(0)"]
