"""A run that waits: its request is a moment, its trace goes on, and what is executed days later links to it."""

from __future__ import annotations

import json
from typing import Any

from keyturn import Agent, MemoryJournal, RunConfig, Runner, RunState, function_tool, trace
from keyturn.engine.run.log_cache import forget
from keyturn.models.scripted.model import ScriptedModel, function_call
from tests import forked
from tests.playing import Run, approved, through_text
from tests.tracing.watching import Seen, of


def paying(name: str = "Clerk", **options: Any) -> tuple[Agent[Any], list[str]]:
    """An agent that pays once, when it may."""
    done: list[str] = []

    @function_tool(needs_approval=True, **options)
    async def pay(to: str) -> str:
        done.append(to)
        return "paid"

    model = ScriptedModel([[function_call("pay", {"to": "ada"}, call_id="c1")], "done"])
    return Agent(name=name, model=model, tools=[pay]), done


async def test_the_execution_links_to_its_request_in_the_same_trace(run: Run, seen: Seen) -> None:
    agent, done = paying()
    paused = await run(
        agent, "go", run_config=seen.config(workflow_name="Bills", group_id="g", trace_metadata={"n": 1})
    )
    assert seen.tree() == [
        "invoke_workflow Bills",
        "  invoke_agent Clerk",
        "    chat scripted",
        "    request_approval pay",
    ]
    first, request = seen.one("invoke_workflow Bills"), seen.one("request_approval pay")
    assert of(first)["keyturn.run.status"] == "waiting"
    assert of(request)["keyturn.request.kind"] == "approval"
    seen.clear()

    await run(agent, await approved(paused, agent, saved=True), run_config=seen.config())
    assert done == ["ada"]
    assert seen.tree() == [
        "invoke_workflow Bills",
        "  decide pay",
        "  invoke_agent Clerk",
        "    execute_tool pay",
        "    chat scripted",
    ]
    assert {span.context.trace_id for span in seen.spans} == {first.context.trace_id}
    again, executed, decided = (seen.one(name) for name in ("invoke_workflow Bills", "execute_tool pay", "decide pay"))
    assert again.parent is not None
    assert again.parent.span_id == first.context.span_id
    assert of(again)["keyturn.resumed"] is True
    assert (of(again)["gen_ai.conversation.id"], of(again)["keyturn.metadata.n"]) == ("g", 1)
    for span in (executed, decided):
        [link] = span.links
        assert (link.context.trace_id, link.context.span_id) == (request.context.trace_id, request.context.span_id)
        assert of(span)["keyturn.decision"] == "approve"
    assert of(decided)["keyturn.waited_ms"] >= 0


SCRIPT = """
import asyncio, json, os, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from keyturn import Agent, Runner, RunState, function_tool
from keyturn.models.scripted.model import ScriptedModel, function_call, tool_outputs

exporter = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))

@function_tool(needs_approval=True)
async def pay(to: str) -> str:
    return "paid"

def answer(request):
    return "done" if len(request.input) > 1 else [function_call("pay", {"to": "ada"}, call_id="c1")]

agent = Agent(name="Clerk", model=ScriptedModel(answer), tools=[pay])

async def main():
    saved = sys.stdin.read()
    if saved:
        state = await RunState.from_string(agent, saved)
        state.approve(state.get_interruptions()[0])
        result = await Runner.run(agent, state)
    else:
        result = await Runner.run(agent, "go")
    spans = {
        span.name: {
            "trace": span.context.trace_id,
            "span": span.context.span_id,
            "links": [[link.context.trace_id, link.context.span_id] for link in span.links],
        }
        for span in exporter.get_finished_spans()
    }
    print(json.dumps([os.getpid(), result.final_output, spans, result.to_state().to_string()]))

asyncio.run(main())
"""


def process(given: str = "") -> Any:
    """Run the script in a process of its own, whose provider is the process's."""
    done = forked.run(["-c", SCRIPT], input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_two_processes_make_one_trace() -> None:
    first, nothing, before, saved = process()
    second, answer, after, _state = process(saved)
    assert (first != second, nothing, answer) == (True, None, "done")
    assert {span["trace"] for span in after.values()} == {span["trace"] for span in before.values()}
    request = before["request_approval pay"]
    assert after["execute_tool pay"]["links"] == [[request["trace"], request["span"]]]


async def test_a_rejected_call_has_a_decision_and_no_execution(seen: Seen) -> None:
    agent, done = paying()
    paused = await Runner.run(agent, "go", run_config=seen.config())
    request = seen.one("request_approval pay")
    state = await through_text(agent, paused)
    state.reject(state.get_interruptions()[0], note="hunter2", by="ann")
    await Runner.run(agent, state, run_config=seen.config())
    decided = seen.one("decide pay")
    assert of(decided)["keyturn.decision"] == "reject"
    assert [link.context.span_id for link in decided.links] == [request.context.span_id]
    assert (done, seen.named("execute_tool pay")) == ([], [])
    assert "hunter2" not in seen.text()
    assert "ann" not in str([of(span) for span in seen.spans])


async def test_a_nested_request_is_below_its_agent_and_found_again(seen: Seen) -> None:
    inner, done = paying("Scout")
    asked = ScriptedModel([[function_call("scout", {"input": "x"})], "done"])
    agent = Agent(name="Clerk", model=asked, tools=[inner.as_tool("scout", "Asks the scout.")])
    paused = await Runner.run(agent, "go", run_config=seen.config())
    assert seen.tree()[-2:] == ["        chat scripted", "        request_approval pay"]
    request = seen.one("request_approval pay")
    seen.clear()
    await Runner.run(agent, await approved(paused, agent, saved=True), run_config=seen.config())
    assert done == ["ada"]
    assert seen.tree() == [
        "invoke_workflow Agent workflow",
        "  decide pay",
        "  invoke_agent Clerk",
        "    invoke_agent Scout",
        "      execute_tool pay",
        "      chat scripted",
        "    chat scripted",
    ]
    assert [link.context.span_id for link in seen.one("execute_tool pay").links] == [request.context.span_id]


async def test_the_place_is_in_the_journal(seen: Seen) -> None:
    agent, done = paying()
    journal = MemoryJournal()
    paused = await Runner.run(agent, "go", run_config=seen.config(), journal=journal)
    request = seen.one("request_approval pay")
    del paused.interruptions[:]
    forget()
    state = await RunState.load(journal, paused.run_id, agent)
    state.approve(state.get_interruptions()[0])
    await Runner.run(agent, state, run_config=seen.config())
    assert done == ["ada"]
    assert [link.context.span_id for link in seen.one("execute_tool pay").links] == [request.context.span_id]
    assert len(seen.traces()) == 1


async def test_a_run_that_began_untraced_keeps_the_trace_it_got(seen: Seen) -> None:
    @function_tool(needs_approval=True)
    async def pay() -> str:
        return "paid"

    model = ScriptedModel([[function_call("pay", {})], [function_call("pay", {})], "done"])
    agent = Agent(name="Clerk", model=model, tools=[pay])
    result = await Runner.run(agent, "go")
    result = await Runner.run(agent, await approved(result, agent, saved=True), run_config=seen.config())
    result = await Runner.run(agent, await approved(result, agent, saved=True), run_config=seen.config())
    assert result.final_output == "done"
    assert len(seen.traces()) == 1
    first, second = seen.named("execute_tool pay")
    assert ([len(first.links), len(second.links)]) == ([0, 1])


async def test_taken_up_inside_another_trace_a_run_keeps_its_own_and_links(seen: Seen) -> None:
    agent, _done = paying()
    paused = await Runner.run(agent, "go", run_config=seen.config())
    began = seen.traces()
    seen.clear()
    with trace("Inbox", tracing=seen.provider):
        await Runner.run(agent, await approved(paused, agent, saved=True), run_config=seen.config())
    inbox, taken_up = seen.one("invoke_workflow Inbox"), seen.one("invoke_workflow Agent workflow")
    assert {f"trace_{taken_up.context.trace_id:032x}"} == began
    assert [link.context.span_id for link in taken_up.links] == [inbox.context.span_id]
    assert inbox.context.trace_id != taken_up.context.trace_id


async def test_one_trace_around_the_pause_needs_no_second_workflow(seen: Seen) -> None:
    agent, _done = paying()
    with trace("Chat", tracing=seen.provider):
        paused = await Runner.run(agent, "go")
        await Runner.run(agent, await approved(paused, agent, saved=True))
    assert [name for name in seen.tree() if "invoke" in name] == [
        "invoke_workflow Chat",
        "  invoke_agent Clerk",
        "  invoke_agent Clerk",
    ]


async def test_an_untraced_log_holds_no_place_and_a_traced_one_only_places(seen: Seen) -> None:
    agent, _done = paying()
    plain = await Runner.run(agent, "go", run_config=RunConfig())
    assert [step.spans for step in plain.to_state().live.log.steps if step.spans] == []
    agent, _done = paying()
    traced = await Runner.run(agent, "go", run_config=seen.config())
    places = {name: place for step in traced.to_state().live.log.steps for name, place in step.spans.items()}
    assert set(places) == {"r", "r/1.0"}
    assert all(len(place) == 55 for place in places.values())
