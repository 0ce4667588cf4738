"""Listen to a run while it goes on: in the process that moves it, or from its journal, whoever moves it.

Here its execution puts events in a queue; from a journal they are made of verified lines as they come.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from ..agents.agent import Agent
from ..core import events as ev
from .driving.stop import BY_CALLER
from .execution import Execution
from .result import RunResult
from .run.open_run import OpenRun
from .states.loading import waiting_tools
from .states.state import RunState
from .views.event_stream import AgentUpdatedStreamEvent, ApprovalRequestedStreamEvent, EventFeed, StreamEvent
from .views.projection import approval_item
from .views.rows import opened_by


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
        """Stop: at once, when what was in flight is in doubt, or before the next model call."""
        if mode == "after_turn":
            self._play.drive.stops.add("after_turn")
        else:
            self._play.drive.stops.add("cancelled")
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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._now(), name)


class Follower:
    """Fold a run line by line and return what there is to tell; the log of `live` has a chain."""

    def __init__(self, live: OpenRun) -> None:
        self._live = live
        self._told: list[StreamEvent] = []
        self._feed = EventFeed(live.graph, ev.ROOT, self._told.append)
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
