"""Hooks: awaited where the thing happens, in a fixed order, once per activation whatever pauses lie between."""

from __future__ import annotations

from typing import Any

import pytest

from keyturn import Agent, AgentHooks, RunHooks, ToolContext, function_tool, handoff
from tests.playing import (
    Run,
    World,
    approved,
    call,
    model,
    plain,
)


class Log(RunHooks[Any]):
    """Writes down what a run's hooks hear."""

    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        self.heard.append(f"llm_start {agent.name} {system_prompt} {len(input_items)}")

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        self.heard.append(f"llm_end {agent.name} {len(response.output)}")

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        self.heard.append(f"start {agent.name}")

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(f"end {agent.name} {output}")

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        self.heard.append(f"handoff {from_agent.name} {to_agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        assert isinstance(context, ToolContext)
        self.heard.append(f"tool_start {agent.name} {tool.name} {context.tool_call_id} {context.tool_arguments}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        assert isinstance(context, ToolContext)
        self.heard.append(f"tool_end {agent.name} {tool.name} {result}")


class Own(AgentHooks[Any]):
    """Writes down what one agent's hooks hear."""

    def __init__(self, heard: list[str]) -> None:
        self.heard = heard

    async def on_start(self, context: Any, agent: Any) -> None:
        self.heard.append(f"own start {agent.name}")

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        self.heard.append(f"own end {output}")

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        self.heard.append(f"own handoff {source.name} to {agent.name}")

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        self.heard.append(f"own tool_start {tool.name}")

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        self.heard.append(f"own tool_end {tool.name} {result}")


async def test_the_order_of_a_run(world: World, run: Run) -> None:
    heard: list[str] = []
    agent = Agent("a", "Be brief.", model=model([call("free", "c1", x=1)], "done"), tools=[world.tool("free")])
    agent.hooks = Own(heard)
    await run(agent, "go", hooks=Log(heard))
    assert heard == [
        "start a",
        "own start a",
        "llm_start a Be brief. 1",
        "llm_end a 1",
        'tool_start a free c1 {"x":1}',
        "own tool_start free",
        "tool_end a free free(1)",
        "own tool_end free free(1)",
        "llm_start a Be brief. 3",
        "llm_end a 1",
        "end a done",
        "own end done",
    ]


async def test_once_per_activation_over_pauses(world: World, run: Run, saved: bool) -> None:
    heard: list[str] = []
    agent = Agent("a", model=model([call("ask", "c1")], [call("ask", "c2")], "done"))
    agent.tools = [world.tool("ask", needs_approval=True)]
    agent.hooks = Own(heard)
    result = await run(agent, "go", hooks=Log(heard))
    assert not [each for each in heard if "tool" in each]
    while result.interruptions:
        result = await run(agent, result.to_state(), hooks=Log(heard))
        result = await run(agent, await approved(result, agent, saved), hooks=Log(heard))
    told = [each.split()[0] for each in heard if not each.startswith("own")]
    cycle = ["tool_start", "tool_end", "llm_start", "llm_end"]
    assert told == ["start", "llm_start", "llm_end", *cycle, *cycle, "end"]
    assert [each for each in heard if each.startswith("own st")] == ["own start a"]


async def test_a_rejected_call_is_no_tool_event(world: World, run: Run) -> None:
    heard: list[str] = []
    agent = Agent("a", model=model([call("ask", "c1")], "done"), tools=[world.tool("ask", needs_approval=True)])
    state = (await run(agent, "go", hooks=Log(heard))).to_state()
    state.reject(state.get_interruptions()[0])
    await run(agent, state, hooks=Log(heard))
    assert not [each for each in heard if "tool" in each]


async def test_an_edited_call_is_told_with_what_runs(world: World, run: Run) -> None:
    heard: list[str] = []
    agent = Agent("a", model=model([call("ask", "c1", x=1)], "done"), tools=[world.tool("ask", needs_approval=True)])
    state = (await run(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0], edit={"x": 7})
    await run(agent, state, hooks=Log(heard))
    assert 'tool_start a ask c1 {"x":7}' in heard
    assert "tool_end a ask ask(7)" in heard


async def test_a_handoff_is_told_once_to_who_hands_over_and_is_no_tool_event(world: World, run: Run) -> None:
    heard: list[str] = []
    after: list[str] = []
    second = Agent("second", model=model("done"), hooks=Own(after))
    first = Agent("first", model=model([call("transfer_to_second", "h")]), handoffs=[second], hooks=Own(heard))
    await run(first, "go", hooks=Log(heard))
    assert after == ["own start second", "own end done"]
    assert heard == [
        "start first",
        "own start first",
        "llm_start first None 1",
        "llm_end first 1",
        "handoff first second",
        "own handoff first to second",
        "start second",
        "llm_start second None 3",
        "llm_end second 1",
        "end second done",
    ]


async def test_an_agent_tool_ends_when_its_agent_has_answered(world: World, run: Run, saved: bool) -> None:
    heard: list[str] = []
    nested: list[str] = []
    inner = Agent("inner", model=model([call("ask", "i1")], "inside"), tools=[world.tool("ask", needs_approval=True)])
    tool = inner.as_tool("inner", "asks", hooks=Log(nested))
    outer = Agent("outer", model=model([call("inner", "o1", input="x")], "done"), tools=[tool], hooks=Own(heard))
    result = await run(outer, "go", hooks=Log(heard))
    await run(outer, await approved(result, outer, saved), hooks=Log(heard))
    told = [each for each in heard if "tool" in each]
    assert told == [
        'tool_start outer inner o1 {"input":"x"}',
        "own tool_start inner",
        "tool_end outer inner inside",
        "own tool_end inner inside",
    ]
    assert [each.split()[0] for each in nested] == [
        "start",
        "llm_start",
        "llm_end",
        "tool_start",
        "tool_end",
        "llm_start",
        "llm_end",
        "end",
    ]


async def test_a_failing_nested_agent_ends_its_tool_too(run: Run) -> None:
    heard: list[str] = []
    inner = Agent("inner", model=model(OSError("down")))
    outer = Agent(
        "outer", model=model([call("inner", "o1", input="x")], "done"), tools=[inner.as_tool("inner", "asks")]
    )
    await run(outer, "go", hooks=Log(heard))
    told = [each.partition(" ")[0] for each in heard if "tool" in each]
    assert told == ["tool_start", "tool_end"]


async def test_a_start_hook_that_raises_stops_before_the_tool(world: World, run: Run) -> None:
    class Strict(RunHooks[Any]):
        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            raise PermissionError("not today")

    agent = Agent("a", model=model([call("ask", "c1")], "done"), tools=[world.tool("ask", needs_approval=True)])
    state = await approved(await run(agent, "go"), agent)
    with pytest.raises(PermissionError):
        await run(agent, state, hooks=Strict())
    assert world.done == []
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


async def test_an_end_hook_that_raises_never_runs_the_tool_again(world: World, run: Run) -> None:
    class Broken(RunHooks[Any]):
        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            raise RuntimeError("log server down")

    agent = Agent("a", model=model([call("ask", "c1")], "done"), tools=[world.tool("ask", needs_approval=True)])
    state = await approved(await run(agent, "go"), agent)
    with pytest.raises(RuntimeError):
        await run(agent, state, hooks=Broken())
    assert world.done == ["ask(0)"]
    assert (await run(agent, state)).final_output == "done"
    assert world.done == ["ask(0)"]


async def test_a_model_hook_that_raises_leaves_the_run_resumable(world: World, run: Run) -> None:
    class Broken(RunHooks[Any]):
        async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
            raise RuntimeError("no")

    agent = Agent("a", model=model("one", "two"))
    with pytest.raises(RuntimeError) as raised:
        await run(agent, "go", hooks=Broken())
    assert (await run(agent, raised.value.run_data.to_state())).final_output == "two"


async def test_hooks_share_the_runs_context_and_usage(world: World, run: Run) -> None:
    kept: list[Any] = []

    class Keep(RunHooks[Any]):
        async def on_agent_start(self, context: Any, agent: Any) -> None:
            kept.append((context.context, context.usage.requests, context.turn_input))

        async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
            kept.append((context.context, context.usage.requests, context.turn_input))

    agent = Agent("a", model=model([call("free", "c1")], "done"), tools=[world.tool("free")])
    user = object()
    await run(agent, "go", context=user, hooks=Keep())
    said = [{"role": "user", "content": "go"}]
    assert kept == [(user, 0, said), (user, 1, said)]


async def test_sync_functions_in_a_handoff_and_a_tool_are_heard_too(run: Run) -> None:
    heard: list[str] = []

    @function_tool
    def plain_tool() -> int:
        return 3

    second = Agent("second", model=model("done"))
    go = handoff(second, on_handoff=lambda _context: heard.append("callback"))
    first = Agent("first", model=model([call("plain_tool", "c1")], [call("transfer_to_second", "h")]))
    first.tools, first.handoffs = [plain_tool], [go]
    await run(first, "go", hooks=Log(heard))
    assert heard.count("callback") == 1
    assert "tool_end first plain_tool 3" in heard


async def test_many_tools_at_once_are_each_told(world: World) -> None:
    heard: list[str] = []
    calls = [call("free", f"c{n}", x=n) for n in range(20)]
    agent = Agent("a", model=model(calls, "done"), tools=[world.tool("free")])
    await plain(agent, "go", hooks=Log(heard))
    assert len([each for each in heard if each.startswith("tool_start")]) == 20
    assert len([each for each in heard if each.startswith("tool_end")]) == 20
