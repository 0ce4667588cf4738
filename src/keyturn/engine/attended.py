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
from ..core.effects import pending, wakes_at
from ..core.errors import Conflict, StorageError
from ..core.gate import open_run
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


class Hosting(NamedTuple):
    """Holds what an app gives to an execution that it does not make itself: its settings, contexts and people."""

    config: RunConfig
    makes: ContextOptions | None = None
    attach: Callable[[Execution], Awaitable[None]] | None = None
    policy_of: Callable[[], Any] | None = None


class Attendant(NamedTuple):
    """Attends a run: called once the run is recorded and before it moves, and with each step from then on."""

    ready: Callable[[], Awaitable[None]]
    stepped: Callable[[ev.Step], None]


class LogFeed(Feed):
    """Tells of every step of a run, just after it is recorded."""

    def __init__(self, told: Callable[[ev.Step], None]) -> None:
        self._told = told

    def step(self, step: ev.Step) -> None:
        self._told(step)


class AttendedExecution(Execution):
    """Executes one run while a session attends it."""

    # A process that died holds the run so long, and whoever was cut off wants to go on soon.
    lease_ms = 15_000

    #: Who attends the run; a run that moves has one.
    attendant: Attendant
    #: The name under which replies of the model are counted.
    model = ""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.drive.attended = True
        self._moved_on = asyncio.Event()

    def leave(self) -> None:
        """Begin nothing more, and end once what was begun is recorded."""
        self.drive.leave()
        self._moved_on.set()

    def may_talk(self) -> bool:
        """Return whether the model may go on talking: nothing that the run has used is over its limits."""
        return self.drive.meter.lets(self)

    def _check_limits_of_talking(self) -> None:
        if not self.may_talk() and self.drive.meter.reached is not None:
            raise self.drive.meter.reached

    def _stepped(self, step: ev.Step) -> None:
        self._moved_on.set()
        self.attendant.stepped(step)

    async def _until_idle(self) -> None:
        drive = self.drive
        self._check_limits_of_talking()
        await self.attendant.ready()
        drive.feeds[ev.ROOT] = LogFeed(self._stepped)
        timer = asyncio.ensure_future(self._watch_the_clock())
        try:
            while True:
                await Loop(drive).advance()
                await keep_context(drive)
                if self.run.status == "cancelled":
                    open_run(self.run)
                if self.run.status == "finished" or drive.stops & NO_MORE_ROUNDS:
                    return
                self._check_limits_of_talking()
                if not pending(self.run) and not drive.begun:
                    await drive.sleep()
        finally:
            timer.cancel()
            del drive.feeds[ev.ROOT]

    async def _watch_the_clock(self) -> None:
        """Record what runs out while people are waited for, at its time, whatever else is at work."""
        while True:
            self._moved_on.clear()
            due = wakes_at(self.run)
            left = None if due is None else min(max((due - self.drive.clock()) / 1_000, 0.0), _AT_MOST)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._moved_on.wait()
                    continue
            try:
                await self.drive.commit(cm.Tick())
            except Conflict as error:  # somebody else holds the run: whoever acts next finds it out, too
                logger.info("time passed for run %s and is not recorded: %s", self.run.id, error_words(error))
                return
            except StorageError as error:
                logger.warning(
                    "time passed for run %s and is not recorded, trying again: %s", self.run.id, error_words(error)
                )
                await asyncio.sleep(_TRY_AGAIN)
                continue
            self.drive.rouse()
            await asyncio.sleep(0.01 if left == 0 else 0)  # a clock that stands still makes no busy loop
