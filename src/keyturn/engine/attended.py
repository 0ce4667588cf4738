"""Execute a run whose model is talked to: it is moved whenever there is something to do, until its session leaves.

The model talks by itself, so that nothing is asked of it here. What it calls goes through the same loop, gate and
journal as any call. While the session lasts the run is held, and what others decide is heard at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ..agents.settings import RunConfig
from ..core import commands as cm
from ..core import events as ev
from ..core.codec import Log
from ..core.effects import pending, wakes_at
from ..core.errors import Conflict
from ..core.gate.opening import open_run
from .driving.lease import still_held
from .driving.stop import NO_MORE_ROUNDS
from .execution import Execution
from .logger import error_words, logger
from .loop import Loop
from .states.context_data import keep_context
from .states.loading import ContextOptions
from .views.event_stream import Feed

# The longest time to sleep at once: clocks of journals are read again then.
_AT_MOST = 3_600.0
# How long a store that did not answer is left alone.
_TRY_AGAIN = 1.0
# Under this name, which no frame has, the clock of a run hears of its steps.
_CLOCK = "clock"


class Hosting(NamedTuple):
    """Holds what an app gives to an execution that it does not make itself: its settings, contexts and people."""

    config: RunConfig
    makes: ContextOptions | None = None
    # Gives the execution what the app owns, which is kept open until it is let go of, once.
    attach: Callable[[Execution], Awaitable[None]] | None = None
    let_go: Callable[[], Awaitable[None]] | None = None
    policy_of: Callable[[], Any] | None = None
    hooks: Any = None
    # Refuses an agent, or a context that is given, with which the app could not move the run.
    check: Callable[..., None] | None = None


#: Called once the run is recorded and before it moves; returns the feed of its steps from then on.
Attend = Callable[[], Awaitable[Feed]]


class Alarm(Feed):
    """Wakes who waits for the time at which a run next changes by itself, once a step changes that time."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._changed = asyncio.Event()
        self._at: int | None = None

    def step(self, step: ev.Step) -> None:
        if wakes_at(self._log.run) != self._at:
            self._changed.set()

    def at(self) -> int | None:
        """Return that time."""
        self._changed.clear()
        self._at = wakes_at(self._log.run)
        return self._at

    async def changed(self) -> None:
        """Wait until it has changed since it was last asked for."""
        await self._changed.wait()


class AttendedExecution(Execution):
    """Executes one run while a session attends it."""

    # A process that died holds the run so long, and whoever was cut off wants to go on soon.
    lease_ms = 15_000

    #: Attends the run; a run that moves has one.
    attend: Attend
    #: The name under which replies of the model are counted.
    model = ""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.drive.attended = True

    def leave(self) -> None:
        """Begin nothing more, and end once what was begun is recorded."""
        self.drive.leave()

    def left_to_another(self) -> Conflict | None:
        """Return the error for a run that was left to the process in which an answered call stands open."""
        if "elsewhere" not in self.drive.stops:
            return None
        return Conflict(
            f"an answered call of run {self.run.id!r} stands open in another process, which goes on with it: resume "
            "the run once it has"
        )

    def may_talk(self) -> bool:
        """Return whether the model may go on talking: nothing that the run has used is over its limits."""
        return self.drive.meter.lets(self)

    async def held(self) -> bool:
        """Return whether this process holds the run, having asked the store where its lease may have expired."""
        while True:
            try:
                await still_held(self.drive)
            except Conflict as error:
                logger.info("run %s was taken over: %s", self.run.id, error_words(error))
                self.drive.stops.add("taken_over")
                self.drive.rouse()
                return False
            except Exception as error:  # the store does not answer
                logger.warning("the lease of run %s is not renewed, trying again: %s", self.run.id, error_words(error))
                await asyncio.sleep(_TRY_AGAIN)
            else:
                return True

    def _check_limits_of_talking(self) -> None:
        if not self.may_talk() and self.drive.meter.reached is not None:
            raise self.drive.meter.reached

    async def _until_idle(self) -> None:
        drive = self.drive
        self._check_limits_of_talking()
        alarm = Alarm(drive.log)
        drive.feeds |= {ev.ROOT: await self.attend(), _CLOCK: alarm}
        timer = asyncio.ensure_future(self._watch_the_clock(alarm))
        try:
            while True:
                await Loop(drive).advance()
                if "taken_over" in drive.stops:
                    raise Conflict(f"run {self.run.id!r} was taken over by another process, which continues it")
                await keep_context(drive)
                if self.run.status == "cancelled":
                    open_run(self.run)
                if self.run.status == "finished" or drive.stops & NO_MORE_ROUNDS:
                    return
                self._check_limits_of_talking()
                if not pending(self.run, first=True) and not drive.begun:
                    await drive.sleep()
        finally:
            timer.cancel()
            del drive.feeds[ev.ROOT], drive.feeds[_CLOCK]

    async def _watch_the_clock(self, alarm: Alarm) -> None:
        """Record what runs out while people are waited for, at its time, whatever else is at work."""
        while True:
            due = alarm.at()
            left = None if due is None else min(max((due - self.drive.clock()) / 1_000, 0.0), _AT_MOST)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await alarm.changed()
                    continue
            try:
                await self.drive.commit(cm.Tick())
            except Conflict as error:  # somebody else holds the run: whoever acts next finds it out, too
                logger.info("time passed for run %s and is not recorded: %s", self.run.id, error_words(error))
                return
            except Exception as error:  # the store's, or that of a key which cannot be read for a moment
                logger.warning(
                    "time passed for run %s and is not recorded, trying again: %s", self.run.id, error_words(error)
                )
                await asyncio.sleep(_TRY_AGAIN)
                continue
            self.drive.rouse()
            await asyncio.sleep(0.01 if left == 0 else 0)  # a clock that stands still makes no busy loop
