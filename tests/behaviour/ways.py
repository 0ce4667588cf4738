"""The ways in which each promise is tried: plain and streamed, with the live state and through a saved one.

What a test needs to play a run and to see what it did; no agent and no promise lives here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from keyturn import Agent, Runner, RunResult, RunState, ToolContext, Usage, function_tool
from keyturn.engine.run.log_cache import forget
from keyturn.models.base import ModelRequest
from keyturn.models.scripted.model import ScriptedModel, function_call

Run = Callable[..., Awaitable[RunResult]]


async def plain(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
    """Run to the end or to a pause."""
    return await Runner.run(agent, given, **options)


async def streamed(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
    """The same, every event read."""
    stream = Runner.run_streamed(agent, given, **options)
    async for _event in stream.stream_events():
        pass
    assert stream.is_complete
    return cast("RunResult", stream.run_loop_task.result())


both = pytest.mark.parametrize("run", [plain, streamed], ids=["plain", "streamed"])
carried = pytest.mark.parametrize("saved", [False, True], ids=["live", "saved"])


async def state_of(result: RunResult, agent: Agent[Any], saved: bool, **load: Any) -> RunState[Any]:
    """A state of a result: in hand, or written down and read again."""
    if not saved:
        return result.to_state()
    text = result.to_state().to_string()
    forget()
    return await RunState.from_string(agent, text, **load)


async def approved(result: RunResult, agent: Agent[Any], saved: bool = False, **load: Any) -> RunState[Any]:
    """A state in which everything that waits is approved."""
    state = await state_of(result, agent, saved, **load)
    for item in state.get_interruptions():
        state.approve(item)
    return state


class World:
    """What really happened: tools write their effects here, and tests count them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tool(self, name: str, **options: Any) -> Any:
        """A tool of one number that says in the world that it ran."""

        async def act(context: ToolContext[Any], x: int = 0) -> str:
            self.done.append(f"{name}({x})")
            return f"{name}({x})"

        return function_tool(act, name_override=name, **options)

    def count(self, what: str) -> int:
        """How often that happened."""
        return self.done.count(what)


@pytest.fixture(name="world")
def a_world() -> World:
    """A world in which nothing has happened yet."""
    return World()


def call(name: str, label: str, **arguments: Any) -> Any:
    """A call of a tool."""
    return function_call(name, arguments, call_id=label)


def asked(agent: Agent[Any]) -> list[ModelRequest]:
    """Every request that an agent's scripted model got."""
    return cast("ScriptedModel", agent.model).calls


def model(*steps: Any, **options: Any) -> ScriptedModel:
    """A model that says these replies in turn."""
    return ScriptedModel(list(steps), **options)


def asking(world: World, *rounds: Any, **settings: Any) -> Agent[Any]:
    """An agent with one tool that asks and one that does not."""
    return asking_as(world, "a", *rounds, **settings)


def asking_as(world: World, name: str, *rounds: Any, **settings: Any) -> Agent[Any]:
    """The same under a name of its own, and with more tools."""
    tools = [world.tool("ask", needs_approval=True), world.tool("free"), *settings.pop("more", [])]
    return Agent(name, model=model(*rounds), tools=tools, **settings)


def outer(*calls: Any, tools: list[Any], then: Any = "done", **settings: Any) -> Agent[Any]:
    """An agent that makes these calls of its tools, which are other agents."""
    return Agent("outer", model=model(list(calls), then), tools=tools, **settings)


def counted(number: int) -> Usage:
    """A usage that can be told from others."""
    return Usage(requests=1, input_tokens=10 * number, output_tokens=number, total_tokens=11 * number)


def outputs(items: list[Any]) -> dict[str, Any]:
    """The results among input items, by call id."""
    return {item["call_id"]: item["output"] for item in items if str(item.get("type", "")).endswith("_output")}


def shape(items: list[Any]) -> list[str]:
    """Input items in short: what each is, and of which call."""
    return [_short(item) for item in items]


def _short(item: Any) -> str:
    kind = item.get("type", "message")
    if kind == "function_call":
        return f"call {item['call_id']}"
    if kind == "function_call_output":
        return f"output {item['call_id']}"
    return str(item.get("role", kind))
