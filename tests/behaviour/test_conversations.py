"""A conversation that the provider keeps is sent only what it has not seen, whatever lies between."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, ModelInputData, RunConfig, RunState, UserError
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ModelStep
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    call,
    model,
    shape,
    state_of,
)

KEPT: list[dict[str, Any]] = [
    {"conversation_id": "conv"},
    {"previous_response_id": "r0"},
    {"auto_previous_response_id": True},
]
each = pytest.mark.parametrize("kept", KEPT, ids=["conversation", "previous", "auto"])


def asking(world: World, *rounds: Any, **settings: Any) -> Agent[Any]:
    steps = [step if isinstance(step, ModelStep | BaseException) else said(step, n) for n, step in enumerate(rounds, 1)]
    tools = [world.tool("ask", needs_approval=True), world.tool("free")]
    return Agent("a", model=model(*steps), tools=tools, **settings)


def said(step: Any, number: int) -> ModelStep:
    return ModelStep(step, response_id=f"r{number}")


def ids(kept: dict[str, Any], requests: list[ModelRequest]) -> list[tuple[str | None, str | None]]:
    """What each request named, and a check that it is what this way of keeping names."""
    named = [(request.conversation_id, request.previous_response_id) for request in requests]
    if "conversation_id" in kept:
        assert named == [("conv", None)] * len(named)
    else:
        first = kept.get("previous_response_id")
        assert [conversation for conversation, _ in named] == [None] * len(named)
        assert named[0][1] == first
    return named


@each
async def test_a_resume_sends_only_what_is_new(world: World, run: Run, saved: bool, kept: dict[str, Any]) -> None:
    first = [{"type": "reasoning", "summary": []}, call("ask", "c1"), call("free", "c2")]
    agent = asking(world, first, [call("ask", "c3")], "done")
    result = await run(agent, "go", **kept)
    result = await run(agent, await approved(result, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert result.final_output == "done"
    sent = [shape(request.input) for request in asked(agent)]
    assert sent == [["user"], ["output c1", "output c2"], ["output c3"]]
    named = ids(kept, asked(agent))
    if "conversation_id" not in kept:
        assert [response for _, response in named[1:]] == ["r1", "r2"]
    assert result.last_response_id == "r3"
    assert sorted(world.done) == ["ask(0)", "ask(0)", "free(0)"]


@each
async def test_the_id_need_not_be_given_again(world: World, run: Run, saved: bool, kept: dict[str, Any]) -> None:
    """Given or not, the resumed request carries it."""
    agent = asking(world, [call("ask", "c1")], "done")
    result = await run(agent, "go", **kept)
    again = {} if saved else kept
    await run(agent, await approved(result, agent, saved), **again)
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["output c1"]]
    ids(kept, asked(agent))


@each
async def test_a_rejection_and_an_answer_are_sent_as_results(
    world: World, run: Run, saved: bool, kept: dict[str, Any]
) -> None:
    agent = asking(world, [call("ask", "c1"), call("ask", "c2")], "done")
    state = await state_of(await run(agent, "go", **kept), agent, saved)
    first, second = state.get_interruptions()
    state.reject(first, rejection_message="no")
    state.answer(second, "yes")
    await run(agent, state)
    assert [item["output"] for item in asked(agent)[1].input] == ["no", "yes"]
    assert world.done == []


@each
async def test_partial_decisions_send_nothing_until_all_are_settled(
    world: World, run: Run, kept: dict[str, Any]
) -> None:
    agent = asking(world, [call("ask", "c1"), call("ask", "c2")], "done")
    result = await run(agent, "go", **kept)
    for _ in range(2):
        state = await state_of(result, agent, True)
        state.approve(state.get_interruptions()[0])
        result = await run(agent, state)
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["output c1", "output c2"]]
    assert world.done == ["ask(0)", "ask(0)"]


@each
async def test_a_failed_request_is_sent_again_whole(world: World, run: Run, saved: bool, kept: dict[str, Any]) -> None:
    agent = asking(world, [call("ask", "c1")], OSError("down"), "done")
    state = await approved(await run(agent, "go", **kept), agent, saved)
    with pytest.raises(OSError, match="down") as raised:
        await run(agent, state)
    result = await run(agent, await state_of(raised.value.run_data, agent, saved))
    assert result.final_output == "done"
    sent = [shape(request.input) for request in asked(agent)]
    assert sent == [["user"], ["output c1"], ["output c1"]]
    named = ids(kept, asked(agent))
    assert named[1] == named[2]
    assert world.done == ["ask(0)"]


@each
async def test_a_first_request_that_failed_is_sent_again(world: World, run: Run, kept: dict[str, Any]) -> None:
    agent = asking(world, OSError("down"), "done")
    with pytest.raises(OSError, match="down") as raised:
        await run(agent, "go", **kept)
    result = await run(agent, await state_of(raised.value.run_data, agent, True))
    assert result.final_output == "done"
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["user"]]
    ids(kept, asked(agent))


@each
async def test_a_stream_that_breaks_off_changes_nothing(world: World, run: Run, kept: dict[str, Any]) -> None:
    broken = ModelStep([call("ask", "c9")], error=OSError("cut"), break_after=3, response_id="r9")
    agent = asking(world, [call("free", "c1")], broken, "done")
    with pytest.raises(OSError, match="cut") as raised:
        await run(agent, "go", **kept)
    await run(agent, raised.value.run_data.to_state())
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["output c1"], ["output c1"]]
    named = ids(kept, asked(agent))
    assert named[1] == named[2]


@each
async def test_added_input_is_new_as_well(world: World, run: Run, kept: dict[str, Any]) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = (await run(agent, "go", **kept)).to_state()
    state.add_input("and hurry")
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["output c1", "user"]]


@each
async def test_a_handoff_within_the_conversation(world: World, run: Run, saved: bool, kept: dict[str, Any]) -> None:
    second = asking(world, [call("ask", "c1")], "done")
    second.name = "second"
    first = Agent("first", model=model(said([call("transfer_to_second", "h")], 0)), handoffs=[second])
    result = await run(first, "go", **kept)
    await run(first, await approved(result, first, saved))
    assert [shape(request.input) for request in asked(second)] == [["output h"], ["output c1"]]
    if "conversation_id" not in kept:
        assert [request.previous_response_id for request in asked(second)] == ["r0", "r1"]


async def test_a_nested_agent_has_a_conversation_of_its_own(world: World, run: Run, saved: bool) -> None:
    inner = asking(world, [call("ask", "i1")], "inside")
    inner.name = "inner"
    tool = inner.as_tool("inner", "asks", conversation_id="inner conv")
    outer = Agent("outer", model=model(said([call("inner", "o1", input="x")], 0), said("done", 1)), tools=[tool])
    result = await run(outer, "go", conversation_id="outer conv")
    result = await run(outer, await approved(result, outer, saved))
    assert result.final_output == "done"
    told = [(request.conversation_id, shape(request.input)) for request in asked(inner)]
    assert told == [("inner conv", ["user"]), ("inner conv", ["output i1"])]
    told = [(request.conversation_id, shape(request.input)) for request in asked(outer)]
    assert told == [("outer conv", ["user"]), ("outer conv", ["output o1"])]


async def test_a_nested_agent_without_one_sends_everything(world: World, run: Run, saved: bool) -> None:
    inner = asking(world, [call("ask", "i1")], "inside")
    inner.name = "inner"
    tool = inner.as_tool("inner", "asks")
    outer = Agent("outer", model=model(said([call("inner", "o1", input="x")], 0), said("done", 1)), tools=[tool])
    result = await run(outer, "go", previous_response_id="before")
    await run(outer, await approved(result, outer, saved))
    told = [(request.previous_response_id, shape(request.input)) for request in asked(inner)]
    assert told == [(None, ["user"]), (None, ["user", "call i1", "output i1"])]
    told = [(request.previous_response_id, shape(request.input)) for request in asked(outer)]
    assert told == [("before", ["user"]), ("r0", ["output o1"])]


async def test_another_conversation_cannot_be_named_later(world: World, run: Run, saved: bool) -> None:
    for options in ({}, {"conversation_id": "conv"}):
        agent = asking(world, [call("ask", "c1")], "done")
        state = await approved(await run(agent, "go", **options), agent, saved)
        with pytest.raises(UserError, match="conversation"):
            await run(agent, state, conversation_id="another")
        assert (await run(agent, state)).final_output == "done"


async def test_a_run_may_be_chained_from_its_last_reply_on(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state = await approved(await run(agent, "go"), agent, saved)
    await run(agent, state, auto_previous_response_id=True)
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["output c1"]]
    assert asked(agent)[1].previous_response_id == "r1"


async def test_ids_of_reasoning_can_be_left_out(world: World, run: Run, saved: bool) -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    agent = asking(world, [thought, call("ask", "c1")], "done")
    config = RunConfig(reasoning_item_id_policy="omit")
    result = await run(agent, "go", run_config=config)
    result = await run(agent, await approved(result, agent, saved))  # the run keeps its policy
    assert asked(agent)[1].input[1] == result.to_input_list()[1] == {"type": "reasoning", "summary": []}
    assert result.new_items[0].raw_item == thought


async def test_without_any_id_everything_is_sent_and_none_is_named(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    await run(agent, await approved(await run(agent, "go"), agent))
    assert [shape(request.input) for request in asked(agent)] == [["user"], ["user", "call c1", "output c1"]]
    assert [(each.conversation_id, each.previous_response_id) for each in asked(agent)] == [(None, None)] * 2


async def test_the_next_run_goes_on_by_the_last_response(world: World, run: Run) -> None:
    agent = asking(world, [call("ask", "c1")], "done", "more")
    result = await run(agent, "go", auto_previous_response_id=True)
    result = await run(agent, await approved(result, agent, saved=True))
    await run(agent, "and then?", previous_response_id=result.last_response_id)
    last = asked(agent)[-1]
    assert (last.previous_response_id, shape(last.input)) == ("r2", ["user"])


async def test_a_state_made_by_hand_names_its_conversation(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, [call("ask", "c1")], "done")
    state: Any = RunState(None, "go", agent, conversation_id="conv")
    if saved:
        state = await RunState.from_string(agent, state.to_string())
    result = await run(agent, state)
    await run(agent, await approved(result, agent, saved))
    assert [(each.conversation_id, shape(each.input)) for each in asked(agent)] == [
        ("conv", ["user"]),
        ("conv", ["output c1"]),
    ]


async def test_typed_input_filter_sees_only_what_is_sent(world: World, run: Run) -> None:
    seen: list[list[str]] = []

    def look(data: Any) -> ModelInputData:
        seen.append(shape(data.model_data.input))
        return ModelInputData(
            [*data.model_data.input, {"role": "user", "content": "p.s."}], data.model_data.instructions
        )

    agent = asking(world, [call("ask", "c1")], "done")
    config = RunConfig(call_model_input_filter=look)
    result = await run(agent, "go", conversation_id="conv", run_config=config)
    result = await run(agent, await approved(result, agent), run_config=config)
    assert seen == [["user"], ["output c1"]]
    assert [shape(request.input) for request in asked(agent)] == [["user", "user"], ["output c1", "user"]]
    assert shape(result.to_input_list()) == ["user", "call c1", "output c1", "assistant"]
