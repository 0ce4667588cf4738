"""Tools that block keep nobody else from a thread, and end with their loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextvars import ContextVar

import pytest

from keyturn import Agent, Runner, function_tool
from keyturn.testing import ScriptedModel, function_call
from keyturn.tools.functions.threads import in_thread

PATIENCE = 20


async def test_blocked_tools_leave_the_loops_own_threads_alone() -> None:
    """All of them block until a name was looked up, for which the loop needs a thread of its own pool."""
    looked_up, here = threading.Event(), threading.Semaphore(0)

    @function_tool
    def wait(n: int) -> str:
        here.release()
        assert looked_up.wait(PATIENCE)
        return f"{n}"

    calls = [function_call("wait", {"n": n}, call_id=f"c{n}") for n in range(40)]
    agent = Agent(name="a", model=ScriptedModel([calls, "done"]), tools=[wait])
    running = asyncio.ensure_future(Runner.run(agent, "go"))
    assert await asyncio.to_thread(lambda: all(here.acquire(timeout=PATIENCE) for _ in calls))
    await asyncio.wait_for(asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80), PATIENCE)
    looked_up.set()
    result = await running
    assert [item.output for item in result.new_items if item.type == "tool_call_output_item"] == [
        str(n) for n in range(40)
    ]


def test_a_loop_that_ends_waits_for_what_it_began() -> None:
    begun, go_on, done = threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        begun.set()
        assert go_on.wait(PATIENCE)
        done.append("done")

    async def main() -> None:
        job = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(begun.wait, PATIENCE)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        threading.Timer(0.05, go_on.set).start()  # most likely after the end of `main`, and right at any time

    asyncio.run(main())
    assert done == ["done"]


def test_each_loop_has_threads_of_its_own_and_leaves_none() -> None:
    made: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> str:
        made.append(weakref.ref(asyncio.get_running_loop()))
        return await in_thread(lambda: threading.current_thread().name)

    names = {asyncio.run(main()) for _ in range(3)}
    assert all(name.startswith("keyturn-tool") for name in names)
    gc.collect()
    assert [ref() for ref in made] == [None] * 3, "what is kept for a loop does not keep the loop"


async def test_work_sees_the_context_of_its_caller_and_keeps_its_own_to_itself() -> None:
    seen: ContextVar[str] = ContextVar("seen")
    seen.set("outside")

    def work() -> str:
        before = seen.get()
        seen.set("inside")
        return before

    assert await in_thread(work) == "outside"
    assert seen.get() == "outside"


async def test_what_work_raises_is_raised() -> None:
    def work() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        await in_thread(work)
