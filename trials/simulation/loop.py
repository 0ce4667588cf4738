"""An event loop without a clock of its own, and processes in it that can stand still or die at any await.

Time goes on when nobody has anything to do. Within a process callbacks run in the order in which they were scheduled,
as asyncio promises; which process goes next is the seed's affair. A process that died never runs again: no `finally`,
no callback, no timer. Nothing here knows what the processes do.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any

PROCESS: ContextVar[Process] = ContextVar("process")


class Process:
    """What runs together and dies together. `left` is how many callbacks it lives for, None for all."""

    def __init__(self, name: str, left: int | None = None, skew: int = 0) -> None:
        self.name, self.left, self.skew = name, left, skew
        self.alive, self.frozen = True, False
        self.ready: deque[asyncio.Handle] = deque()
        self.tasks: list[asyncio.Task[Any]] = []
        self.ended: Callable[[], None] = _nothing
        self.here: dict[str, Any] = {}


def _let_go(_generator: object) -> None:
    """A generator that nobody holds any more has no last words either."""


def _nothing() -> None:
    return None


class Interrupt(KeyboardInterrupt):
    """What code raises that pretends to be Ctrl-C."""


class Stuck(Exception):
    """Nobody has anything to do, or it goes on for ever."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """One loop for one seed. `steps` counts callbacks, `now` is in seconds."""

    def __init__(self, dice: Random) -> None:
        self.now, self.steps = 0.0, 0
        self._dice = dice
        self._timers: list[tuple[float, int, Process, asyncio.TimerHandle | None]] = []
        self._count = 0
        self._busy: list[Process] = []
        self._processes: list[Process] = []
        self.lost: list[str] = []
        self.ended: list[str] = []
        self._wire = copy_context()
        self._wire.run(PROCESS.set, Process("wire"))

    # What asyncio asks of a loop ---------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        (context or copy_context())[PROCESS].tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._put(context[PROCESS], handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        """From one process to another, as a database rings: who has died meanwhile has rung all the same."""
        return self.call_soon(callback, *args, context=self._wire)

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._at(when, context[PROCESS], handle)
        return handle

    def run_in_executor(self, _executor: Any, work: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Do a thread's work here and now: there are no threads."""
        done = self.create_future()
        try:
            done.set_result(work(*args))
        except BaseException as error:
            done.set_exception(error)
        return done

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is dropped when it comes up, and no time passes for it."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.lost.append(str(context.get("message")))

    async def shutdown_asyncgens(self) -> None:
        """None is kept."""

    # Processes ---------------------------------------------------------------------------------------------------

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Let a process do this, beside whatever else it does."""
        context = copy_context()
        context.run(PROCESS.set, process)
        if process not in self._processes:
            self._processes.append(process)
        return context.run(self.create_task, work, context=context)

    def kill(self, process: Process) -> None:
        """End a process here and now."""
        if process.alive:
            process.alive = False
            process.ready.clear()
            if process in self._busy:
                self._busy.remove(process)
            process.ended()

    def freeze(self, process: Process, seconds: float) -> None:
        """Let a process stand still for a while, as one that is paged out or stopped does."""
        process.frozen = True
        if process in self._busy:
            self._busy.remove(process)
        self._at(self.now + seconds, process, None)

    def _thaw(self, process: Process) -> None:
        process.frozen = False
        if process.ready and process.alive and process not in self._busy:
            self._busy.append(process)

    def _put(self, process: Process, handle: asyncio.Handle) -> None:
        if not process.alive or handle._cancelled:
            return
        if not process.ready and not process.frozen:
            self._busy.append(process)
        process.ready.append(handle)

    def _at(self, when: float, process: Process, handle: asyncio.TimerHandle | None) -> None:
        self._count += 1
        heappush(self._timers, (when, self._count, process, handle))

    def run(self, main: asyncio.Task[Any], most_steps: int, most_seconds: float) -> Any:
        """Run until the main task is done; `Stuck` if it never will be."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=_let_go)
        events._set_running_loop(self)
        try:
            while not main.done():
                if not self._busy:
                    self._pass_time(most_seconds)
                    continue
                self.steps += 1
                if self.steps > most_steps:
                    raise Stuck(f"no end after {most_steps} callbacks")
                self._once()
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
        return main.result()

    def _pass_time(self, most_seconds: float) -> None:
        if not self._timers:
            raise Stuck("nobody has anything to do and nobody waits for a time")
        when, _, process, handle = heappop(self._timers)
        if not process.alive or (handle is not None and handle._cancelled):
            return
        if when > most_seconds:
            raise Stuck(f"no end after {most_seconds:g} seconds")
        self.now = max(self.now, when)
        if handle is None:
            self._thaw(process)
        else:
            self._put(process, handle)

    def _once(self) -> None:
        busy = self._busy
        index = 0 if len(busy) == 1 else self._dice.randrange(len(busy))
        process = busy[index]
        handle = process.ready.popleft()
        if not process.ready:
            busy.pop(index)
        if process.left is not None:
            process.left -= 1
            if process.left < 0:
                self.kill(process)
                return
        if handle._cancelled:
            return
        try:
            handle._run()
        except (SystemExit, Interrupt) as error:  # asyncio lets these end the loop, and with it the process
            self.ended.append(f"{process.name} was ended by {error!r}")
            self.kill(process)

    def bury(self) -> None:
        """Take apart what was still in flight, where nothing it does can reach anybody."""
        grave = _Grave(Random(0))
        for process in self._processes:
            self.kill(process)
        events._set_running_loop(grave)
        try:
            for task in [task for process in self._processes for task in process.tasks if not task.done()]:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
        finally:
            events._set_running_loop(None)


class _Grave(VirtualLoop):
    """Where the last words of the dead go."""

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        coro.close()
        return self.create_future()

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return asyncio.Handle(callback, args, self, context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Context | None = None) -> asyncio.TimerHandle:
        return asyncio.TimerHandle(when, callback, args, self, context)


def _close(coro: Any) -> None:
    for _ in range(50):
        with contextlib.suppress(BaseException):
            coro.close()
            return
