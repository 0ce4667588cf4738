"""A tool's output guardrails see every result of its calls, whoever gave it, and what they withhold no model reads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
from mcp.server import MCPServer

from keyturn import (
    Agent,
    CallDeferred,
    MemoryJournal,
    Runner,
    ToolContext,
    ToolGuardrailFunctionOutput,
    ToolOutputGuardrailTripwireTriggered,
    ask_user,
    function_tool,
    handoff,
    tool_output_guardrail,
)
from keyturn.core.events import CallFinished
from keyturn.deferred import Agent as DeferredAgent
from keyturn.deferred import DeferredToolRequests, DeferredToolResults
from keyturn.tools.base import NeedsInput, OutcomeUnknown
from tests.mcp.conftest import Inside
from tests.playing import Run, asked, call, events, go_on, interruptions, model, outputs, script, state_of, through_text
from tests.table import each

SECRET = "sk-live-4242"
BEHAVIOURS = ("allow", "reject_content", "raise_exception")


class Guard:
    """An output guardrail that sees what it is shown, and answers one of the three; it may be down at first."""

    def __init__(self, behaviour: str, *, down: int = 0) -> None:
        self.seen: list[Any] = []
        self.behaviour, self.down = behaviour, down

        @tool_output_guardrail(name="secrets")
        async def look(data: Any) -> ToolGuardrailFunctionOutput:
            self.seen.append(data.output)
            if self.down:
                self.down -= 1
                raise RuntimeError("the classifier is down")
            if self.behaviour == "reject_content":
                return ToolGuardrailFunctionOutput.reject_content("withheld")
            if self.behaviour == "raise_exception":
                return ToolGuardrailFunctionOutput.raise_exception()
            return ToolGuardrailFunctionOutput.allow()

        self.all: list[Any] = [look]


class Way(NamedTuple):
    """A way in which a call gets its result: the agent, and what people say of what waits."""

    agent: Agent[Any]
    decide: Callable[[Any, Any], None] | None = None


def _approve(state: Any, item: Any) -> None:
    state.approve(item)


def _answer(state: Any, item: Any) -> None:
    state.answer(item, SECRET)


def of(tool: Any, *reply: Any, decide: Any = None) -> Way:
    return Way(Agent("a", model=script([*(reply or [call("look", "c1")])], "done"), tools=[tool]), decide)


def returned(guard: Guard) -> Way:
    return of(function_tool(lambda: SECRET, name_override="look", tool_output_guardrails=guard.all))


def returned_after_approval(guard: Guard) -> Way:
    gated: dict[str, Any] = {"needs_approval": True, "tool_output_guardrails": guard.all}
    return of(function_tool(lambda: SECRET, name_override="look", **gated), decide=_approve)


def raised(guard: Guard) -> Way:
    def look() -> str:
        raise ValueError(SECRET)

    return of(function_tool(look, failure_error_function=lambda _c, e: str(e), tool_output_guardrails=guard.all))


def deferred(guard: Guard) -> Way:
    def look() -> str:
        raise CallDeferred

    return of(function_tool(look, tool_output_guardrails=guard.all), decide=_answer)


def answered_in_its_place(guard: Guard) -> Way:
    gated: dict[str, Any] = {"needs_approval": True, "tool_output_guardrails": guard.all}
    return of(function_tool(lambda: "other", name_override="look", **gated), decide=_answer)


def answered_with_data(guard: Guard) -> Way:
    gated: dict[str, Any] = {"needs_approval": True, "tool_output_guardrails": guard.all}
    tool = function_tool(lambda: "other", name_override="look", **gated)
    return of(tool, decide=lambda state, item: state.answer(item, {"key": SECRET}))


def asked_of_the_user(guard: Guard) -> Way:
    tool = ask_user("look")
    tool.tool_output_guardrails = guard.all
    return of(tool, call("look", "c1", question="Which key?"), decide=_answer)


def resumed_with_an_answer(guard: Guard) -> Way:
    def look(context: ToolContext[Any]) -> Any:
        return NeedsInput({"q": "key?"}) if context.resumed is None else context.resumed.answers

    return of(function_tool(look, tool_output_guardrails=guard.all), decide=_answer)


def said_to_have_run(guard: Guard) -> Way:
    def look() -> str:
        raise OutcomeUnknown("the line went down")

    tool = function_tool(look, tool_output_guardrails=guard.all)
    return of(tool, decide=lambda state, item: state.resolve(item, "ran", output=SECRET))


def found_by_its_check(guard: Guard) -> Way:
    def look() -> str:
        raise OutcomeUnknown("the line went down")

    tool = function_tool(look, check=lambda _context: SECRET, tool_output_guardrails=guard.all)
    return of(tool, decide=lambda _state, _item: None)


def nested(guard: Guard, *, inner: Agent[Any] | None = None, decide: Any = None, **options: Any) -> Way:
    inside = inner or Agent("inner", model=script(SECRET))
    tool = inside.as_tool("look", "Looks.", **options)
    tool.tool_output_guardrails = guard.all
    return of(tool, call("look", "c1", input="key?"), decide=decide)


def nested_and_extracted(guard: Guard) -> Way:
    return nested(guard, inner=Agent("inner", model=script("hm")), custom_output_extractor=lambda _result: SECRET)


def nested_with_an_approval_inside(guard: Guard) -> Way:
    gated = function_tool(lambda: "ok", name_override="open", needs_approval=True)
    return nested(
        guard, inner=Agent("inner", model=script([call("open", "i1")], SECRET), tools=[gated]), decide=_approve
    )


def nested_and_failed(guard: Guard) -> Way:
    def broken(_request: Any) -> Any:
        raise ValueError("the model is down")

    failing: Any = Agent("inner", model=model(broken))
    return nested(guard, inner=failing, failure_error_function=lambda _context, _error: SECRET)


def nested_and_answered_in_its_place(guard: Guard) -> Way:
    return nested(guard, inner=Agent("inner", model=script("no")), needs_approval=True, decide=_answer)


def handed_over(guard: Guard) -> Way:
    second = Agent(SECRET, model=script("done", "done"))
    to_second = handoff(second, tool_name_override="look")
    to_second.tool_output_guardrails = guard.all
    return Way(Agent("a", model=script([call("look", "c1")]), handoffs=[to_second]))


WAYS = (
    returned, returned_after_approval, raised, deferred, answered_in_its_place, answered_with_data, asked_of_the_user,
    resumed_with_an_answer, said_to_have_run, found_by_its_check, nested, nested_and_extracted,
    nested_with_an_approval_inside, nested_and_failed, nested_and_answered_in_its_place, handed_over,
)  # fmt: skip


async def played(run: Run, way: Way, saved: bool) -> Any:
    """Run to the end; where its tripwire stopped the run, resume it once, and say so."""
    given: Any = "go"
    stopped = False
    while True:
        try:
            result = await run(way.agent, given)
        except ToolOutputGuardrailTripwireTriggered as error:
            assert not stopped, "a result that is recorded is not judged again"
            stopped = True
            given = await state_of(error.run_data, way.agent, saved)
            continue
        if not interruptions(result):
            return result, stopped
        given = await state_of(result, way.agent, saved)
        for item in given.get_interruptions():
            assert way.decide is not None
            way.decide(given, item)


@pytest.mark.each
@pytest.mark.parametrize("behaviour", BEHAVIOURS)
@each("way", [(way,) for way in WAYS], ids=[way.__name__ for way in WAYS])
async def test_a_result_is_judged_however_it_came(run: Run, saved: bool, behaviour: str, way: tuple[Any]) -> None:
    guard = Guard(behaviour)
    here = way[0](guard)
    result, stopped = await played(run, here, saved)
    assert len(guard.seen) == 1, "each result is judged once"
    assert SECRET in str(guard.seen[0])
    given = outputs(result.to_input_list())
    if behaviour == "allow":
        assert SECRET in str(given["c1"])
    else:
        assert given["c1"] == ("withheld" if behaviour == "reject_content" else "The tool's output was withheld.")
        assert SECRET not in str(result.new_items[1:]).replace(f"name='{SECRET}'", "").replace(f"agent='{SECRET}'", "")
    assert stopped == (behaviour == "raise_exception")
    assert len(result.tool_output_guardrail_results) == 1
    finished = [event for event in events(result, CallFinished) if event.call == "r/1.0"]
    assert (SECRET in str([event.value for event in finished])) <= (behaviour == "allow")
    if way[0] is not handed_over:
        assert [SECRET in str(request.input) for request in asked(here.agent)[1:]] == [behaviour == "allow"]


async def test_an_answer_that_is_withheld_is_not_the_agents_answer_either(run: Run) -> None:
    """`stop_on_first_tool` makes a tool's value the final output: of one that is withheld, the message."""
    for way in (nested, answered_with_data):
        here = way(Guard("reject_content"))
        here.agent.tool_use_behavior = "stop_on_first_tool"
        result, _ = await played(run, here, False)
        assert result.final_output == "withheld"


async def test_a_guardrail_that_is_down_keeps_the_answer_back_until_it_is_up(run: Run, saved: bool) -> None:
    """Nothing is recorded of a result that is not judged: after a restart the guardrail is asked anew."""
    for way in (answered_in_its_place, deferred, said_to_have_run):
        guard = Guard("reject_content", down=1)
        here = way(guard)
        state = await state_of(await run(here.agent, "go"), here.agent, saved)
        assert here.decide is not None
        here.decide(state, state.get_interruptions()[0])
        with pytest.raises(RuntimeError, match="classifier is down") as stopped:
            await run(here.agent, state)
        broken: Any = stopped.value
        assert events(broken.run_data, CallFinished) == []
        result = await run(here.agent, await state_of(broken.run_data, here.agent, saved))
        assert outputs(result.to_input_list())["c1"] == "withheld"
        assert guard.seen == [SECRET, SECRET]


async def test_a_verdict_and_its_result_are_one_step(run: Run) -> None:
    """Cut at every step of a journal, a run has both or neither, and the model never reads the secret."""
    for way in (answered_in_its_place, nested, deferred):
        here = way(Guard("reject_content"))
        result, _ = await played(run, here, False)
        steps = result.to_state().live.log.steps
        told = [[type(event).__name__ for event in step.events] for step in steps]
        [both] = [names for names in told if "GuardrailReported" in names]
        assert "CallFinished" in both


async def test_an_answer_from_an_inbox_is_judged_in_another_process(run: Run) -> None:
    guard = Guard("reject_content")
    here = answered_in_its_place(guard)
    journal = MemoryJournal()
    result = await run(here.agent, "go", journal=journal)
    state = await through_text(here.agent, result)
    state.answer(state.get_interruptions()[0], SECRET)
    await run(here.agent, state, journal=journal)
    again = await go_on(journal, result.run_id, here.agent)
    assert outputs(again.to_input_list())["c1"] == "withheld"
    assert guard.seen == [SECRET]


@each("behaviour", BEHAVIOURS)
async def test_a_deferred_result_is_judged(behaviour: str) -> None:
    """`DeferredToolResults` answers calls that run elsewhere, and calls that wait for an approval."""
    guard = Guard(behaviour)
    scripted = model([call("look", "c1")], "done")
    agent: Any = DeferredAgent(scripted, output_type=[str, DeferredToolRequests])

    @agent.tool_plain(tool_output_guardrails=guard.all)
    def look() -> str:
        """Look."""
        raise CallDeferred

    waits = await agent.run("go")
    said = DeferredToolResults(calls={"c1": SECRET})
    if behaviour == "raise_exception":
        with pytest.raises(ToolOutputGuardrailTripwireTriggered):
            await agent.run(message_history=waits.all_messages(), deferred_tool_results=said)
    else:
        await agent.run(message_history=waits.all_messages(), deferred_tool_results=said)
        assert (SECRET in str(scripted.calls[-1].input)) == (behaviour == "allow")
    assert guard.seen == [SECRET]


@each("behaviour", BEHAVIOURS)
async def test_a_result_of_a_server_is_judged_whoever_gave_it(behaviour: str) -> None:
    shop = MCPServer("shop")

    @shop.tool()
    async def look() -> str:
        """Look."""
        return SECRET

    for required, decide in ((False, None), (True, _approve), (True, _answer)):
        guard = Guard(behaviour)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                Inside(shop, require_approval=required, tool_output_guardrails=guard.all)
            )
            agent: Agent[Any] = Agent("a", model=script([call("look", "c1")], "done"), mcp_servers=[server])
            result, _ = await played(Runner.run, Way(agent, decide), True)
        assert (len(guard.seen), SECRET in str(guard.seen)) == (1, True)
        assert (SECRET in str(outputs(result.to_input_list()))) == (behaviour == "allow")
