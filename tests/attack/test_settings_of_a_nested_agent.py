"""What `as_tool(run_config=)` says holds for the nested agent, and what the outer run says holds beside it."""

from __future__ import annotations

import pytest

from keyturn import Agent, RunConfig, ToolExecutionConfig, function_tool
from keyturn.testing import ScriptedModel, function_call
from tests.playing import play
from tests.waiting import turns_of_the_loop


def at_once(most: int | None) -> RunConfig:
    return RunConfig(tool_execution=ToolExecutionConfig(max_function_tool_concurrency=most))


@pytest.mark.parametrize(("outer", "inner", "most"), [(None, 1, 1), (1, 3, 1), (2, None, 2), (None, None, 4)])
async def test_a_limit_on_tools_at_work_holds_for_a_nested_agent(
    streamed: bool, outer: int | None, inner: int | None, most: int
) -> None:
    at_work: list[int] = []
    peak: list[int] = []

    @function_tool
    async def count(place: int) -> str:
        """Count who is at work."""
        at_work.append(place)
        peak.append(len(at_work))
        await turns_of_the_loop(20)
        at_work.remove(place)
        return "counted"

    calls = [function_call("count", {"place": place}, call_id=f"c{place}") for place in range(4)]
    counter = Agent("counter", model=ScriptedModel([calls, "done"]), tools=[count])
    tool = counter.as_tool("ask", "Asks.", run_config=at_once(inner))
    desk = Agent("desk", model=ScriptedModel([[function_call("ask", {"input": "go"})], "done"]), tools=[tool])
    result = await play(desk, run_config=at_once(outer), streamed=streamed)
    assert (result.final_output, max(peak)) == ("done", most)
