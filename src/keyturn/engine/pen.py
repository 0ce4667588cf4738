"""The hand that writes: decide commands, append what was decided as one step, publish it.

Every change of a run that is driven goes through `commit`. What `lay` decides is folded at once and appended with the
next step, in one go; nothing in the world may be touched in between.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from ..core import commands as cm
from ..core import events as ev
from ..core.codec import encode
from ..core.decide import step
from ..core.errors import Conflict
from ..core.run import Call, Run
from ..journal.base import Claim, LostRace
from ..journal.rows import Changes
from ..tools.base import Tool
from .feed import Feed
from .live import Live
from .rows import changes, known_open, opened_by
from .traces import Traces

# What follows so soon is of the same time, in milliseconds: nothing of the world lies between.
_AT_ONCE = 50


class Laid(msgspec.Struct, frozen=True):
    """What was decided and goes along with the next line: when, what came of it, and the words that made it."""

    at: int = 0
    events: list[ev.AnyEvent] = []
    words: tuple[cm.Command, ...] = ()
    kept: Callable[[], None] | None = None


class Pen:
    """One hand on one run's log."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.claim: Claim | None = None
        self.refused: Conflict | None = None
        self.feeds: dict[str, Feed] = {}
        self.traces: Traces | None = None
        self.roused: Callable[[], None] = _nobody
        self._appending: asyncio.Lock | None = asyncio.Lock() if live.journal is not None else None
        self._laid = Laid()

    @property
    def run(self) -> Run:
        """The run as it stands."""
        return self.live.log.run

    async def find_tool(self, call: Call) -> Tool | None:
        """The tool that a call means, if its agent still has it."""
        raise LookupError(call.id)

    async def commit(self, *commands: cm.Command) -> list[ev.AnyEvent]:
        """Decide commands and append their events as one step; the events are durable when this returns."""
        if self._appending is None:
            return self._append_here(commands)
        async with self._appending:
            return await self._append_there(commands)

    async def lay(self, *commands: cm.Command, kept: Callable[[], None] | None = None) -> None:
        """Decide commands whose line may go along with the next one; whoever does something else first calls `flush`.

        `kept` is called when the line is durable. A word with `kept` is a caller's: that it is refused, he is told.
        """
        if self._appending is None:
            self._append_here(commands)
            if kept is not None:
                kept()
        else:
            async with self._appending:
                if self._laid.events:
                    await self._append_there(())
                self._lay_down(commands, kept)

    @property
    def owes(self) -> bool:
        """Whether something was decided and is not appended yet."""
        return bool(self._laid.events)

    async def flush(self) -> bool:
        """Append what was laid; whether there was anything."""
        if not self._laid.events:
            return False
        try:
            await self.commit()
        except Conflict:
            if self.refused is None:
                raise
        return True

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
            if len(self.live.log) >= place or self._laid.events:  # the append to come finds it, where it can be handled
                return
            await self._catch_up()
        self.roused()

    def _append_here(self, commands: tuple[cm.Command, ...]) -> list[ev.AnyEvent]:
        now = self.live.clock()
        events = self._decide(commands, now)
        if events:
            self._appended(self._made(now, events))
        return events

    async def _append_there(self, commands: tuple[cm.Command, ...]) -> list[ev.AnyEvent]:
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        while True:
            now, laid = self.live.clock(), self._laid
            if laid.events and now - laid.at < _AT_ONCE:
                now = laid.at
            events = self._decide(commands, now)
            if not (events or laid.events):
                return events
            steps = self._steps(laid, now, events)
            try:
                lines = [encode(made) for made in steps]
                rows = await self._rows([event for made in steps for event in made.events], (log.steps or steps)[0].at)
                await journal.append(log.run.id, len(log), lines, self.claim, rows)
            except LostRace:
                self._forget()
                await self._catch_up()
                self._lay_again(laid)
                continue
            except BaseException:
                self._forget()
                self.live.open = known_open(log.run)
                raise
            self._laid = Laid()
            for made, line in zip(steps, lines, strict=True):
                self._appended(made, line)
            if laid.kept is not None:
                laid.kept()
            return events

    def _lay_down(self, commands: tuple[cm.Command, ...], kept: Callable[[], None] | None) -> None:
        now = self.live.clock()
        events = self._decide(commands, now)
        if events:
            self._laid = Laid(now, events, commands, kept)
        elif kept is not None:
            kept()

    def _lay_again(self, laid: Laid) -> None:
        """Decide what was laid once more: what somebody else said meanwhile may refuse it."""
        try:
            self._lay_down(laid.words, laid.kept)
        except Conflict as error:
            self.refused = None if laid.kept is not None else error
            raise

    def _forget(self) -> None:
        """Forget what was only decided."""
        self._laid = Laid()
        self.live.log.refold()

    async def _catch_up(self) -> None:
        """Somebody else appended first: read what they wrote and fold it."""
        journal, log = self.live.journal, self.live.log
        assert journal is not None
        for theirs in log.extend(await journal.read(log.run.id, len(log))):
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
                self.live.log.refold([ev.Step(self._laid.at, self._laid.events)] if self._laid.events else [])
            raise
        return events

    def _steps(self, laid: Laid, now: int, events: list[ev.AnyEvent]) -> list[ev.Step]:
        """What was laid and what came next: one step where they are of one time."""
        if laid.at == now or not laid.events:
            return [self._made(now, [*laid.events, *events])]
        return [self._made(laid.at, laid.events), *([self._made(now, events)] if events else [])]

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
