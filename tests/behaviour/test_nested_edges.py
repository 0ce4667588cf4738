"""What a nested agent is given, what its caller gets, and who listens to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from keyturn import (
    Agent,
    GuardrailFunctionOutput,
    InvalidArguments,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    UserError,
    output_guardrail,
)
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, last_user_text, tool_outputs
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
    shape,
)


# What goes in and what comes out.
async def test_an_extractor_makes_the_result(world: World, run: Run, saved: bool) -> None:
    got: list[Any] = []

    async def extract(result: Any) -> str:
        got.append((result.final_output, result.input, result.last_agent.name, result.interruptions))
        got.append([item.type for item in result.new_items])
        got.append(shape(result.to_input_list()))
        return "extracted"

    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    tool = inner.as_tool("inner", "asks", custom_output_extractor=extract)
    agent = outer(call("inner", "o1", input="hey"), tools=[tool])
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert outputs(result.to_input_list()) == {"o1": "extracted"}
    items = ["tool_call_item", "tool_approval_item", "tool_call_output_item", "message_output_item"]
    assert got == [("inside", "hey", "inner", []), items, ["user", "call i1", "output i1", "assistant"]]


async def test_a_broken_extractor_is_an_error_of_the_tool(world: World, run: Run) -> None:
    def extract(result: Any) -> str:
        raise KeyError("no")

    inner = asking_as(world, "inner", [call("free", "i1")], "inside")
    result = await run(
        outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "a", custom_output_extractor=extract)]), "go"
    )
    assert outputs(result.to_input_list())["o1"].startswith("An error occurred")
    assert world.done == ["free(0)"]


class Ticket(BaseModel):
    """A ticket to look into."""

    title: str
    urgent: bool = False


@dataclass
class Spot:
    x: int
    y: int


async def test_structured_input(world: World, run: Run, saved: bool) -> None:
    kept: list[Any] = []

    def instructions(context: Any, agent: Any) -> str:
        kept.append(context.tool_input)
        return "look into it"

    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    inner.instructions = instructions
    tool = inner.as_tool("inner", "asks", parameters=Ticket, include_input_schema=True, needs_approval=True)
    agent = outer(call("inner", "o1", title="smoke"), tools=[tool])
    result = await run(agent, "go")
    [item] = result.interruptions
    assert item.params == {"title": "smoke", "urgent": False}
    result = await run(agent, await approved(result, agent, saved))
    result = await run(agent, await approved(result, agent, saved))
    assert result.final_output == "done"
    told = last_user_text(asked(inner)[0])
    assert '"title": "smoke"' in told
    assert '"urgent"' in told
    assert kept == [{"title": "smoke", "urgent": False}] * 2


async def test_a_builder_makes_the_input(run: Run) -> None:
    async def build(options: Any) -> list[dict[str, Any]]:
        return [{"role": "user", "content": f"at {options['params']['x']},{options['params']['y']}"}]

    inner = Agent("inner", model=model("inside"))
    tool = inner.as_tool("inner", "asks", parameters=Spot, input_builder=build)
    await run(outer(call("inner", "o1", x=1, y=2), tools=[tool]), "go")
    assert last_user_text(asked(inner)[0]) == "at 1,2"


async def test_input_that_does_not_fit_is_told_to_the_model(run: Run) -> None:
    inner = Agent("inner", model=model("never"))
    tools = [inner.as_tool("typed", "t", parameters=Spot, needs_approval=True), inner.as_tool("plain", "p")]
    agent = outer(call("typed", "o1", x="many", y=2), call("plain", "o2", question="?"), tools=tools)
    result = await run(agent, "go")
    assert result.interruptions == []
    assert all("invalid" in told for told in outputs(result.to_input_list()).values())
    with pytest.raises(InvalidArguments):
        tools[1].prepare({"arguments": "{}"})


async def test_a_typed_answer_of_a_nested_agent(run: Run) -> None:
    inner = Agent("inner", model=model('{"x":1,"y":2}'), output_type=Spot)
    result = await run(outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "asks")]), "go")
    assert outputs(result.to_input_list()) == {"o1": "Spot(x=1, y=2)"}


async def test_a_handoff_inside_a_nested_agent(world: World, run: Run) -> None:
    helper = asking_as(world, "helper", [call("ask", "h1")], "from the helper")
    inner = Agent("inner", model=model([call("transfer_to_helper", "t")]), handoffs=[helper])
    agent = outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "asks")])
    result = await run(agent, "go")
    assert (result.interruptions[0].agent, result.last_agent) == (helper, agent)
    result = await run(agent, await approved(result, agent, saved=True))
    assert outputs(result.to_input_list()) == {"o1": "from the helper"}
    assert (result.last_agent, world.done) == (agent, ["ask(0)"])


async def test_an_agent_may_call_itself(world: World, run: Run) -> None:
    def answer(request: ModelRequest) -> Any:
        depth = int(last_user_text(request))
        if depth and not tool_outputs(request):
            return [call("again", "c", input=str(depth - 1))]
        return [call("ask", "a", x=depth)] if "a" not in tool_outputs(request) else f"from {depth}"

    agent = Agent("a", model=ScriptedModel(answer), tools=[world.tool("ask", needs_approval=True)])
    agent.tools.append(agent.as_tool("again", "myself"))
    result = await run(agent, "3")
    while result.interruptions:
        result = await run(agent, await approved(result, agent, saved=True))
    assert world.done == ["ask(0)", "ask(1)", "ask(2)", "ask(3)"]
    assert result.final_output == "from 3"


# Listening to a nested agent.
async def test_on_stream_hears_the_nested_run(world: World, run: Run, saved: bool) -> None:
    heard: list[Any] = []

    async def listen(told: Any) -> None:
        assert set(told) == {"event", "agent", "tool_call"}
        assert told["tool_call"].call_id == "o1"
        event = told["event"]
        name = getattr(event, "name", event.type)
        if name != "raw_response_event":
            heard.append((told["agent"].name, name))

    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "asks", on_stream=listen)])
    result = await run(agent, "go")
    assert heard == [("inner", "agent_updated_stream_event"), ("inner", "tool_called")]
    heard.clear()
    result = await run(agent, await approved(result, agent, saved))
    assert [each for each in heard if "agent_updated" not in each[1]] == [
        ("inner", "tool_output"),
        ("inner", "message_output_created"),
    ]
    assert result.final_output == "done"


async def test_on_stream_hears_deltas_before_the_tool_has_its_result(run: Run) -> None:
    heard: list[str] = []

    def listen(told: Any) -> None:
        if told["event"].type == "raw_response_event":
            heard.append(told["event"].data.type)

    inner = Agent("inner", model=model("to be or not"))
    tool = inner.as_tool("inner", "asks", on_stream=listen)

    def answer(request: ModelRequest) -> Any:
        if not tool_outputs(request):
            return [call("inner", "o1", input="x")]
        return f"{heard.count('response.output_text.delta')} deltas before"

    result = await run(Agent("outer", model=ScriptedModel(answer), tools=[tool]), "go")
    assert result.final_output == "4 deltas before"


async def test_a_listener_that_raises_harms_nobody(world: World, run: Run) -> None:
    heard: list[str] = []

    def listen(told: Any) -> None:
        heard.append(told["event"].type)
        raise RuntimeError("the UI is gone")

    inner = asking_as(world, "inner", [call("free", "i1")], "inside")
    result = await run(
        outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "a", on_stream=listen)]), "go"
    )
    assert (result.final_output, world.done) == ("done", ["free(0)"])
    assert len(heard) > 3


async def test_a_listener_that_falls_behind_fails_its_tool_and_not_the_run(world: World, run: Run) -> None:
    """The call's result says so, as of any nested agent that failed; what was heard stays heard, and no more comes."""
    heard: list[str] = []
    hearing, released = asyncio.Event(), asyncio.Event()

    async def listen(told: Any) -> None:
        heard.append(told["event"].type)
        hearing.set()
        await released.wait()

    inner = asking_as(world, "inner", "a b c d e f g h")
    failed: list[str] = []

    def failure(_context: Any, error: Exception) -> str:
        failed.append(str(error))
        released.set()
        return "the listener was too slow"

    options: Any = {"on_stream_max_pending_events": 5, "failure_error_function": failure}
    agent = outer(call("inner", "o1", input=""), tools=[inner.as_tool("inner", "a", on_stream=listen, **options)])
    result = await run(agent, "go")
    assert (result.final_output, outputs(result.to_input_list())) == ("done", {"o1": "the listener was too slow"})
    assert "more than 5 events are queued" in failed[0]
    assert heard == ["agent_updated_stream_event"]


@pytest.mark.parametrize("most", [None, 1, 1024])
async def test_a_listener_that_keeps_up_hears_everything(world: World, run: Run, most: int | None) -> None:
    """One that is quick is given the time to catch up, however little may wait."""
    heard: list[str] = []
    inner = asking_as(world, "inner", "word " * 30)
    tool = inner.as_tool(
        "inner", "a", on_stream=lambda told: heard.append(told["event"].type), on_stream_max_pending_events=most
    )
    result = await run(outer(call("inner", "o1", input=""), tools=[tool]), "go")
    assert result.final_output == "done"
    assert heard.count("raw_response_event") > 30


@pytest.mark.parametrize("most", [0, -1, True])
def test_a_limit_of_nothing_is_refused(most: Any) -> None:
    with pytest.raises(UserError, match="on_stream_max_pending_events must be 1 or more, or None"):
        Agent("inner").as_tool("inner", "a", on_stream_max_pending_events=most)


# What its guardrails say of its answer.
def withheld(words: str = "SECRET") -> Any:
    """An output guardrail that stops an answer with these words, and what it was asked about."""
    asked_about: list[Any] = []

    @output_guardrail(name="secrets")
    async def look(_context: Any, agent: Any, output: Any) -> GuardrailFunctionOutput:
        asked_about.append((agent.name, output))
        return GuardrailFunctionOutput("looked", words in str(output))

    return look, asked_about


@pytest.mark.parametrize("whose", ["the agent's", "its tool's", "the run's"])
@pytest.mark.parametrize("extracted", [False, True], ids=["as it is", "extracted"])
async def test_output_guardrails_judge_the_answer_of_an_agent_tool(
    world: World, run: Run, saved: bool, whose: str, extracted: bool
) -> None:
    look, looked_at = withheld()
    config = RunConfig(output_guardrails=[look])
    inner = asking_as(world, "inner", [call("ask", "i1")], "the SECRET")
    inner.output_guardrails = [look] if whose == "the agent's" else []
    told = (lambda result: f"extracted {result.final_output}") if extracted else None
    tool = inner.as_tool(
        "inner", "asks", custom_output_extractor=told, run_config=config if whose == "its tool's" else None
    )
    agent = outer(call("inner", "o1", input="x"), tools=[tool])
    options: Any = {"run_config": config} if whose == "the run's" else {}
    paused = await run(agent, "go", **options)
    result = await run(agent, await approved(paused, agent, saved), **options)
    assert looked_at[0] == ("inner", "the SECRET")
    assert outputs(result.to_input_list())["o1"].startswith("An error occurred")
    assert "SECRET" not in str([request.input for request in asked(agent)])
    assert [(one.guardrail.get_name(), one.output.tripwire_triggered) for one in result.output_guardrail_results][
        :1
    ] == [("secrets", True)]


@pytest.mark.parametrize("behavior", ["run_llm_again", "stop_on_first_tool"])
async def test_an_answer_that_a_guardrail_stops_stops_the_run_where_errors_do(
    world: World, run: Run, behavior: Any
) -> None:
    look, _ = withheld()
    inner = asking_as(world, "inner", [call("free", "i1")], "the SECRET", tool_use_behavior=behavior)
    if behavior == "stop_on_first_tool":
        look, _ = withheld("free(0)")
    inner.output_guardrails = [look]
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "a", failure_error_function=None)])
    with pytest.raises(OutputGuardrailTripwireTriggered):
        await run(agent, "go")
    assert len(asked(agent)) == 1


async def test_an_answer_that_its_guardrails_let_pass_is_the_result(world: World, run: Run, saved: bool) -> None:
    look, looked_at = withheld("never")
    inner = asking_as(world, "inner", [call("ask", "i1")], "inside")
    inner.output_guardrails = [look]
    agent = outer(call("inner", "o1", input="x"), tools=[inner.as_tool("inner", "a", on_stream=lambda _event: None)])
    result = await run(agent, await approved(await run(agent, "go"), agent, saved))
    assert (outputs(result.to_input_list()), looked_at) == ({"o1": "inside"}, [("inner", "inside")])
