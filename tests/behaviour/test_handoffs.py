"""A handoff happens once the calls beside it are settled; the right agent goes on after a resume."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from keyturn import Agent, HandoffInputData, ModelSettings, RunConfig, UserError, handoff
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    call,
    model,
    outputs,
    plain,
    shape,
    state_of,
)

GO = call("transfer_to_second", "h")


def asking(world: World, name: str, *rounds: Any, **settings: Any) -> Agent[Any]:
    tools = [world.tool("ask", needs_approval=True), world.tool("free")]
    return Agent(name, model=model(*rounds), tools=tools, **settings)


async def test_the_resumed_run_goes_on_with_the_agent_that_took_over(world: World, run: Run, saved: bool) -> None:
    second = asking(world, "second", [call("ask", "c1")], "done")
    first = asking(world, "first", [GO], handoffs=[second])
    result = await run(first, "go")
    assert (result.last_agent, result.interruptions[0].agent) == (second, second)
    result = await run(first, await approved(result, first, saved))
    assert (result.final_output, result.last_agent, world.done) == ("done", second, ["ask(0)"])
    assert len(asked(first)) == 1


@pytest.mark.parametrize("order", [0, 1], ids=["handoff first", "handoff last"])
async def test_calls_beside_a_handoff_are_settled_first(world: World, run: Run, saved: bool, order: int) -> None:
    second = asking(world, "second", "done")
    calls = [GO, call("ask", "c1"), call("free", "c2")] if not order else [call("ask", "c1"), call("free", "c2"), GO]
    first = asking(world, "first", calls, handoffs=[second])
    result = await run(first, "go")
    assert (result.last_agent, world.done) == (first, ["free(0)"])
    assert asked(second) == []
    result = await run(first, await approved(result, first, saved))
    assert (result.final_output, result.last_agent) == ("done", second)
    told = outputs(asked(second)[0].input)
    assert told == {"h": '{"assistant": "second"}', "c1": "ask(0)", "c2": "free(0)"}
    assert world.done == ["free(0)", "ask(0)"]


async def test_a_rejected_sibling_does_not_stop_the_handoff(world: World, run: Run) -> None:
    second = asking(world, "second", "done")
    first = asking(world, "first", [call("ask", "c1"), GO], handoffs=[second])
    state = (await run(first, "go")).to_state()
    state.reject(state.get_interruptions()[0], rejection_message="no")
    result = await run(first, state)
    assert (result.final_output, result.last_agent, world.done) == ("done", second, [])


async def test_only_the_first_of_several_handoffs_happens(world: World, run: Run) -> None:
    second, third = asking(world, "second", "done"), asking(world, "third", "never")
    first = asking(world, "first", [GO, call("transfer_to_third", "h2")], handoffs=[second, third])
    result = await run(first, "go")
    assert (result.final_output, result.last_agent) == ("done", second)
    told = outputs(result.to_input_list())
    assert (told["h"], "ignoring" in told["h2"]) == ('{"assistant": "second"}', True)


async def test_there_and_back_again(world: World, run: Run, saved: bool) -> None:
    first = asking(world, "first", [GO], [call("ask", "c2")], "done")
    second = asking(world, "second", [call("ask", "c1")], [call("transfer_to_first", "b")], handoffs=[first])
    first.handoffs = [second]
    result = await run(first, "go")
    result = await run(first, await approved(result, first, saved))
    assert result.last_agent is first
    result = await run(first, await approved(result, first, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)", "ask(0)"])
    expected = ["user", "call h", "output h", "call c1", "output c1", "call b", "output b", "call c2", "output c2"]
    assert shape(result.to_input_list()) == [*expected, "assistant"]


async def test_a_resume_may_name_the_agent_that_is_at_work(world: World, run: Run, saved: bool) -> None:
    """`Runner.run(result.last_agent, state)` is an old habit; the state knows where it began."""
    second = asking(world, "second", [call("ask", "c1")], "done")
    first = asking(world, "first", [GO], handoffs=[second])
    result = await run(first, "go")
    result = await run(second, await approved(result, first, saved))
    assert (result.final_output, world.done) == ("done", ["ask(0)"])


class Reason(BaseModel):
    why: str
    urgent: bool = False


async def test_a_handoff_with_an_input_and_a_callback(world: World, run: Run, saved: bool) -> None:
    heard: list[Any] = []

    async def on_handoff(context: Any, reason: Reason) -> None:
        heard.append((context.context, reason))

    second = asking(world, "second", "done")
    go = handoff(second, on_handoff=on_handoff, input_type=Reason)
    calls = [call("ask", "c1"), call("transfer_to_second", "h", why="fraud")]
    first = asking(world, "first", calls, handoffs=[go])
    result = await run(first, "go", context="ctx")
    assert heard == []
    result = await run(first, await approved(result, first, saved))
    assert (heard, result.final_output) == ([("ctx", Reason(why="fraud"))], "done")


async def test_input_that_does_not_fit_is_told_to_the_model(world: World, run: Run) -> None:
    heard: list[Any] = []
    second = asking(world, "second", "never")
    go = handoff(second, on_handoff=lambda _context, reason: heard.append(reason), input_type=Reason)
    first = asking(world, "first", [call("transfer_to_second", "h", urgent="perhaps")], "sorry", handoffs=[go])
    result = await run(first, "go")
    assert (result.final_output, result.last_agent, heard) == ("sorry", first, [])
    assert "invalid" in outputs(result.to_input_list())["h"]


async def test_a_callback_that_raises_leaves_the_run_resumable(world: World, run: Run, saved: bool) -> None:
    broken = [True]

    def on_handoff(_context: Any) -> None:
        if broken:
            broken.clear()
            raise OSError("crm down")

    second = asking(world, "second", "done")
    first = asking(world, "first", [GO], "sorry", handoffs=[handoff(second, on_handoff=on_handoff)])
    result = await run(first, "go")
    assert result.final_output in ("sorry", "done")
    assert outputs(result.to_input_list())["h"].startswith("An error occurred")


# What the next agent sees.


def last_only(data: HandoffInputData) -> HandoffInputData:
    own = tuple(item for item in data.new_items if item.raw_item["call_id"] == "h")
    return data.clone(input_history=data.input_history[-1:], pre_handoff_items=(), new_items=own)


async def test_a_filter_decides_what_the_next_agent_sees(world: World, run: Run, saved: bool) -> None:
    second = asking(world, "second", [call("ask", "c2")], "done")
    go = handoff(second, input_filter=last_only)
    first = asking(world, "first", [call("free", "c0")], [call("free", "c1"), GO], handoffs=[go])
    given = [{"role": "user", "content": "old"}, {"role": "user", "content": "new"}]
    result = await run(first, given)
    result = await run(first, await approved(result, first, saved))
    sent = [shape(request.input) for request in asked(second)]
    assert sent == [["user", "call h", "output h"], ["user", "call h", "output h", "call c2", "output c2"]]
    assert asked(second)[0].input[0]["content"] == "new"
    everything = ["user", "user", "call c0", "output c0", "call c1", "call h", "output c1", "output h", "call c2"]
    assert shape(result.to_input_list()) == [*everything, "output c2", "assistant"]


async def test_an_async_filter_with_items_of_its_own_and_the_runs_filter(world: World, run: Run) -> None:
    async def summary(data: HandoffInputData) -> HandoffInputData:
        assert data.run_context is not None
        told = {"role": "user", "content": f"summary for {data.run_context.context}"}
        return data.clone(input_history=(told,), pre_handoff_items=(), new_items=())

    for how in ("own", "run"):
        second = asking(world, "second", "done")
        go = handoff(second, input_filter=summary if how == "own" else None)
        config = RunConfig(handoff_input_filter=summary if how == "run" else None)
        await run(asking(world, "first", [GO], handoffs=[go]), "secret", context="ann", run_config=config)
        sent = asked(second)[0].input
        assert sent == [{"role": "user", "content": "summary for ann"}]


async def test_a_filter_that_raises_leaves_the_run_resumable(world: World, run: Run) -> None:
    broken = [True]

    def sometimes(data: HandoffInputData) -> HandoffInputData:
        if broken:
            broken.clear()
            raise ValueError("bug")
        return data

    second = asking(world, "second", "done")
    first = asking(world, "first", [call("free", "c1"), GO], handoffs=[handoff(second, input_filter=sometimes)])
    with pytest.raises(ValueError, match="bug") as raised:
        await run(first, "go")
    state = await state_of(raised.value.run_data, first, True)
    result = await run(first, state)
    assert (result.final_output, result.last_agent, world.done) == ("done", second, ["free(0)"])


async def test_the_next_agent_is_told_the_conversation_in_one_message(world: World, run: Run, saved: bool) -> None:
    """Through two handoffs and a pause; the run itself keeps what happened."""
    third = asking(world, "third", "done")
    back = call("transfer_to_third", "h2")
    second = asking(world, "second", [call("ask", "c1")], [back], handoffs=[third])
    first = asking(world, "first", [GO], handoffs=[second])
    config = RunConfig(nest_handoff_history=True)
    result = await run(first, "hi", run_config=config)
    result = await run(first, await approved(result, first, saved), run_config=config)
    told = [shape(request.input) for request in (*asked(second), *asked(third))]
    assert told == [["assistant"], ["assistant", "call c1", "output c1"], ["assistant"]]
    text = asked(third)[0].input[0]["content"]
    order = [text.index(word) for word in ("1. user: hi", '2. {"type": "function_call"', "4. {", '"c1"', "7. {")]
    assert order == sorted(order)
    assert text.count("<CONVERSATION HISTORY>") == 1
    happened = ["user", "call h", "output h", "call c1", "output c1", "call h2", "output h2", "assistant"]
    assert shape(result.to_input_list()) == happened


async def test_a_mapper_makes_what_the_next_agent_is_told(world: World, run: Run) -> None:
    def questions(items: list[Any]) -> list[Any]:
        return [item for item in items if item.get("role") == "user"]

    second = asking(world, "second", "done")
    first = asking(world, "first", [GO], handoffs=[handoff(second, nest_handoff_history=True)])
    await run(first, "hi", run_config=RunConfig(handoff_history_mapper=questions))
    assert asked(second)[0].input == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("setting", ["nest_handoff_history", "handoff_input_filter"])
async def test_what_a_provider_has_seen_no_filter_takes_back(world: World, run: Run, setting: str) -> None:
    """The next agent's request would repeat the conversation to the server that keeps it."""
    second = asking(world, "second", "done")
    first = asking(world, "first", [GO], handoffs=[second])
    config = RunConfig(**{setting: True if setting == "nest_handoff_history" else last_only})  # type: ignore[arg-type]  # one of two
    with pytest.raises(UserError, match="kept at the provider") as raised:
        await run(first, "hi", run_config=config, conversation_id="conv_1")
    result = await run(first, raised.value.run_data.to_state(), run_config=RunConfig())
    assert (result.final_output, asked(second)[0].conversation_id) == ("done", "conv_1")
    assert shape(asked(second)[0].input) == ["output h"]


async def test_a_filter_that_answers_with_something_else_is_an_error(world: World, run: Run) -> None:
    go: Any = handoff(asking(world, "second"), input_filter=lambda data: data.input_history)  # type: ignore[arg-type]  # it is wrong on purpose
    with pytest.raises(UserError, match="must return HandoffInputData, not tuple"):
        await run(asking(world, "first", [GO], handoffs=[go]), "hi")


async def test_a_handoff_that_is_not_enabled_is_not_offered(world: World, run: Run) -> None:
    second = asking(world, "second", "done")
    go = handoff(second, is_enabled=lambda context, agent: context.context == "ann")
    first = asking(world, "first", "hi", "hi", handoffs=[go])
    await run(first, "go", context="bob")
    await run(first, "go", context="ann")
    offered = [[each.tool_name for each in request.handoffs] for request in asked(first)]
    assert offered == [[], ["transfer_to_second"]]


async def test_the_next_agents_settings_are_its_own(world: World, run: Run) -> None:
    second = asking(world, "second", "done", model_settings=ModelSettings(tool_choice="required"))
    second.instructions = "be second"
    first = asking(world, "first", [call("free", "c1"), GO], handoffs=[second])
    await run(first, "go")
    [request] = asked(second)
    assert (request.system_instructions, request.model_settings.tool_choice) == ("be second", "required")
    assert [tool.name for tool in request.tools] == ["ask", "free"]


async def test_a_sticky_decision_does_not_cross_a_handoff(world: World, run: Run, saved: bool) -> None:
    second = asking(world, "second", [call("ask", "c2", x=2)], "done")
    first = asking(world, "first", [call("ask", "c1", x=1)], [GO], handoffs=[second])
    state = await state_of(await run(first, "go"), first, saved)
    state.approve(state.get_interruptions()[0], always_approve=True)
    result = await run(first, state)
    assert [(item.agent.name, item.params) for item in result.interruptions] == [("second", {"x": 2})]
    assert world.done == ["ask(1)"]


async def test_same_named_agents_in_a_graph(world: World, run: Run, saved: bool) -> None:
    one = asking(world, "twin", [call("ask", "c1", x=1)], [call("other", "h2")])
    two = asking(world, "twin", [call("ask", "c2", x=2)], "from two")
    one.handoffs = [handoff(two, tool_name_override="other")]
    first = asking(world, "first", [call("one", "h1")], handoffs=[handoff(one, tool_name_override="one"), two])
    result = await run(first, "go")
    assert result.interruptions[0].agent is one
    result = await run(first, await approved(result, first, saved))
    assert result.interruptions[0].agent is two
    result = await run(first, await approved(result, first, saved))
    assert (result.final_output, result.last_agent, world.done) == ("from two", two, ["ask(1)", "ask(2)"])


async def test_two_handoffs_of_one_name_are_refused(world: World) -> None:
    one, two = asking(world, "twin", "x"), asking(world, "twin", "y")
    with pytest.raises(UserError, match="transfer_to_twin"):
        await plain(asking(world, "first", "hi", handoffs=[one, two]), "go")
