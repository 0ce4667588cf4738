"""Stream a run while it goes on: the same execution, its events in a queue."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Literal

from ..agents.agent import Agent
from ..core import events as ev
from .execution import Execution
from .result import RunResult
from .states.state import RunState
from .views.event_stream import StreamEvent


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
        self._cancelled = False
        self._result: RunResult | None = None
        play.listen(self._put)
        self.run_loop_task: asyncio.Task[RunResult] = asyncio.ensure_future(play.finish())
        self.run_loop_task.add_done_callback(lambda _task: self._signal())

    def _put(self, event: StreamEvent) -> None:
        self._queue.append(event)
        self._signal()

    def _signal(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def stream_events(self) -> AsyncIterator[StreamEvent]:
        """Yield the run's events as they happen; end when it is finished, paused or stopped."""
        queue, task = self._queue, self.run_loop_task
        while True:
            while queue:
                yield queue.popleft()
            if task.done():
                break
            self._wake = asyncio.get_running_loop().create_future()
            if queue:
                continue
            await self._wake
        if task.cancelled():
            if not self._cancelled:
                raise asyncio.CancelledError
            return
        error = task.exception()
        if error is not None:
            raise error

    def cancel(self, mode: Literal["immediate", "after_turn"] = "immediate") -> None:
        """Stop at once, which leaves what is in flight in doubt, or before the next model call."""
        self._cancelled = True
        if mode == "after_turn":
            self._play.drive.stopping = True
        else:
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
