"""Deep scenarios, played in each way and swept: cut at every commit and resumed, and no effect lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent
from keyturn.deep import DeepAgentDeps, create_deep_agent
from keyturn.testing import function_call
from keyturn.testing.crash import Effects, Scenario, play, sweep
from tests.scenarios import call, script, tools

GATED = {"act": True}


def delegates(what: str, to: str = "general-purpose") -> Any:
    return function_call("task", {"description": what, "subagent_type": to}, call_id=f"task {what}")


def written() -> Any:
    todos = [{"content": "Do it", "status": "pending", "active_form": "Doing it"}]
    return function_call("write_todos", {"todos": todos}, call_id="todos")


def free_tool(effects: Effects) -> Any:
    made = tools(effects)["ask"]
    made.name, made.needs_approval = "act", False
    return made


def gated_in_a_subagent(effects: Effects) -> Agent[Any]:
    inner = script([call("act", 2)], "inner")
    outer = script([written(), delegates("a")], "done")
    agent = create_deep_agent(outer, tools=[free_tool(effects)], interrupt_on=GATED)
    core = agent.core_agent()
    task: Any = next(tool for tool in core.tools if tool.name == "task")
    task.agents["general-purpose"].model = inner
    return core


def beside_a_subagent(effects: Effects) -> Agent[Any]:
    inner = script([call("act", 2)], "inner")
    outer = script([call("act", 1, "own"), delegates("a"), delegates("b")], "done")
    core = create_deep_agent(outer, tools=[free_tool(effects)], interrupt_on=GATED).core_agent()
    task: Any = next(tool for tool in core.tools if tool.name == "task")
    task.agents["general-purpose"].model = inner
    return core


def asks_for_some(effects: Effects) -> Agent[Any]:
    def rule(ctx: Any, params: dict[str, Any], call_id: str) -> bool:
        return params["x"] > 1

    outer = script([call("act", 1, "one"), call("act", 2, "two")], [written()], "done")
    return create_deep_agent(outer, tools=[free_tool(effects)], interrupt_on={"act": rule}).core_agent()


SCENARIOS = [
    Scenario(build.__name__, build, options={"context": DeepAgentDeps()})
    for build in (gated_in_a_subagent, beside_a_subagent, asks_for_some)
]
each = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


@each
async def test_plain_streamed_and_saved_runs_end_alike(scenario: Scenario) -> None:
    plain = await play(scenario)
    for streamed, saved in ((True, False), (False, True), (True, True)):
        other = await play(scenario, streamed=streamed, saved=saved)
        assert (other.output, other.effects) == (plain.output, plain.effects)
    assert plain.log.run.status == "finished"
    assert plain.effects


@each
async def test_no_crash_loses_or_doubles_an_effect(scenario: Scenario, streamed: bool) -> None:
    report = await sweep(scenario, streamed=streamed)
    assert not report.violations, "\n".join(report.violations)
    assert report.cuts > 0
