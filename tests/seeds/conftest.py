"""A theatre's box office: the agents' world in which the tests of this folder do what the documents show."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from keyturn import Agent, FunctionTool, Runner, RunResult, function_tool
from keyturn.testing import ScriptedModel, function_call, tool_outputs

Run = Callable[..., Awaitable[RunResult]]


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYTURN_SECRET", "the-secret-of-the-seeds")


@pytest.fixture(params=["plain", "streamed"])
def run(request: pytest.FixtureRequest) -> Run:
    """The two ways to run or resume an agent."""

    async def plain(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
        return await Runner.run(agent, given, **options)

    async def streamed(agent: Agent[Any], given: Any, **options: Any) -> RunResult:
        result = Runner.run_streamed(agent, given, **options)
        async for _ in result.stream_events():
            pass
        return await result.run_loop_task

    return plain if request.param == "plain" else streamed


@pytest.fixture
def sold() -> list[str]:
    """What the tools did."""
    return []


@pytest.fixture
def sell(sold: list[str]) -> FunctionTool:
    """A tool that always asks."""

    @function_tool(needs_approval=True)
    async def sell_seat(seat: str) -> str:
        """Sell a seat."""
        sold.append(seat)
        return f"{seat} is sold"

    return sell_seat


def sale(seat: str, label: str | None = None) -> Any:
    return function_call("sell_seat", {"seat": seat}, call_id=label or seat)


def outputs(model: ScriptedModel) -> dict[str, Any]:
    """What the model read at last, by call."""
    return tool_outputs(model.calls[-1])
