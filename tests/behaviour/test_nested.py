"""Agents as tools, to any depth, several at once; every wait surfaces on the one outer run."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import (
    Agent,
    MemorySession,
    RunConfig,
    RunContextWrapper,
    RunHooks,
    RunState,
    UserError,
    function_tool,
)
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ModelStep, ScriptedModel, last_user_text, tool_outputs
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    asking_as,
    call,
    model,
    outer,
    outputs,
    plain,
    shape,
    state_of,
)
from tests.waiting import turns_of_the_loop, until


async def test_the_delegation_asks_then_what_it_does_asks(world: World, run: Run, saved: bool) -> None:
    inner = asking_as(world, "inner", [call("ask", "i1", x=1)], "inside")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks", needs_approval=True)])
    result = await run(agent, "go")
    [layer_one] = result.interruptions
    assert (layer_one.tool_name, layer_one.agent.name, layer_one.params) == ("inner", "outer", {"input": "x"})
    assert asked(inner) == []
    result = await run(agent, await approved(result, agent, saved))
    [layer_two] = result.interruptions
    assert (layer_two.tool_name, layer_two.agent.name, layer_two.call_id) == ("ask", "inner", "i1")
    assert result.last_agent is agent
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, outputs(result.to_input_list())) == ("done", {"o1": "inside"})
    assert (world.done, len(asked(inner))) == (["ask(1)"], 2)


async def test_a_rejected_delegation_never_starts_its_agent(world: World, run: Run) -> None:
    inner = asking_as(world, "inner", "never")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks", needs_approval=True)])
    state = (await run(agent, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="do it yourself")
    result = await run(agent, state)
    assert outputs(result.to_input_list()) == {"o1": "do it yourself"}
    assert asked(inner) == []


async def test_a_delegation_can_be_edited_and_answered(world: World, run: Run) -> None:
    inner = asking_as(world, "inner", "one")
    tool = inner.as_tool("inner", "asks", needs_approval=True)
    agent = outer(call("inner", "o1", input="x"), call("inner", "o2", input="y"), tools=[tool])
    state = (await run(agent, "go")).to_state()
    first, second = state.get_interruptions()
    state.approve(first, edit={"input": "kinder"})
    state.answer(second, "a person says so")
    result = await run(agent, state)
    told = outputs(result.to_input_list())
    assert told["o1"].endswith("one")
    assert "kinder" in told["o1"]
    assert told["o2"] == "a person says so"
    assert last_user_text(asked(inner)[0]) == "kinder"


def tower(world: World, depth: int) -> Agent[Any]:
    """Agents in one another, each of whose delegations asks and each of which makes a call of its own."""
    made = asking_as(world, "level0", [call("ask", "c0", x=0)], "answer 0")
    for level in range(1, depth):
        calls = [call("ask", f"c{level}", x=level), call("deeper", f"d{level}", input=f"to {level - 1}")]
        tool = made.as_tool("deeper", "goes deeper", needs_approval=True)
        made = asking_as(world, f"level{level}", calls, f"answer {level}", more=[tool])
    return made


async def test_three_levels_with_approvals_at_each(world: World, run: Run, saved: bool) -> None:
    agent = tower(world, 4)
    result = await run(agent, "go")
    seen: list[list[str]] = []
    while result.interruptions:
        seen.append([f"{item.agent.name} {item.tool_name}" for item in result.interruptions])
        result = await run(agent, await approved(result, agent, saved))
    assert seen == [
        ["level3 ask", "level3 deeper"],
        ["level2 ask", "level2 deeper"],
        ["level1 ask", "level1 deeper"],
        ["level0 ask"],
    ]
    assert result.final_output == "answer 3"
    assert world.done == ["ask(3)", "ask(2)", "ask(1)", "ask(0)"]


async def test_partial_decisions_at_every_level(world: World, run: Run, saved: bool) -> None:
    """One call decided a round, the deepest first: the others keep waiting and nothing is asked again."""
    agent = tower(world, 4)
    result = await run(agent, "go")
    rounds = 0
    while result.interruptions:
        state = await state_of(result, agent, saved)
        state.approve(state.get_interruptions()[-1])
        result = await run(agent, state)
        rounds += 1
    assert (rounds, result.final_output) == (7, "answer 3")
    assert world.done == ["ask(0)", "ask(1)", "ask(2)", "ask(3)"]
    assert len(result.raw_responses) == 2


async def test_several_nested_agents_wait_at_once(world: World, run: Run, saved: bool) -> None:
    left = asking_as(world, "left", [call("ask", "x", x=1)], "from left")
    right = asking_as(world, "right", [call("ask", "x", x=2), call("free", "f", x=3)], "from right")
    tools = [left.as_tool("left", "l"), right.as_tool("right", "r"), world.tool("free")]
    agent = outer(call("left", "l", input=""), call("right", "r", input=""), call("free", "z", x=4), tools=tools)
    result = await run(agent, "go")
    assert [(item.agent.name, item.call_id) for item in result.interruptions] == [("left", "x"), ("right", "x")]
    assert sorted(world.done) == ["free(3)", "free(4)"]
    state = await state_of(result, agent, saved)
    state.reject(state.get_interruptions()[0], rejection_message="not left")
    result = await run(agent, state)
    assert [item.agent.name for item in result.interruptions] == ["right"]
    assert len(asked(agent)) == 1
    result = await run(agent, await approved(result, agent, saved))
    assert outputs(result.to_input_list()) == {"l": "from left", "r": "from right", "z": "free(4)"}
    assert outputs(asked(left)[-1].input) == {"x": "not left"}
    assert sorted(world.done) == ["ask(2)", "free(3)", "free(4)"]


def echo(request: ModelRequest) -> Any:
    """Asks with the number it was given, then says what came of it."""
    known, number = tool_outputs(request), int(last_user_text(request))
    if not known:
        return [call("ask", "same", x=number)]
    return f"got {known['same']}"


async def test_one_agent_tool_called_many_times_at_once(world: World, run: Run, saved: bool) -> None:
    inner = Agent("inner", model=ScriptedModel(echo), tools=[world.tool("ask", needs_approval=True)])
    calls = [call("inner", f"o{n}", input=str(n)) for n in range(5)]
    agent = outer(*calls, tools=[inner.as_tool("inner", "asks")])
    result = await run(agent, "go")
    assert [item.params["x"] for item in result.interruptions] == [0, 1, 2, 3, 4]
    state = await state_of(result, agent, saved)
    for item in state.get_interruptions():
        if item.params["x"] % 2:
            state.approve(item)
        else:
            state.reject(item)
    result = await run(agent, state)
    no = "got Tool execution was not approved."
    expected = {"o0": no, "o1": "got ask(1)", "o2": no, "o3": "got ask(3)", "o4": no}
    assert outputs(result.to_input_list()) == expected
    assert sorted(world.done) == ["ask(1)", "ask(3)"]


async def test_same_named_agents_and_clones_are_told_apart(world: World, run: Run, saved: bool) -> None:
    base = Agent("expert", model=model(), tools=[world.tool("ask", needs_approval=True)])
    one = base.clone(model=model([call("ask", "c", x=1)], [call("ask", "c", x=11)], "one"))
    two = base.clone(model=model([call("ask", "c", x=2)], [call("ask", "c", x=22)], "two"))
    tools = [one.as_tool("first", "1"), two.as_tool("second", "2")]
    agent = outer(call("first", "a", input=""), call("second", "b", input=""), tools=tools)
    result = await run(agent, "go")
    assert [item.agent for item in result.interruptions] == [one, two]
    state = await state_of(result, agent, saved)
    first, second = state.get_interruptions()
    state.approve(first, always_approve=True)
    state.reject(second, rejection_message="no")
    result = await run(agent, state)
    assert world.done == ["ask(1)", "ask(11)"]  # the standing approval is for the first expert, not for its namesake
    assert [item.params for item in result.interruptions] == [{"x": 22}]
    result = await run(agent, await approved(result, agent, saved))
    assert outputs(result.to_input_list()) == {"a": "one", "b": "two"}
    assert world.done == ["ask(1)", "ask(11)", "ask(22)"]


async def test_nested_frames_inherit_no_decision(world: World, run: Run, saved: bool) -> None:
    tool = world.tool("ask", needs_approval=True)
    inner = Agent("inner", model=model([call("ask", "i1", x=2)], "inside"), tools=[tool])
    steps = model([call("ask", "o1", x=1)], [call("inner", "o2", input="x")], "done")
    agent = Agent("outer", model=steps, tools=[tool, inner.as_tool("inner", "asks")])
    state = await state_of(await run(agent, "go"), agent, saved)
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await run(agent, state)
    assert [(item.agent.name, item.params) for item in result.interruptions] == [("inner", {"x": 2})]
    assert world.done == ["ask(1)"]


async def test_nested_frames_inherit_the_policy(world: World, run: Run) -> None:
    inner = asking_as(world, "inner", [call("free", "i1")], "inside")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks")])
    config = RunConfig(policy=lambda view, _context: "ask" if view.tool == "free" else None)
    result = await run(agent, "go", run_config=config)
    assert [item.tool_name for item in result.interruptions] == ["free"]
    assert world.done == []


async def test_nested_frames_inherit_the_run_config_where_they_have_none(world: World, run: Run, saved: bool) -> None:
    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks")])
    config = RunConfig(tool_error_formatter=lambda args: f"{args.tool_name}: ask the user first")
    state = await state_of(await run(agent, "go", run_config=config), agent, saved)
    state.reject(state.get_interruptions()[0])
    await run(agent, state, run_config=config)
    assert outputs(asked(inner)[-1].input) == {"i1": "ask: ask the user first"}


async def test_a_run_config_of_its_own(world: World, run: Run) -> None:
    chosen = model("from the other model")
    inner = asking_as(world, "inner")
    tool = inner.as_tool("inner", "asks", run_config=RunConfig(model=chosen))
    result = await run(outer(call("inner", "o1", input="x"), tools=[tool]), "go")
    assert outputs(result.to_input_list()) == {"o1": "from the other model"}


async def test_its_own_limit_of_turns(world: World, run: Run) -> None:
    inner = asking_as(world, "inner", [call("free", "i1")], [call("free", "i2")], "never")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks", max_turns=2)])
    result = await run(agent, "go", max_turns=2)
    assert outputs(result.to_input_list())["o1"].startswith("An error occurred")
    assert (world.done, result.final_output) == (["free(0)", "free(0)"], "done")


async def test_turns_of_a_nested_agent_are_not_the_outer_ones(world: World, run: Run, saved: bool) -> None:
    rounds = [[call("ask", f"i{n}")] for n in range(4)]
    inner = asking_as(world, "inner", *rounds, "inside")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks", max_turns=5)])
    result = await run(agent, "go", max_turns=2)
    while result.interruptions:
        result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.count("ask(0)")) == ("done", 4)


# What goes wrong inside.
async def test_an_error_inside_is_the_tools_result_and_never_a_siblings(world: World, run: Run) -> None:
    broken = Agent("broken", model=model(OSError("secret address")))
    fine = asking_as(world, "fine", [call("free", "i1")], "all well")
    tools = [broken.as_tool("broken", "b"), fine.as_tool("fine", "f")]
    agent = outer(call("broken", "b", input=""), call("fine", "f", input=""), tools=tools)
    result = await run(agent, "go")
    told = outputs(result.to_input_list())
    assert told["b"] == "An error occurred while running the tool. Please try again."
    assert (told["f"], world.done) == ("all well", ["free(0)"])


async def test_its_own_words_for_an_error(run: Run) -> None:
    async def words(context: Any, error: Exception) -> str:
        return f"{context.tool_name}: {type(error).__name__}"

    broken = Agent("broken", model=model(OSError("down")))
    tool = broken.as_tool("broken", "b", failure_error_function=words)
    result = await run(outer(call("broken", "b", input=""), tools=[tool]), "go")
    assert outputs(result.to_input_list()) == {"b": "broken: OSError"}


async def test_an_error_that_stops_the_run_leaves_the_nested_agent_resumable(
    world: World, run: Run, saved: bool
) -> None:
    inner = asking_as(world, "inner", [call("ask", "i1")], OSError("down"), "inside")
    tool = inner.as_tool("inner", "asks", failure_error_function=None)
    agent = outer(call("inner", "o1", input="x"), tools=[tool])
    state = await approved(await run(agent, "go"), agent, saved)
    with pytest.raises(OSError, match="down") as raised:
        await run(agent, state)
    assert world.done == ["ask(0)"]
    failed = raised.value.run_data
    result = await run(agent, await state_of(failed, agent, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])
    assert outputs(result.to_input_list()) == {"o1": "inside"}


async def test_a_fatal_tool_error_inside(world: World, run: Run, saved: bool) -> None:
    @function_tool(failure_error_function=None)
    def fatal() -> str:
        world.done.append("fatal")
        raise ZeroDivisionError("inside")

    inner = Agent("inner", model=model([call("fatal", "i1")], "inside"), tools=[fatal])
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks")])
    result = await run(agent, "go")
    assert outputs(result.to_input_list())["o1"].startswith("An error occurred")
    assert world.done == ["fatal"]


async def test_a_nested_agent_waits_while_its_failing_sibling_is_told(world: World, run: Run, saved: bool) -> None:
    broken = Agent("broken", model=model(OSError("down")))
    waiting = asking_as(world, "waiting", [call("ask", "i1")], "inside")
    tools = [broken.as_tool("broken", "b"), waiting.as_tool("waiting", "w")]
    agent = outer(call("waiting", "w", input=""), call("broken", "b", input=""), tools=tools)
    result = await run(agent, "go")
    assert len(result.interruptions) == 1
    result = await run(agent, await approved(result, agent, saved))
    assert (outputs(result.to_input_list())["w"], world.done) == ("inside", ["ask(0)"])


async def test_a_slow_sibling_holds_nobody_up(world: World) -> None:
    order: list[str] = []

    @function_tool
    async def slow() -> str:
        await until(lambda: len(order) == 3)
        await turns_of_the_loop(20)
        order.append("slow")
        return "slow"

    def inside(request: ModelRequest) -> Any:
        order.append("inner asked")
        return [call("free", f"i{len(request.input)}")] if len(request.input) < 4 else "inside"

    inner = Agent("inner", model=ScriptedModel(inside), tools=[world.tool("free")])
    await plain(outer(call("slow", "s"), call("inner", "o", input=""), tools=[slow, inner.as_tool("inner", "i")]), "go")
    assert order == ["inner asked", "inner asked", "inner asked", "slow"]


# What is shared and what is not.
async def test_hooks_of_the_outer_run_do_not_hear_the_inner_agent(world: World, run: Run) -> None:
    heard: list[str] = []

    class Log(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            heard.append(agent.name)

    inner = asking_as(world, "inner", "inside")
    await run(outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "a")]), "go", hooks=Log())
    assert heard == ["outer"]


async def test_the_context_is_shared_by_all_levels(run: Run) -> None:
    @function_tool
    def add(context: RunContextWrapper[Any], what: str) -> str:
        context.context.append(what)
        return what

    inner = Agent("inner", model=model([call("add", "i1", what="inner")], "inside"), tools=[add])
    steps = model([call("add", "o1", what="outer"), call("inner", "o2", input="")], "done")
    notes: list[str] = []
    await run(Agent("outer", model=steps, tools=[add, inner.as_tool("inner", "a")]), "go", context=notes)
    assert sorted(notes) == ["inner", "outer"]


async def test_a_tool_knows_of_decisions_in_its_own_agent_only(world: World, run: Run, saved: bool) -> None:
    known: list[Any] = []

    @function_tool
    def look(context: RunContextWrapper[Any]) -> str:
        known.append((context.is_tool_approved("ask", "same"), context.is_tool_approved("ask", "inside")))
        return "seen"

    ask = world.tool("ask", needs_approval=True)
    inner = Agent("inner", model=model([call("ask", "inside")], [call("look", "i2")], "inside"), tools=[ask, look])
    steps = model([call("ask", "same"), call("inner", "o2", input="")], [call("look", "o3")], "done")
    agent = Agent("outer", model=steps, tools=[ask, look, inner.as_tool("inner", "asks")])
    result = await run(agent, "go")
    result = await run(agent, await approved(result, agent, saved))
    assert result.final_output == "done"
    assert known == [(None, True), (True, True)]


async def test_decisions_given_on_the_outer_state_only(world: World, run: Run, saved: bool) -> None:
    """An item of a nested agent's is decided on the outer state; its digest names the agent and the run."""

    def make() -> Agent[Any]:
        inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
        return outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "asks")])

    agent = make()
    result, other = await run(agent, "go"), await run(make(), "go")
    state = await state_of(result, agent, saved)
    with pytest.raises(UserError):
        state.approve(other.interruptions[0])
    state.approve(result.interruptions[0])
    assert (await run(agent, state)).final_output == "done"
    assert isinstance(state, RunState)


async def test_a_nested_session_and_previous_response(world: World, run: Run) -> None:
    session = MemorySession("inner")
    inner = asking_as(world, "inner", ModelStep("one", response_id="r1"), ModelStep("two", response_id="r2"))
    chained = inner.as_tool("chained", "c", previous_response_id="r0")
    kept = inner.as_tool("kept", "k", session=session)
    steps = model([call("chained", "o1", input="a")], [call("kept", "o2", input="b")], "done")
    await run(Agent("outer", model=steps, tools=[chained, kept]), "go")
    first, second = asked(inner)
    assert (first.previous_response_id, second.previous_response_id) == ("r0", None)
    assert shape(await session.get_items()) == ["user", "assistant"]
