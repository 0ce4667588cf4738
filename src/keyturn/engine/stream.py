"""Listen to a run while it goes on: in the process that moves it, or from its journal, whoever moves it.

Here its execution puts events in a queue; from a journal they are made of verified lines as they come.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, Literal, TypeVar

from ..agents.agent import Agent
from ..agents.context import RunContextWrapper
from ..agents.guardrail import InputGuardrailResult, OutputGuardrailResult
from ..agents.tool_guardrail import ToolInputGuardrailResult, ToolOutputGuardrailResult
from ..core import events as ev
from ..core.codec import Log
from ..core.items import Item
from ..journal.base import Journal
from ..journal.rows import ENDED
from ..models.base import ModelResponse, Usage
from .driving.stop import BY_CALLER
from .execution import Execution
from .result import AgentToolInvocation, RunResult
from .run.agents import AgentGraph
from .run.open_run import OpenRun, chain_of, wrapped
from .states.loading import waiting_tools
from .states.state import RunState
from .views.event_stream import AgentUpdatedStreamEvent, ApprovalRequestedStreamEvent, EventFeed, StreamEvent
from .views.items import RunItem, ToolApprovalItem
from .views.projection import approval_item
from .views.rows import opened_by

T = TypeVar("T")


class RunResultStreaming:
    """Holds what `Runner.run_streamed` returns at once: read `stream_events()` to its end, then the rest.

    >>> import asyncio
    >>> from keyturn import Agent, Runner
    >>> from keyturn.testing import ScriptedModel
    >>> async def main():
    ...     result = Runner.run_streamed(Agent(name="a", model=ScriptedModel(["hello"])), "hi")
    ...     return [event.type async for event in result.stream_events()][0], result.final_output
    >>> asyncio.run(main())
    ('agent_updated_stream_event', 'hello')
    """

    __slots__ = (
        "__weakref__",
        "_ended_at",
        "_play",
        "_queue",
        "_reader",
        "_result",
        "_waits",
        "_wake",
        "run_loop_task",
    )

    def __init__(self, play: Execution) -> None:
        self._play = play
        self._queue: deque[StreamEvent] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._result: RunResult | None = None
        # The task that read last, and whether it waits for an event or deals with one.
        self._reader: asyncio.Task[Any] | None = None
        self._waits = False
        self._ended_at: int | None = None
        play.listen(self._put, self._unread)
        play.live.hand_over = self._hand_over
        self.run_loop_task: asyncio.Task[RunResult] = asyncio.ensure_future(play.finish())
        self.run_loop_task.add_done_callback(lambda _task: self._end())

    def _put(self, event: StreamEvent) -> None:
        if "cancelled" in self._play.drive.stops:  # its reader wants no more of it
            return
        self._queue.append(event)
        self._signal()

    def _end(self) -> None:
        self._ended_at = len(self._play.live.log)
        self._signal()

    def _signal(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield the run's events as they happen; end when it is finished, paused or stopped.

        A reader that is cancelled, or closes this, stops the run as `cancel()` does. After a `break` the run goes on:
        read on with another `stream_events()`, or `cancel()`.
        """
        queue, task = self._queue, self.run_loop_task
        try:
            while queue or not task.done():
                self._reader = asyncio.current_task()
                if queue:
                    yield queue.popleft()
                else:
                    await self._next()
        except asyncio.CancelledError:
            await self._left()
            raise
        except GeneratorExit:
            if asyncio.current_task() is self._reader or self._lost:
                await self._left()
            raise
        if task.cancelled():
            if not self._play.drive.stops & BY_CALLER:
                raise asyncio.CancelledError
            return
        error = task.exception()
        if error is not None:
            raise error

    async def _next(self) -> None:
        """Wait until there is another event, or none will come."""
        self._wake = asyncio.get_running_loop().create_future()
        self._waits = True
        try:
            await self._wake
        finally:
            self._waits = False

    def _unread(self) -> int:
        """Count the events that nobody has dealt with, the one that a reader has in hand included."""
        in_hand = not self._waits and self._reader is not None and not self._reader.done()
        return len(self._queue) + in_hand

    @property
    def _lost(self) -> bool:
        """Return whether the reader was cancelled, so that nobody reads on."""
        reader = self._reader
        return reader is not None and (reader.cancelled() or reader.cancelling() > 0)

    async def _left(self) -> None:
        """Stop the run of a reader that has gone, and wait until it has stopped."""
        if not self.run_loop_task.done():
            self.cancel()
            await asyncio.wait({self.run_loop_task})

    async def _hand_over(self) -> int | None:
        """Wait for the end of a run that was told to stop at once, or whose reader is lost: it is about to be resumed.

        How far it came then is where its resume goes on; None where it goes on by itself, or had ended before.
        """
        task = self.run_loop_task
        stopping = self._lost or "cancelled" in self._play.drive.stops
        if task.done() or not stopping or task.get_loop() is not asyncio.get_running_loop():
            return None
        if self._lost:
            await self._left()
        await asyncio.wait({task})
        return self._ended_at

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop: at once, when what was in flight is in doubt, or before the next model call.

        A run that is stopped at once has no more events: those that were not read yet are dropped, its result has all.
        """
        if mode == "after_turn":
            self._play.drive.stops.add("after_turn")
        else:
            self._play.drive.stops.add("cancelled")
            self._queue.clear()
            self.run_loop_task.cancel()

    @property
    def is_complete(self) -> bool:
        """Return whether the run stopped moving and all events were read."""
        return self.run_loop_task.done() and not self._queue

    @property
    def run_loop_exception(self) -> BaseException | None:
        """Return the error that stopped the run, if one did."""
        task = self.run_loop_task
        return task.exception() if task.done() and not task.cancelled() else None

    @property
    def current_agent(self) -> Agent[Any]:
        """Return the agent at work."""
        run = self._play.run
        frame = run.frames.get(ev.ROOT)
        return self._play.live.graph.agent(frame.agent) if frame else self._play.live.graph.root

    @property
    def current_turn(self) -> int:
        """Return how many replies the model has given."""
        return self._play.run.turns

    def _now(self) -> RunResult:
        task = self.run_loop_task
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        if not task.done():
            return self._play.result()
        self._result = self._result or self._play.result()
        return self._result

    def to_state(self) -> RunState[Any]:
        """Return a state of the run as far as it came."""
        return self._now().to_state()

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._now().run_id

    @property
    def input(self) -> str | list[Any]:
        """Return the input of the run."""
        return self._now().input

    @property
    def usage(self) -> Usage:
        """Return what the run has used so far."""
        return self._now().usage

    @property
    def context_wrapper(self) -> RunContextWrapper[Any]:
        """Return the context with which the run is driven."""
        return self._now().context_wrapper

    @property
    def last_agent(self) -> Agent[Any]:
        """Return the agent that was at work last."""
        return self._now().last_agent

    @property
    def agent_tool_invocation(self) -> AgentToolInvocation | None:
        """Return the call that this answers, where it is of a nested agent."""
        return self._now().agent_tool_invocation

    @property
    def max_turns(self) -> int | None:
        """Return the turn limit."""
        return self._now().max_turns

    @property
    def new_items(self) -> list[RunItem]:
        """Return everything the run has produced so far, the waiting calls last."""
        return self._now().new_items

    @property
    def interruptions(self) -> list[ToolApprovalItem]:
        """Return the calls that wait for people."""
        return self._now().interruptions

    @property
    def queued(self) -> bool:
        """Return whether the run waits for its turn on its session and has not begun."""
        return self._now().queued

    @property
    def queued_behind(self) -> tuple[str, ...]:
        """Return the ids of the runs that come before it on its session, the first first."""
        return self._now().queued_behind

    @property
    def final_output(self) -> Any:
        """Return the final output, None while there is none."""
        return self._now().final_output

    @property
    def raw_responses(self) -> list[ModelResponse]:
        """Return the model's replies so far."""
        return self._now().raw_responses

    @property
    def last_response_id(self) -> str | None:
        """Return the provider's id of the last reply."""
        return self._now().last_response_id

    @property
    def input_guardrail_results(self) -> list[InputGuardrailResult]:
        """Return what the guardrails on the input said."""
        return self._now().input_guardrail_results

    @property
    def output_guardrail_results(self) -> list[OutputGuardrailResult]:
        """Return what the guardrails on the output said."""
        return self._now().output_guardrail_results

    @property
    def tool_input_guardrail_results(self) -> list[ToolInputGuardrailResult]:
        """Return what the guardrails on tools' arguments said."""
        return self._now().tool_input_guardrail_results

    @property
    def tool_output_guardrail_results(self) -> list[ToolOutputGuardrailResult]:
        """Return what the guardrails on tools' results said."""
        return self._now().tool_output_guardrail_results

    @property
    def state(self) -> RunState[Any]:
        """Return the same as `to_state()`."""
        return self._now().state

    def to_input_list(self, *, mode: Literal["preserve_all", "normalized"] = "preserve_all") -> list[Item]:
        """Return the conversation as far as it came, as input for another run."""
        return self._now().to_input_list(mode=mode)

    def final_output_as(self, cls: type[T], raise_if_incorrect_type: bool = False) -> T:
        """Return the final output, for a type checker, and checked if asked."""
        return self._now().final_output_as(cls, raise_if_incorrect_type)

    def release_agents(self, *, release_new_items: bool = True) -> None:
        """Do nothing: a result holds its log, and agents are looked up."""


class Follower:
    """Fold a run line by line and return what there is to tell; the log of `live` has a chain."""

    def __init__(self, live: OpenRun) -> None:
        self._live = live
        self._told: list[StreamEvent] = []
        self._feed = EventFeed(live, ev.ROOT, self._told.append)
        self._agent = ""

    async def told_by(self, line: bytes) -> list[StreamEvent]:
        """The events of one line, or `LogDamaged`."""
        self._told.clear()
        [made] = self._live.log.extend([line])
        run = self._live.run
        root = run.frames.get(ev.ROOT)
        if root is not None and root.agent != self._agent:
            self._agent = root.agent
            self._told.append(AgentUpdatedStreamEvent(self._live.graph.agent(root.agent)))
        self._feed.step(made)
        if opened_by(run, made.events):
            tools = await waiting_tools(self._live)
            self._told.extend(self._asked(made, tools))
        return self._told.copy()

    def _asked(self, made: ev.Step, tools: dict[str, Any]) -> Iterator[StreamEvent]:
        for call in opened_by(self._live.run, made.events):
            agent = self._live.graph.agent(call.agent)
            yield ApprovalRequestedStreamEvent(approval_item(self._live.run, call, agent, tools.get(call.id)))


async def followed(journal: Journal, run_id: str, root: Agent[Any]) -> AsyncGenerator[StreamEvent]:
    """Yield what happens in a run that a journal keeps, whoever moves it, from its beginning to its end."""
    live = OpenRun(Log(chain=chain_of(journal, run_id)), AgentGraph(root), wrapped(None))
    follower = Follower(live)
    async with contextlib.aclosing(journal.watch(run_id)) as lines:
        async for line in lines:
            for event in await follower.told_by(line):
                yield event
            over = live.run.status in ENDED
            if over and await journal.head(run_id) == len(live.log):  # what failed and was resumed has more lines
                return
