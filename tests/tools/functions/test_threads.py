"""Tools that block keep nobody else from a thread, and end with their loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from keyturn import Agent, RunHooks, Runner, function_tool
from keyturn.core.events import CallStarted
from keyturn.support import threads
from keyturn.support.threads import in_thread
from keyturn.testing import ScriptedModel, function_call
from tests.playing import cut_off, events, play
from tests.waiting import turns_of_the_loop

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


@pytest.mark.usefixtures("garbage_of_its_own")
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


# ------------------------------------------------------------------------------------------ a call that waits for one


class Busy:
    """The only thread, at work until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.done: list[str] = []
        self.pay = function_tool(self._pay, name_override="pay", needs_approval=True)
        self.look = function_tool(self._pay, name_override="look")

    def _pay(self, to: str) -> str:
        self.done.append(to)
        assert self.free.wait(PATIENCE)
        return to

    def agent(self, tool: str, to: str) -> Agent[Any]:
        return Agent("a", model=ScriptedModel([[function_call(tool, {"to": to})], "ok"]), tools=[self.pay, self.look])


@pytest.fixture
async def busy(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Busy]:
    monkeypatch.setattr(threads, "MOST", 1)
    made = Busy()
    yield made
    made.free.set()


@pytest.mark.each
@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("tool", ["pay", "look"])
async def test_a_call_that_waits_for_a_thread_has_not_started(busy: Busy, tool: str, streamed: bool) -> None:
    """Cut off there it is not in doubt: it runs when the run goes on."""
    agent = busy.agent(tool, "ann")
    given: Any = "go"
    if tool == "pay":
        given = (await play(agent, "go", streamed)).to_state()
        given.approve(given.get_interruptions()[0])
    work = asyncio.ensure_future(in_thread(lambda: busy.free.wait(PATIENCE)))
    await turns_of_the_loop(200)
    state = (await cut_off(agent, given, partial(turns_of_the_loop, 200), streamed)).to_state()
    assert (events(state, CallStarted), state.get_interruptions(), busy.done) == ([], [], [])
    busy.free.set()
    await work
    result = await play(agent, state, streamed)
    assert (result.final_output, busy.done, len(events(result, CallStarted))) == ("ok", ["ann"], 1)
    assert not threads.all_busy()


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
async def test_of_two_approved_calls_one_starts_where_one_thread_is_free(busy: Busy, streamed: bool) -> None:
    """The start that is recorded with a decision has its thread from before the record."""
    runs: list[tuple[Agent[Any], Any]] = []
    for to in ("ann", "ben"):
        agent = busy.agent("pay", to)
        state = (await play(agent, "go")).to_state()
        state.approve(state.get_interruptions()[0])
        runs.append((agent, state))
    going = [asyncio.ensure_future(play(agent, state, streamed)) for agent, state in runs]
    await turns_of_the_loop(200)
    assert [len(events(state, CallStarted)) for _, state in runs] == [1, 0]
    busy.free.set()
    results = await asyncio.gather(*going)
    assert ([result.final_output for result in results], busy.done) == (["ok", "ok"], ["ann", "ben"])
    assert not threads.all_busy()


async def test_a_cancelled_wait_leaves_its_place_once_the_thread_is_done(busy: Busy) -> None:
    begun = asyncio.ensure_future(in_thread(lambda: busy.free.wait(PATIENCE)))
    await turns_of_the_loop(200)
    begun.cancel()
    with pytest.raises(asyncio.CancelledError):
        await begun
    next_one = asyncio.ensure_future(in_thread(lambda: "next"))
    await turns_of_the_loop(200)
    assert threads.all_busy()
    busy.free.set()
    assert await next_one == "next"
    assert not threads.all_busy()


async def test_a_block_without_work_leaves_its_place(busy: Busy) -> None:
    with await threads.place_of(True):
        assert threads.all_busy()
    assert not threads.all_busy()
    with (await threads.place_of(True)).given():
        assert threads.all_busy()
    assert not threads.all_busy()


class Inner(RunHooks[Any]):
    """Has an agent with a tool of its own look at each payment before it starts."""

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        look = function_tool(lambda: "looked", name_override="look")
        if tool.name == "pay":
            inner = Agent("b", model=ScriptedModel([[function_call("look", {})], "ok"]), tools=[look])
            await Runner.run(inner, "go", hooks=self)


async def test_what_is_asked_just_before_a_start_needs_no_thread_that_its_call_holds(busy: Busy) -> None:
    """Each of as many calls as there are threads held one, and waited for another: none of them ever ended."""
    busy.free.set()
    agent = busy.agent("pay", "ann")
    state = (await play(agent, "go")).to_state()
    state.approve(state.get_interruptions()[0])
    async with asyncio.timeout(PATIENCE):
        result = await Runner.run(agent, state, hooks=Inner())
    assert (result.final_output, busy.done) == ("ok", ["ann"])
    assert not threads.all_busy()
