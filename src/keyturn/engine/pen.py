"""The hand that writes: decide commands, append what was decided as one step, publish it.

Every change of a run that is driven goes through `commit`, and is durable when that returns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from ..core import commands as cm
from ..core import events as ev
from ..core.decide import step
from ..core.errors import Conflict
from ..core.run import Call, Run
from ..journal.base import Claim, LostRace
from ..journal.rows import Changes
from ..tools.base import Tool
from .feed import Feed
from .live import Live
from .recent import caught_up
from .rows import changes, known_open, opened_by
from .traces import Traces


class Pen:
    """One hand on one run's log."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.claim: Claim | None = None
        self.refused: Conflict | None = None
        self.feeds: dict[str, Feed] = {}
        self.traces: Traces | None = None
        # Whether somebody stopped waiting for an append, which may be kept nevertheless.
        self.cut_short = False
        # Whether what the journal has of the run is not what was written there.
        self.damaged = False
        self.roused: Callable[[], None] = _nobody
        self._appending: asyncio.Lock | None = asyncio.Lock() if live.journal is not None else None

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self.live.log.run

    async def find_tool(self, call: Call) -> Tool | None:
        """The tool that a call means, if its agent still has it."""
        raise LookupError(call.id)

    async def commit(self, *commands: cm.Command) -> None:
        """Decide commands and append their events as one step; the events are durable when this returns."""
        if self._appending is None:
            self._append_here(commands)
            return
        async with self._appending:
            await self._append_there(commands)

    async def kept(self) -> None:
        """Wait until nothing that was decided is still on its way to the journal: what is not kept starts nothing."""
        if self._appending is not None and self._appending.locked():
            async with self._appending:
                return

    async def catch_up(self) -> None:
        """Fold what others appended since the run was read."""
        assert self._appending is not None
        async with self._appending:
            await self._catch_up()

    async def heard(self, place: int) -> None:
        """The journal has that many lines of the run: fold those that somebody else wrote, and tell the loop."""
        assert self._appending is not None
        async with self._appending:
            if len(self.live.log) >= place:
                return
            await self._catch_up()
        self.roused()

    def _append_here(self, commands: tuple[cm.Command, ...]) -> None:
        now = self.live.clock()
        events = self._decide(commands, now)
        if events:
            self._appended(self._made(now, events))

    async def _append_there(self, commands: tuple[cm.Command, ...]) -> None:
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        while True:
            now = self.live.clock()
            events = self._decide(commands, now)
            if not events:
                return
            made = self._made(now, events)
            try:
                line = self.live.sealed(made)
                rows = await self._rows(events, log.steps[0].at if log.steps else now)
                await journal.append(log.run.id, len(log), [line], self.claim, rows)
            except LostRace:
                log.refold()
                await self._catch_up()
                continue
            except BaseException as error:
                self.cut_short = isinstance(error, asyncio.CancelledError)
                log.refold()
                self.live.open = known_open(log.run)
                raise
            self._appended(made, line)
            return

    async def _catch_up(self) -> None:
        """Somebody else appended first: read what they wrote and fold it."""
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        for theirs in await caught_up(journal, log):
            self._publish(theirs)
        self.live.open = known_open(log.run)

    async def _rows(self, events: list[ev.AnyEvent], started_at: int) -> Changes:
        """What these events change in a store's rows. A tool that cannot be had is not shown."""
        found: dict[str, Any] = {}
        for call in opened_by(self.run, events):
            with contextlib.suppress(Exception):
                found[call.id] = await self.find_tool(call)
        return changes(self.live, events, found, started_at)

    def _decide(self, commands: tuple[cm.Command, ...], now: int) -> list[ev.AnyEvent]:
        events: list[ev.AnyEvent] = []
        try:
            for command in commands:
                events += step(self.run, command, now)
        except BaseException as error:
            self.refused = error if isinstance(error, Conflict) else None
            if events:
                self.live.log.refold()
            raise
        return events

    def _made(self, now: int, events: list[ev.AnyEvent]) -> ev.Step:
        return ev.Step(now, events) if self.traces is None else self.traces.step(now, events)

    def _appended(self, made: ev.Step, line: bytes | None = None) -> None:
        self.live.log.append(made, line)
        if self.feeds or self.traces is not None:
            self._publish(made)

    def _publish(self, made: ev.Step) -> None:
        for feed in list(self.feeds.values()):
            feed.step(made)
        if self.traces is not None:
            self.traces.happened(made)


def _nobody() -> None:
    return None
