"""A limit stops before the next request, in every agent of the run; what was called still runs, and nothing is lost."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from keyturn import (
    Agent,
    FallbackModel,
    MemoryJournal,
    ModelBehaviorError,
    ModelResponse,
    Price,
    RunConfig,
    RunHooks,
    Runner,
    RunState,
    StopAtTools,
    UsageLimitExceeded,
    UsageLimits,
    UserError,
    function_tool,
)
from keyturn.models.scripted.model import ModelStep, ScriptedModel
from keyturn.testing import approve_all
from tests.playing import (
    Run,
    World,
    approved,
    asked,
    call,
    counted,
    model,
    outputs,
    plain,
    state_of,
)


def asking(world: World, *rounds: Any, **settings: Any) -> Agent[Any]:
    """An agent with one tool that asks and one that does not."""
    tools = [world.tool("ask", needs_approval=True), world.tool("free")]
    return Agent("a", model=model(*rounds, name="m"), tools=tools, **settings)


def step(what: Any, number: int = 1) -> ModelStep:
    """A reply that uses 10 tokens of input and 1 of output, so many times."""
    return ModelStep(what, usage=counted(number))


PRICES = {"m": Price(input=100_000, output=1_000_000)}  # a reply costs 2
REACHED: dict[str, UsageLimits] = {
    "requests": UsageLimits(requests=1),
    "input_tokens": UsageLimits(input_tokens=10),
    "output_tokens": UsageLimits(output_tokens=1),
    "total_tokens": UsageLimits(total_tokens=11),
    "tool_calls": UsageLimits(tool_calls=1),
    "cost": UsageLimits(cost=2, prices=PRICES),
}
RAISED: dict[str, UsageLimits] = {
    "requests": UsageLimits(requests=2),
    "input_tokens": UsageLimits(input_tokens=11),
    "output_tokens": UsageLimits(output_tokens=2),
    "total_tokens": UsageLimits(total_tokens=12),
    "tool_calls": UsageLimits(tool_calls=2),
    "cost": UsageLimits(cost="2.01", prices=PRICES),
}
each = pytest.mark.parametrize("name", list(REACHED))


@each
async def test_a_limit_stops_before_the_next_request(world: World, run: Run, saved: bool, name: str) -> None:
    """Calls of the reply that reached it still run, and a higher limit goes on from there."""
    agent = asking(world, step([call("free", "c1")]), step("done"))
    with pytest.raises(UsageLimitExceeded, match=f"UsageLimits\\({name}=") as raised:
        await run(agent, "go", usage_limits=REACHED[name])
    assert (raised.value.limit, raised.value.used, raised.value.allowed) == (name, *[getattr(REACHED[name], name)] * 2)
    assert (world.done, len(asked(agent))) == (["free(0)"], 1)
    state = await state_of(raised.value.run_data, agent, saved)
    result = await run(agent, state, usage_limits=RAISED[name])
    assert (result.final_output, world.done, len(asked(agent))) == ("done", ["free(0)"], 2)


@each
async def test_a_limit_that_is_not_reached_is_not_felt(world: World, run: Run, name: str) -> None:
    agent = asking(world, step([call("free", "c1")]), step("done"))
    assert (await run(agent, "go", run_config=RunConfig(usage_limits=RAISED[name]))).final_output == "done"


async def test_a_limit_outlives_a_pause_and_is_kept_until_another_is_given(world: World, run: Run, saved: bool) -> None:
    agent = asking(world, *[step([call("ask", f"c{n}")]) for n in range(4)], step("done"))
    result = await run(agent, "go", usage_limits=UsageLimits(requests=2))
    result = await run(agent, await approved(result, agent, saved))
    state = await approved(result, agent, saved)
    with pytest.raises(UsageLimitExceeded):
        await run(agent, state)
    result = await run(agent, state, usage_limits=UsageLimits(requests=3))
    state = await approved(result, agent, saved)
    with pytest.raises(UsageLimitExceeded):
        await run(agent, state)
    result = await run(agent, state, usage_limits=UsageLimits())
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, result.usage.requests) == ("done", 5)


async def test_spent_usage_is_said_before_an_approved_tool_runs(world: World, run: Run, saved: bool) -> None:
    """As with turns: the decision is not used up by it."""
    agent = asking(world, step([call("ask", "c1")]), step("done"))
    result = await run(agent, "go", usage_limits=UsageLimits(total_tokens=11))
    state = await approved(result, agent, saved)
    with pytest.raises(UsageLimitExceeded) as raised:
        await run(agent, state)
    assert (world.done, len(raised.value.run_data.interruptions)) == ([], 1)
    again = await run(agent, state, usage_limits=UsageLimits(total_tokens=20))
    assert (again.final_output, world.done) == ("done", ["ask(0)"])


async def test_an_approved_tool_that_ends_the_run_needs_no_request(world: World, run: Run) -> None:
    agent = asking(world, step([call("ask", "c1")]), tool_use_behavior=StopAtTools(stop_at_tool_names=["ask"]))
    result = await run(agent, "go", usage_limits=UsageLimits(requests=1))
    result = await run(agent, await approved(result, agent))
    assert (result.final_output, world.done) == ("ask(0)", ["ask(0)"])


async def test_a_pause_at_the_limit_is_a_pause(world: World, run: Run) -> None:
    agent = asking(world, step([call("ask", "c1")]), step("done"))
    result = await run(agent, "go", usage_limits=UsageLimits(requests=1))
    assert len(result.interruptions) == 1
    assert len((await run(agent, result.to_state())).interruptions) == 1
    assert len((await run(agent, result.to_state(), usage_limits=UsageLimits(requests=1))).interruptions) == 1


async def test_no_request_at_all_is_a_limit_too(world: World, run: Run) -> None:
    agent = asking(world, step("done"))
    with pytest.raises(UsageLimitExceeded) as raised:
        await run(agent, "go", usage_limits={"requests": 0})
    assert asked(agent) == []
    assert (await run(agent, raised.value.run_data.to_state(), usage_limits={"requests": 1})).final_output == "done"


def nested(world: World, *rounds: Any, outer: Any = None) -> Agent[Any]:
    """An agent that asks another one, whose replies these are."""
    inner = asking(world, *rounds)
    first = step([call("inner", "o1", input="x")])
    return Agent("outer", model=outer or model(first, step("out"), name="m"), tools=[inner.as_tool("inner", "asks")])


async def test_a_nested_agent_counts_and_stops_where_it_is(world: World, run: Run, saved: bool) -> None:
    """The limit is the run's: reaching it inside is not a failed tool, and the nested agent goes on later."""
    agent = nested(world, step([call("free", "i1")]), step([call("ask", "i2")]), step("in"))
    with pytest.raises(UsageLimitExceeded) as raised:
        await run(agent, "go", usage_limits=UsageLimits(requests=2))
    assert (world.done, raised.value.used) == (["free(0)"], 2)
    state = await state_of(raised.value.run_data, agent, saved)
    result = await run(agent, state, usage_limits=UsageLimits(requests=5))
    result = await run(agent, await approved(result, agent, saved))
    assert (result.final_output, world.done, result.usage.requests) == ("out", ["free(0)", "ask(0)"], 5)
    assert outputs(result.to_input_list()) == {"o1": "in"}


async def test_agents_at_work_together_do_not_pass_the_limit_together(world: World, run: Run) -> None:
    """A request that is under way is as good as made."""
    inner = Agent("inner", model=model(*[step("in") for _ in range(4)], name="m"))
    calls = [call("inner", f"o{n}", input="x") for n in range(4)]
    outer = Agent("outer", model=model(step(calls), step("out")), tools=[inner.as_tool("inner", "asks")])
    with pytest.raises(UsageLimitExceeded) as raised:
        await run(outer, "go", usage_limits=UsageLimits(requests=3))
    assert (len(asked(inner)), raised.value.run_data.usage.requests) == (2, 3)
    result = await run(outer, raised.value.run_data.to_state(), usage_limits=UsageLimits(requests=6))
    assert (result.final_output, len(asked(inner))) == ("out", 4)


async def test_a_sibling_that_waits_is_not_lost_when_a_nested_agent_stops(world: World, run: Run) -> None:
    inner = Agent("inner", model=model(step("in"), name="m"))
    first = step([call("ask", "c1"), call("inner", "o1", input="x"), call("free", "c2")])
    agent = Agent("outer", model=model(first, step("out"), name="m"), tools=[inner.as_tool("inner", "asks")])
    agent.tools += [world.tool("ask", needs_approval=True), world.tool("free")]
    with pytest.raises(UsageLimitExceeded) as raised:
        await run(agent, "go", usage_limits=UsageLimits(requests=1))
    assert world.done == ["free(0)"]
    stopped = raised.value.run_data
    assert [item.name for item in stopped.interruptions] == ["ask"]
    result = await run(agent, await approved(stopped, agent, saved=True), usage_limits=UsageLimits(requests=9))
    assert (result.final_output, world.done) == ("out", ["free(0)", "ask(0)"])


async def test_a_handler_answers_at_the_limit(world: World, run: Run) -> None:
    agent = asking(world, step([call("free", "c1")]))
    seen: list[Any] = []

    def answer(data: Any) -> str:
        seen.append((data.error.limit, [item.type for item in data.run_data.new_items]))
        return "out of budget"

    result = await run(agent, "go", usage_limits=UsageLimits(requests=1), error_handlers={"usage_limit": answer})
    assert (result.final_output, world.done) == ("out of budget", ["free(0)"])
    assert seen == [("requests", ["tool_call_item", "tool_call_output_item"])]


async def test_a_handler_does_not_answer_for_a_nested_agent(world: World, run: Run) -> None:
    agent = nested(world, step("in"))
    with pytest.raises(UsageLimitExceeded):
        await run(agent, "go", usage_limits=UsageLimits(requests=1), error_handlers={"usage_limit": str})


async def test_a_model_without_a_price_is_not_asked_where_the_cost_is_limited(world: World, run: Run) -> None:
    agent = asking(world, step("done"))
    with pytest.raises(UserError, match="no price for 'm'") as raised:
        await run(agent, "go", usage_limits=UsageLimits(cost=1, prices={"other": Price(1, 1)}))
    assert asked(agent) == []
    limits = UsageLimits(cost=1, prices=PRICES)
    assert (await run(agent, raised.value.run_data.to_state(), usage_limits=limits)).final_output == "done"


async def test_every_model_that_may_answer_needs_a_price(world: World) -> None:
    spare = ScriptedModel([step("done")], name="spare")
    agent = Agent("a", model=FallbackModel(ScriptedModel([ConnectionError("down")], name="m"), spare))
    with pytest.raises(UserError, match="no price for 'spare'"):
        await plain(agent, "go", usage_limits=UsageLimits(cost=1, prices=PRICES))
    prices = {**PRICES, "spare": Price(input=1, output=1)}
    result = await plain(agent, "go", usage_limits=UsageLimits(cost=1, prices=prices))
    assert [entry.model for entry in result.usage.request_usage_entries] == ["spare"]


async def test_a_limit_is_kept_in_the_journal(world: World) -> None:
    journal = MemoryJournal()
    agent = asking(world, step([call("ask", "c1")]), step("done"))
    paused = await Runner.run(agent, "go", journal=journal, usage_limits=UsageLimits(requests=1))
    state = await RunState.load(journal, paused.run_id, agent)
    approve_all(state)
    with pytest.raises(UsageLimitExceeded):
        await Runner.run(agent, state)
    assert (await Runner.run(agent, state, usage_limits=UsageLimits(requests=2))).final_output == "done"


async def test_each_reply_is_counted_with_its_model(world: World, run: Run, saved: bool) -> None:
    inner = Agent("inner", model=model(step("in", 2), name="small"))
    rounds = [step([call("inner", "o1", input="x")]), step([call("ask", "c1")], 3), step("done", 4)]
    agent = asking(world, *rounds)
    agent.tools.append(inner.as_tool("inner", "asks"))
    result = await run(agent, "go")
    result = await run(agent, await approved(result, agent, saved))
    for usage in (result.usage, result.context_wrapper.usage, result.to_state().usage):
        entries = usage.request_usage_entries
        assert [(entry.model, entry.output_tokens) for entry in entries] == [("m", 1), ("small", 2), ("m", 3), ("m", 4)]
        assert usage.cost({"m": Price(0, 1_000_000), "small": Price(0, 10)}) == 8 + Decimal("0.00002")
        assert usage.cost(PRICES) is None
    assert [reply.model for reply in result.raw_responses] == ["m"] * 3


async def test_a_reply_that_no_run_can_go_on_with_is_paid_for(world: World, run: Run, saved: bool) -> None:
    bad = [call("free", "c1", x=1), call("free", "c1", x=2)]
    agent = asking(world, step(bad, 5), step([call("ask", "c9")]), step("done"))
    with pytest.raises(ModelBehaviorError, match="one call id") as raised:
        await run(agent, "go")
    failed = raised.value.run_data
    assert failed.usage.total_tokens == failed.context_wrapper.usage.total_tokens == 55
    result = await run(agent, await state_of(failed, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert result.usage.total_tokens == result.context_wrapper.usage.total_tokens == 77
    assert result.to_state().usage == result.usage
    assert len(result.raw_responses) == 2


async def test_replies_that_are_refused_count_against_the_limit(world: World, run: Run) -> None:
    agent = asking(world, *[step([call("gone", "c1")]) for _ in range(3)])
    with pytest.raises(ModelBehaviorError) as first:
        await run(agent, "go", usage_limits=UsageLimits(requests=2))
    with pytest.raises(ModelBehaviorError) as second:
        await run(agent, first.value.run_data.to_state())
    with pytest.raises(UsageLimitExceeded):
        await run(agent, second.value.run_data.to_state())
    assert len(asked(agent)) == 2


async def test_a_nested_agents_refused_reply_is_counted_too(world: World, run: Run) -> None:
    agent = nested(world, step([call("gone", "i1")], 3))
    result = await run(agent, "go")
    assert (result.final_output, result.usage.requests, result.usage.output_tokens) == ("out", 3, 5)


async def test_a_hook_that_fails_after_the_reply_does_not_unpay_it(world: World, run: Run) -> None:
    class Fails(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            assert context.usage.requests == 1
            raise ValueError("the hook")

    agent = asking(world, step("lost"), step("done"))
    with pytest.raises(ValueError, match="the hook") as raised:
        await run(agent, "go", hooks=Fails())
    failed: Any = raised.value
    result = await run(agent, failed.run_data.to_state())
    assert result.usage.requests == result.context_wrapper.usage.requests == 2


async def test_a_usage_that_cannot_be_added_is_no_usage(world: World, run: Run) -> None:
    wrong = counted(1)
    wrong.input_tokens = -5
    agent = asking(world, ModelStep("bad", usage=wrong), step("done"))
    with pytest.raises(ModelBehaviorError, match="cannot be added") as raised:
        await run(agent, "go")
    result = await run(agent, raised.value.run_data.to_state())
    assert result.usage.requests == result.context_wrapper.usage.requests == 1


async def test_a_model_of_ones_own_is_named_by_its_attribute() -> None:
    class Own(ScriptedModel):
        async def get_response(self, *asked_: Any, **kept: Any) -> ModelResponse:
            response = await super().get_response(*asked_, **kept)
            response.model = "said-by-the-reply"
            return response

    named = await plain(Agent("a", model=Own(["hi"])), "go")
    assert named.usage.request_usage_entries[0].model == "said-by-the-reply"
    nameless = ScriptedModel(["hi"])
    vars(nameless)["model"] = None  # anything may stand there in a class of somebody else's
    result = await plain(Agent("a", model=nameless), "go")
    assert (result.usage.request_usage_entries[0].model, result.usage.cost(PRICES)) == ("", None)


async def test_a_slow_tool_beside_a_nested_agent_ends_before_the_limit_is_told(world: World) -> None:
    told, inner_stopped = asyncio.Event(), asyncio.Event()

    @function_tool
    async def slow() -> str:
        await inner_stopped.wait()
        told.set()
        return "slow"

    @function_tool
    async def last() -> str:
        inner_stopped.set()
        return "last"

    inner = Agent("inner", model=model(step([call("last", "i1")]), step("in")), tools=[last])
    first = step([call("slow", "c1"), call("inner", "o1", input="x")])
    agent = Agent("outer", model=model(first, step("out")), tools=[slow, inner.as_tool("inner", "asks")])
    with pytest.raises(UsageLimitExceeded) as raised:
        await plain(agent, "go", usage_limits=UsageLimits(requests=2))
    assert told.is_set()
    result = await plain(agent, raised.value.run_data.to_state(), usage_limits=UsageLimits())
    assert outputs(result.to_input_list()) == {"c1": "slow", "o1": "in"}
