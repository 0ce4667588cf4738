"""Executors of one's own: what they are given, what becomes of what they raise, and what a cancelled run leaves."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from keyturn import Agent, Runner, ShellCommandRequest, ShellTool
from keyturn.testing import ScriptedModel
from tests.playing import cut_off
from tests.table import each

CALL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["make"], "timeout_ms": 10}}


def agent(executor: Any, **options: Any) -> Agent[Any]:
    return Agent("desk", model=ScriptedModel([[CALL], "Done."]), tools=[ShellTool(executor, **options)])


def told(result: Any) -> Any:
    [item] = [item.raw_item for item in result.new_items if item.type == "tool_call_output_item"]
    return item["output"][0]


class Held:
    """A function that is in the middle of its work until it is let go."""

    def __init__(self) -> None:
        self.began, self.goes_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.times = 0

    def __call__(self, request: ShellCommandRequest) -> str:
        self.times += 1
        self.began.set()
        self.goes_on.wait(30)
        self.ended.set()
        return "made"

    async def has_begun(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 30)


async def test_a_cancelled_run_does_not_wait_for_a_function_and_its_call_is_in_doubt(streamed: bool) -> None:
    held = Held()
    desk = agent(held)
    state = (await Runner.run(desk, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    await cut_off(desk, state, held.has_begun, streamed)
    assert not held.ended.is_set(), "a thread cannot be stopped, and nobody waited for it"
    held.goes_on.set()
    assert await asyncio.to_thread(held.ended.wait, 30)
    [item] = (await Runner.run(desk, state)).interruptions
    assert (item.kind, held.times) == ("in_doubt", 1), (
        "what it says too late is heard by nobody, and it is not repeated"
    )


async def test_a_function_keeps_the_time_itself() -> None:
    held, limits = Held(), list[Any]()

    def executor(request: ShellCommandRequest) -> str:
        limits.append(request.data.action.timeout_ms)
        return held(request)

    running = asyncio.create_task(Runner.run(agent(executor, needs_approval=False), "go"))
    await held.has_begun()
    held.goes_on.set()
    assert told(await running)["stdout"] == "made"
    assert limits == [10]


async def test_a_function_may_give_back_what_is_to_be_awaited() -> None:
    async def later(request: ShellCommandRequest) -> str:
        return f"later: {request.data.action.commands}"

    done = await Runner.run(agent(lambda request: later(request), needs_approval=False), "go")
    assert told(done)["stdout"] == "later: ['make']"


@each("asynchronous", [False, True], ids=["function", "coroutine"])
@each("error", [StopIteration("x"), GeneratorExit(), SystemExit(3), TimeoutError("hunter2")], ids=repr)
async def test_whatever_an_executor_raises_is_a_failed_result(error: BaseException, asynchronous: bool) -> None:
    def function(_request: Any) -> str:
        raise error

    async def coroutine(_request: Any) -> str:
        raise error

    executor = coroutine if asynchronous else function
    done = await asyncio.wait_for(Runner.run(agent(executor, needs_approval=False), "go"), 30)
    assert "error occurred" in told(done)["stderr"]
    assert "hunter2" not in str(told(done))


async def test_what_somebody_does_to_the_action_that_was_shown_is_not_what_runs() -> None:
    ran: list[list[str]] = []

    def executor(request: ShellCommandRequest) -> str:
        ran.append(list(request.data.action.commands))
        return "ran"

    def needs(_context: Any, action: Any, _call_id: str) -> bool:
        action.commands.append("rm x")
        return True

    def approves(_context: Any, item: Any) -> dict[str, bool]:
        item.params["commands"].append("rm y")
        return {"approve": True}

    desk = agent(executor, needs_approval=needs)
    state = (await Runner.run(desk, "go")).to_state()
    [item] = state.get_interruptions()
    item.params["commands"].append("rm z")
    state.approve(item)
    await Runner.run(desk, state)
    await Runner.run(agent(executor, on_approval=approves), "go")
    assert ran == [["make"], ["make"]]
