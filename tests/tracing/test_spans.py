"""The spans of a run: which there are, what is below what, and what they say; plain and streamed alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.trace import SpanKind, StatusCode

from keyturn import (
    Agent,
    GuardrailFunctionOutput,
    ModelSettings,
    RunConfig,
    Runner,
    ToolGuardrailFunctionOutput,
    Usage,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
    tool_output_guardrail,
)
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.playing import Run
from tests.tracing.watching import Seen, of


def model(*steps: Any, **options: Any) -> ScriptedModel:
    return ScriptedModel(list(steps), **options)


@function_tool
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def looking(*more: Any) -> ScriptedModel:
    return model([function_call("look", {"at": "sky"}, call_id="c1")], *more)


async def test_a_run_is_a_workflow_with_an_agent_its_questions_and_its_tools(run: Run, seen: Seen) -> None:
    agent = Agent(name="Clerk", model=looking("blue"), tools=[look])
    result = await run(agent, "sky?", run_config=seen.config(workflow_name="Weather", group_id="chat 7"))
    assert result.final_output == "blue"
    assert seen.tree() == [
        "invoke_workflow Weather",
        "  invoke_agent Clerk",
        "    chat scripted",
        "    execute_tool look",
        "    chat scripted",
    ]
    [workflow, clerk, chat, tool, _chat] = seen.spans
    assert of(workflow) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "Weather",
        "gen_ai.conversation.id": "chat 7",
        "keyturn.run.id": result.run_id,
        "keyturn.run.status": "finished",
    }
    assert of(clerk)["gen_ai.agent.name"] == "Clerk"
    assert of(clerk)["gen_ai.operation.name"] == "invoke_agent"
    assert (chat.kind, tool.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert of(chat)["gen_ai.conversation.id"] == "chat 7"
    assert of(tool) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "keyturn.tool.kind": "function",
        "keyturn.call": "r/1.0",
    }
    assert {span.status.status_code for span in seen.spans} == {StatusCode.UNSET}
    assert len(seen.traces()) == 1


async def test_a_question_says_its_model_its_settings_and_what_it_used(run: Run, seen: Seen) -> None:
    asked = model("hello", default_usage=Usage(requests=1, input_tokens=12, output_tokens=3, total_tokens=15))
    vars(asked).update(model="gpt-9", provider="openai")
    agent = Agent(name="Clerk", model=asked, model_settings=ModelSettings(temperature=0.5, max_tokens=90))
    await run(agent, "hi", run_config=seen.config())
    said = of(seen.one("chat gpt-9"))
    assert said["gen_ai.provider.name"] == "openai"
    assert (said["gen_ai.request.model"], said["gen_ai.response.model"]) == ("gpt-9", "gpt-9")
    assert (said["gen_ai.request.temperature"], said["gen_ai.request.max_tokens"]) == (0.5, 90)
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (12, 3)


async def test_a_nested_agent_is_below_the_call_that_opened_it(run: Run, seen: Seen) -> None:
    inner = Agent(name="Scout", model=looking("blue"), tools=[look])
    outer = model([function_call("scout", {"input": "sky?"}), function_call("look", {"at": "sea"})], "done")
    agent = Agent(name="Clerk", model=outer, tools=[inner.as_tool("scout", "Asks the scout."), look])
    await run(agent, "go", run_config=seen.config())
    assert sorted(seen.tree()) == sorted(
        [
            "invoke_workflow Agent workflow",
            "  invoke_agent Clerk",
            "    chat scripted",
            "    execute_tool scout",
            "      invoke_agent Scout",
            "        chat scripted",
            "        execute_tool look",
            "        chat scripted",
            "    execute_tool look",
            "    chat scripted",
        ]
    )
    scout, nested = seen.one("execute_tool scout"), seen.one("invoke_agent Scout")
    assert scout.start_time is not None
    assert (nested.end_time or 0) <= (scout.end_time or 0)


async def test_a_handoff_ends_one_agents_span_and_begins_the_others(run: Run, seen: Seen) -> None:
    second = Agent(name="Expert", model=model("done"))
    first = Agent(name="Clerk", model=model([function_call("transfer_to_expert", {})]), handoffs=[second])
    await run(first, "go", run_config=seen.config())
    assert seen.tree() == [
        "invoke_workflow Agent workflow",
        "  invoke_agent Clerk",
        "    chat scripted",
        "    handoff Expert",
        "  invoke_agent Expert",
        "    chat scripted",
    ]
    said = of(seen.one("handoff Expert"))
    assert (said["keyturn.handoff.from"], said["keyturn.handoff.to"]) == ("Clerk", "Expert")
    assert (seen.one("invoke_agent Clerk").end_time or 0) <= (seen.one("invoke_agent Expert").start_time or 0)


async def test_guardrails_are_spans_where_they_look(run: Run, seen: Seen) -> None:
    @input_guardrail
    async def polite(ctx: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    @output_guardrail
    async def short(ctx: Any, agent: Any, answer: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(None, tripwire_triggered=False)

    @tool_input_guardrail
    async def known(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.allow()

    @tool_output_guardrail
    async def clean(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("withheld")

    @function_tool(tool_input_guardrails=[known], tool_output_guardrails=[clean])
    async def find(what: str) -> str:
        return what

    asked = model([function_call("find", {"what": "it"})], "done")
    agent = Agent(name="Clerk", model=asked, tools=[find], input_guardrails=[polite], output_guardrails=[short])
    await run(agent, "go", run_config=seen.config())
    found = {span.name: of(span) for span in seen.spans if span.name.startswith("guardrail")}
    assert {name: said["keyturn.guardrail.stage"] for name, said in found.items()} == {
        "guardrail polite": "input",
        "guardrail known": "tool_input",
        "guardrail clean": "tool_output",
        "guardrail short": "output",
    }
    assert [name for name, said in found.items() if said["keyturn.guardrail.triggered"]] == ["guardrail clean"]
    assert {"    guardrail polite", "      guardrail known", "    guardrail short"} <= set(seen.tree())


async def test_a_call_that_a_guardrail_held_back_is_not_told_as_executed(seen: Seen) -> None:
    @tool_input_guardrail
    async def never(data: Any) -> ToolGuardrailFunctionOutput:
        return ToolGuardrailFunctionOutput.reject_content("no")

    @function_tool(tool_input_guardrails=[never])
    async def find() -> str:
        raise AssertionError

    agent = Agent(name="Clerk", model=model([function_call("find", {})], "done"), tools=[find])
    await Runner.run(agent, "go", run_config=seen.config())
    assert of(seen.one("hold_tool find"))["gen_ai.operation.name"] == "hold_tool"
    assert not seen.named("execute_tool find")


async def test_what_a_tool_starts_is_below_it(seen: Seen) -> None:
    helper = Agent(name="Helper", model=model("helped"))

    @function_tool
    async def work() -> str:
        with otel.get_tracer("user", tracer_provider=seen.provider).start_as_current_span("query"):
            pass
        return str((await Runner.run(helper, "help")).final_output)

    agent = Agent(name="Clerk", model=model([function_call("work", {})], "done"), tools=[work])
    await Runner.run(agent, "go", run_config=seen.config())
    assert seen.tree()[3:7] == [
        "    execute_tool work",
        "      query",
        "      invoke_agent Helper",
        "        chat scripted",
    ]
    assert len(seen.traces()) == 1


async def test_calls_of_one_reply_run_side_by_side_under_one_agent(seen: Seen) -> None:
    together = asyncio.Barrier(3)

    @function_tool
    async def meet(who: int) -> str:
        async with asyncio.timeout(10):
            await together.wait()
        return "met"

    asked = model([function_call("meet", {"who": who}) for who in range(3)], "done")
    await Runner.run(Agent(name="Clerk", model=asked, tools=[meet]), "go", run_config=seen.config())
    clerk = seen.one("invoke_agent Clerk").context.span_id
    assert [span.parent and span.parent.span_id for span in seen.named("execute_tool meet")] == [clerk] * 3


async def test_a_run_that_fails_says_so_and_not_with_which_words(run: Run, seen: Seen) -> None:
    agent = Agent(name="Clerk", model=model(RuntimeError("the key is hunter2")))
    with pytest.raises(RuntimeError):
        await run(agent, "go", run_config=seen.config())
    assert seen.tree() == ["invoke_workflow Agent workflow", "  invoke_agent Clerk", "    chat scripted"]
    for span in seen.spans:
        assert span.status.status_code is StatusCode.ERROR
        assert of(span)["error.type"] == "RuntimeError"
        assert not span.events
    assert of(seen.spans[0])["keyturn.run.status"] == "failed"
    assert "hunter2" not in seen.text()


async def test_the_words_of_an_error_are_told_when_the_user_says_so(seen: Seen) -> None:
    agent = Agent(name="Clerk", model=model(RuntimeError("out of paper")))
    with pytest.raises(RuntimeError):
        await Runner.run(agent, "go", run_config=seen.config(trace_include_sensitive_data=True))
    assert seen.one("chat scripted").status.description == "RuntimeError: out of paper"


async def test_a_tool_that_raises_is_an_error_of_its_span_alone(run: Run, seen: Seen) -> None:
    @function_tool
    async def burn() -> str:
        raise ValueError("hunter2")

    agent = Agent(name="Clerk", model=model([function_call("burn", {})], "done"), tools=[burn])
    await run(agent, "go", run_config=seen.config())
    failed = [span.name for span in seen.spans if span.status.status_code is StatusCode.ERROR]
    assert failed == ["execute_tool burn"]
    assert of(seen.one("execute_tool burn"))["error.type"] == "ValueError"
    assert "hunter2" not in seen.text()


async def test_a_nested_agent_that_fails_is_an_error_of_its_call(run: Run, seen: Seen) -> None:
    inner = Agent(name="Scout", model=model(RuntimeError("lost")))
    asked = model([function_call("scout", {"input": "x"})], "done")
    agent = Agent(name="Clerk", model=asked, tools=[inner.as_tool("scout", "Asks the scout.")])
    await run(agent, "go", run_config=seen.config())
    failed = {span.name: of(span)["error.type"] for span in seen.spans if span.status.status_code is StatusCode.ERROR}
    assert failed == {
        "chat scripted": "RuntimeError",
        "invoke_agent Scout": "RuntimeError",
        "execute_tool scout": "RuntimeError",
    }


async def test_cancelling_leaves_no_span_open(seen: Seen) -> None:
    begun = asyncio.Event()

    @function_tool
    async def wait() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(name="Clerk", model=model([function_call("wait", {})]), tools=[wait])
    task = asyncio.ensure_future(Runner.run(agent, "go", run_config=seen.config()))
    async with asyncio.timeout(10):
        await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen.tree() == [
        "invoke_workflow Agent workflow",
        "  invoke_agent Clerk",
        "    chat scripted",
        "    execute_tool wait",
        "    request_approval wait",
    ]
    assert of(seen.one("request_approval wait"))["keyturn.request.kind"] == "in_doubt"
    assert not otel.get_current_span().get_span_context().is_valid


async def test_a_policy_that_is_asked_is_a_span(seen: Seen) -> None:
    async def policy(call: Any, context: Any) -> str:
        return "allow"

    agent = Agent(name="Clerk", model=looking("blue"), tools=[look])
    await Runner.run(agent, "go", run_config=seen.config(), policy=policy)
    assert [name.strip() for name in seen.tree()][3:5] == ["screen_tool look", "execute_tool look"]


async def test_run_config_of_the_other_sdk_is_refused_in_words() -> None:
    with pytest.raises(Exception, match="OpenTelemetry TracerProvider, not a dict"):
        RunConfig(tracing={"api_key": "sk-test"})
