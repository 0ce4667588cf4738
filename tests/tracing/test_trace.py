"""`trace()`, `custom_span` and the switches: what groups runs, what is current, and that nothing is traced unasked."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from keyturn import (
    Agent,
    Runner,
    UserError,
    custom_span,
    function_tool,
    gen_trace_id,
    get_current_trace,
    set_tracing_disabled,
    trace,
)
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests.playing import Run
from tests.tracing.watching import Seen, of


def greeter(*replies: Any) -> Agent[Any]:
    return Agent(name="Greeter", model=ScriptedModel(list(replies) or ["hello", "hello again"]))


def process(script: str) -> Any:
    """What a script prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


UNTRACED = """
import json, sys
from keyturn import Agent, Runner, custom_span, function_tool, get_current_trace, trace
from keyturn.models.scripted.model import ScriptedModel, function_call

@function_tool
async def look() -> str:
    with custom_span("looking"):
        return get_current_trace().name

model = ScriptedModel([[function_call("look", {})], "done"])
with trace("Untraced") as current:
    result = Runner.run_sync(Agent(name="a", model=model, tools=[look]), "go")
loaded = [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]
print(json.dumps([result.final_output, result.new_items[1].output, len(current.trace_id), loaded]))
"""


@pytest.mark.trial
def test_without_a_provider_opentelemetry_is_not_even_imported() -> None:
    assert process(UNTRACED) == ["done", "Untraced", 38, []]


IMPORTED = """
import json
from opentelemetry import trace as otel
from keyturn import Agent, Runner
from keyturn.models.scripted.model import ScriptedModel

result = Runner.run_sync(Agent(name="a", model=ScriptedModel(["done"])), "go")
print(json.dumps([result.final_output, [len(step.spans) for step in result.to_state().live.log.steps]]))
"""


@pytest.mark.trial
def test_opentelemetry_without_a_provider_traces_nothing() -> None:
    answer, places = process(IMPORTED)
    assert (answer, set(places)) == ("done", {0})


async def test_trace_groups_runs_under_one_workflow(run: Run, seen: Seen) -> None:
    agent = greeter()
    async with trace("Chat", group_id="thread 1", metadata={"user": 7}, tracing=seen.provider) as current:
        assert get_current_trace() is current
        await run(agent, "hi")
        await run(agent, "hi again")
    assert get_current_trace() is None
    assert seen.tree() == [
        "invoke_workflow Chat",
        "  invoke_agent Greeter",
        "    chat scripted",
        "  invoke_agent Greeter",
        "    chat scripted",
    ]
    assert seen.traces() == {current.trace_id}
    said = of(seen.one("invoke_workflow Chat"))
    assert (said["gen_ai.conversation.id"], said["keyturn.metadata.user"]) == ("thread 1", 7)
    assert of(seen.named("chat scripted")[0])["gen_ai.conversation.id"] == "thread 1"


async def test_two_runs_without_trace_are_two_traces(seen: Seen) -> None:
    agent = greeter()
    await Runner.run(agent, "hi", run_config=seen.config())
    await Runner.run(agent, "hi", run_config=seen.config())
    assert len(seen.traces()) == 2


@pytest.mark.parametrize("given", [gen_trace_id(), "order 17"], ids=["made", "own"])
async def test_an_id_of_ones_own(seen: Seen, given: str) -> None:
    agent = greeter()
    await Runner.run(agent, "hi", run_config=seen.config(trace_id=given))
    with trace("Chat", trace_id=given, tracing=seen.provider) as current:
        await Runner.run(agent, "hi")
    assert seen.traces() == {current.trace_id}
    assert given in (current.trace_id, "order 17")


async def test_an_error_that_leaves_the_trace_is_its_status(seen: Seen) -> None:
    with pytest.raises(ValueError, match="hunter2"), trace("Chat", tracing=seen.provider):
        raise ValueError("hunter2")
    assert seen.one("invoke_workflow Chat").status.status_code is StatusCode.ERROR
    assert "hunter2" not in seen.text()


async def test_a_span_of_ones_own_is_below_the_tool(seen: Seen) -> None:
    @function_tool
    async def look() -> str:
        with custom_span("query", {"rows": 3}) as span:
            span.tell({"found": True, "names": ["a", "b"], "more": {"x": 1}, "none": None})
        with pytest.raises(KeyError), custom_span("broken"):
            raise KeyError
        return "seen"

    agent = Agent(name="Clerk", model=ScriptedModel([[function_call("look", {})], "done"]), tools=[look])
    await Runner.run(agent, "go", run_config=seen.config())
    assert seen.tree()[3:6] == ["    execute_tool look", "      query", "      broken"]
    assert of(seen.one("query")) == {"rows": 3, "found": True, "names": ("a", "b"), "more": '{"x": 1}'}
    assert of(seen.one("broken"))["error.type"] == "KeyError"


async def test_the_process_can_switch_tracing_off_and_on(seen: Seen) -> None:
    set_tracing_disabled(True)
    try:
        await Runner.run(greeter(), "hi", run_config=seen.config())
        with trace("Chat", tracing=seen.provider):
            await Runner.run(greeter(), "hi")
        assert seen.spans == []
    finally:
        set_tracing_disabled(False)
    await Runner.run(greeter(), "hi", run_config=seen.config())
    assert len(seen.spans) == 3
    with pytest.raises(UserError, match="True or False"):
        set_tracing_disabled(cast("Any", "yes"))


async def test_a_run_can_be_left_out_with_all_that_is_in_it(run: Run, seen: Seen) -> None:
    helper = greeter()

    @function_tool
    async def work() -> str:
        with custom_span("query"):
            return str((await Runner.run(helper, "hi")).final_output)

    agent = Agent(name="Clerk", model=ScriptedModel([[function_call("work", {})], "done"]), tools=[work])
    with trace("Chat", tracing=seen.provider):
        await run(agent, "go", run_config=seen.config(tracing_disabled=True))
        assert get_current_trace() is not None
    assert seen.tree() == ["invoke_workflow Chat"]
    with trace("Chat", disabled=True):
        await Runner.run(greeter(), "hi", run_config=seen.config())
    assert seen.tree() == ["invoke_workflow Chat"]


async def test_traces_side_by_side_do_not_mix(seen: Seen) -> None:
    async def one(name: str) -> str:
        with trace(name, tracing=seen.provider) as current:
            await asyncio.gather(*(Runner.run(greeter(), "hi") for _ in range(2)))
            return current.trace_id

    ids = await asyncio.gather(one("a"), one("b"))
    assert seen.traces() == set(ids)
    for span in seen.named("chat scripted"):
        assert f"trace_{span.context.trace_id:032x}" in ids
    assert [len([s for s in seen.spans if f"trace_{s.context.trace_id:032x}" == each]) for each in ids] == [5, 5]


def test_a_trace_is_open_once() -> None:
    with trace("Chat") as current, pytest.raises(UserError, match="open already"), current:
        pass
    assert get_current_trace() is None
    with pytest.raises(UserError, match="name of a workflow"):
        trace("")
    with pytest.raises(UserError, match="not a str"):
        trace("Chat", tracing="console")


class Raising(SpanProcessor):
    """A processor of the kind that nobody wants."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise OSError("the collector is on fire")

    def on_end(self, span: ReadableSpan) -> None:
        raise OSError("still burning")


async def test_a_processor_that_raises_harms_no_run(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Raising())

    @function_tool
    async def look() -> str:
        return "seen"

    agent = Agent(name="Clerk", model=ScriptedModel([[function_call("look", {})], "done"]), tools=[look])
    with caplog.at_level(logging.WARNING, "keyturn.tracing"), trace("Chat", tracing=provider):
        result = await run(agent, "go")
    assert result.final_output == "done"
    assert caplog.records


async def test_what_is_not_sampled_stays_so_after_the_pause(seen: Seen) -> None:
    seen.provider.sampler = ParentBased(ALWAYS_OFF)
    result = await Runner.run(greeter(), "hi", run_config=seen.config())
    [place] = [step.spans["r"] for step in result.to_state().live.log.steps if step.spans]
    assert place.endswith("-00")
    assert seen.spans == []
