"""The writer of one run's log: decide commands, append their events as one step, publish it.

Every change of a run goes through `commit`, whoever makes it: the loop, an inbox, a fork. It is durable when that
returns. It is the only append loop there is: if somebody else appended first, their lines are
folded and the same commands are decided again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Protocol

import msgspec

from ...core import commands as cm
from ...core import events as ev
from ...core.codec import Log
from ...core.decide import step
from ...core.errors import Conflict, StorageError
from ...core.run import Run, copy_run
from ...journal.base import Claim, Journal, LostRace
from ...journal.rows import Changes, RequestRow
from ...support.forwarding import forwarded
from ...support.turns import AT_A_TIME, in_turns
from ..run.log_cache import caught_up
from ..run.open_run import chain_of, journal_clock
from ..tracing.spans import RunSpans
from ..views.event_stream import Feed
from ..views.rows import changes, known_open, open_after, opened_by, replayed, request_row
from ..views.tallies import OpenRequest
from .stop import StopReason

_FRUITLESS = 3


class Held(Protocol):
    """Appends the lines of a run whose lease it holds for a worker."""

    worker: str

    async def append(self, run: Run, expected: int, line: bytes, rows: Changes) -> None:
        """Append a line, and do what goes along to the lease."""
        ...

    async def taken(self) -> Claim | None:
        """Return the claim under which the run is held."""
        ...


class Written(msgspec.Struct, frozen=True):
    """Holds what a commit came to: its events, possibly none, and the changes of the store's rows."""

    events: list[ev.AnyEvent]
    changes: Changes | None = None


async def write_to(journal: Journal, log: Log, *commands: cm.RunCommand) -> Written:
    """Decide commands against a run that nobody here holds, and append their events."""
    writer = Writer(log, journal, await journal_clock(journal))
    writer.open = known_open(log.run)
    return await writer.commit(*commands)


class Writer:
    """Writes to one log, here or in a journal; `clock` gives the time of its steps, `run` is the run as it stands."""

    run: Run = forwarded("log.run")

    # Read at each step: of more attributes than a class keeps together Python makes a dict, and looks methods up in it.
    __slots__ = (
        "_appending",
        "claim",
        "clock",
        "feeds",
        "hold",
        "journal",
        "log",
        "open",
        "refused",
        "stops",
        "traces",
    )

    def __init__(self, log: Log, journal: Journal | None, clock: Callable[[], int]) -> None:
        self.log = log
        self.journal = journal
        self.clock = clock
        self.claim: Claim | None = None
        # Takes and gives back the lease along with lines, where this drives the run.
        self.hold: Held | None = None
        # The requests that the journal has as open, by call.
        self.open: dict[str, OpenRequest] = {}
        self.refused: Conflict | None = None
        self.feeds: dict[str, Feed] = {}
        self.traces: RunSpans | None = None
        # Why it is to stop; `stop.py` says what follows from each reason.
        self.stops: set[StopReason] = set()
        self._appending: asyncio.Lock | None = asyncio.Lock() if journal is not None else None

    async def commit(self, *commands: cm.RunCommand) -> Written:
        """Decide commands and append their events as one step; the events are durable when this returns."""
        if self._appending is None:
            now = self.clock()
            few = len(commands) <= AT_A_TIME
            return self._append_here(self._decide(commands, now) if few else await self._many(commands, now), now)
        async with self._appending:
            return await self._append_there(commands)

    def known(self) -> dict[str, OpenRequest]:
        """Return the requests of the run that are open, as its log says."""
        return known_open(self.log.run)

    async def write_whole(self) -> None:
        """Append the whole log as a run that the journal does not have yet."""
        assert self.journal is not None
        lines = self.log.sealed_anew(chain_of(self.journal, self.log.run.id))
        await self.journal.append(self.log.run.id, 0, lines, None, replayed(self.log.steps))

    async def kept(self) -> None:
        """Wait until everything decided is in the journal: what is not stored starts nothing."""
        if self._appending is not None and self._appending.locked():
            async with self._appending:
                return

    @contextlib.asynccontextmanager
    async def at_rest(self) -> AsyncGenerator[None]:
        """Hold back every append while what is decided depends on the log as it is; what was begun is kept first."""
        if self._appending is None:
            yield
            return
        async with self._appending:
            yield

    async def catch_up(self) -> None:
        """Fold what others appended since the run was read."""
        assert self._appending is not None
        async with self._appending:
            await self._catch_up()

    async def heard(self, place: int) -> bool:
        """Fold the lines that others wrote up to a new head of the journal, and return whether there were any."""
        assert self._appending is not None
        async with self._appending:
            if len(self.log) >= place:
                return False
            await self._catch_up()
            return True

    def _append_here(self, events: list[ev.AnyEvent], now: int) -> Written:
        if events:
            self._appended(ev.Step(now, events) if self.traces is None else self.traces.step(now, events))
        return Written(events)

    async def _append_there(self, commands: tuple[cm.RunCommand, ...]) -> Written:
        journal, log = self.journal, self.log
        assert journal is not None
        fruitless = 0
        while True:
            now = self.clock()
            events = self._decide(commands, now) if len(commands) <= AT_A_TIME else await self._many(commands, now)
            if not events:
                return Written(events)
            made = ev.Step(now, events) if self.traces is None else self.traces.step(now, events)
            try:
                line = self._sealed(made)
                begun = log.steps[0].at if log.steps else now
                few = len(events) <= AT_A_TIME
                opened = None if few else await self._opened(events)
                rows = changes(log.run, self.open, events, begun, opened)
                if self.hold is None:
                    await journal.append(log.run.id, len(log), [line], self.claim, rows)
                else:
                    await self.hold.append(log.run, len(log), line, rows)
            except LostRace:
                run = log.run.id
                log.refold()
                log.run.id = run  # that of a start under a name, which another process was faster with
                fruitless = 0 if await self._catch_up() else fruitless + 1
                if fruitless >= _FRUITLESS:  # its head and its lines do not agree: no attempt would ever win
                    raise StorageError(
                        f"the journal says that run {log.run.id!r} has another number of lines than the "
                        f"{len(log)} that it gives; look at it with `keyturn check`"
                    ) from None
                continue
            except BaseException as error:
                self.stops.discard("cut_short")
                if isinstance(error, asyncio.CancelledError):
                    self.stops.add("cut_short")
                if isinstance(error, StorageError):
                    self.stops.add("store_failed")
                elif isinstance(error, Conflict):
                    self.stops.add("taken_over")
                log.refold()
                self.open = known_open(log.run)
                raise
            self.open = open_after(self.open, rows)
            self._appended(made, line)
            return Written(events, rows)

    async def _catch_up(self) -> int:
        """Read, verify and fold what somebody else appended first; return how many lines that were."""
        assert self.journal is not None
        theirs = await caught_up(self.journal, self.log)
        self.publish(theirs)
        self.open = known_open(self.log.run)
        return len(theirs)

    def _sealed(self, made: ev.Step) -> bytes:
        """Return the sealed line of the next step; the first one begins the run's chain in its journal."""
        if self.log.chain is None:
            assert self.journal is not None
            assert not self.log.steps, "a log that was begun elsewhere is attached before anything is written to it"
            self.log.chain = chain_of(self.journal, self.log.run.id)
        return self.log.sealed(made)

    def _decide(self, commands: tuple[cm.RunCommand, ...], now: int) -> list[ev.AnyEvent]:
        events: list[ev.AnyEvent] = []
        run = self.log.run
        try:
            for command in commands:
                events += step(run, command, now)
        except BaseException as error:
            self.refused = error if isinstance(error, Conflict) else None
            if events:
                self.log.refold()
            raise
        return events

    async def _many(self, commands: tuple[cm.RunCommand, ...], now: int) -> list[ev.AnyEvent]:
        """Decide many commands a few at a time, on a copy of the run that takes its place once all are folded.

        Nobody sees a step that is folded in part. Where nothing holds back others who write to the run meanwhile, and
        somebody did, all are decided again at once.
        """
        log, events = self.log, list[ev.AnyEvent]()
        before, run = len(log), copy_run(log.run)
        try:
            async for command in in_turns(commands):
                events += step(run, command, now)
        except BaseException as error:
            self.refused = error if isinstance(error, Conflict) else None
            raise
        if len(log) != before:
            return self._decide(commands, now)
        log.run = run
        return events

    async def _opened(self, events: list[ev.AnyEvent]) -> list[RequestRow]:
        """Make the rows of what many events opened, a few at a time."""
        await asyncio.sleep(0)
        run = self.log.run
        return [request_row(run, call) async for call in in_turns(opened_by(run, events))]

    def _appended(self, made: ev.Step, line: bytes | None = None) -> None:
        self.log.append(made, line)
        if self.feeds or self.traces is not None:
            self.publish([made])

    def publish(self, steps: list[ev.Step]) -> None:
        """Publish steps that are in the log to listeners and traces."""
        for made in steps:
            for feed in list(self.feeds.values()):
                feed.step(made)
            if self.traces is not None:
                self.traces.happened(made)
