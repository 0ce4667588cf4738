"""Hold the lease of a drive: taken along with its first line where that is as good, given back with its last.

Between the two it is renewed, and what others say is heard. Which line is the last is known as it is decided: nothing
is at work, nothing is to be done, and nothing is left to be told. What comes nevertheless takes the lease again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec import structs

from ...core.effects import at_work, pending, wakes_at
from ...core.errors import Conflict, StorageError
from ...core.events import ROOT
from ...core.run import Run
from ...core.states import OVER
from ...journal.base import Claim, Journal, Lease, LostRace, leases_along
from ...journal.rows import Changes
from ..run.open_run import TIMELY, steady
from .drive import Drive

Work = Callable[[], Coroutine[Any, Any, None]]


class MovedMeanwhile(Exception):
    """Raised where the first line of a resume does not take the lease: others moved the run since it was read."""


class Hold:
    """Holds the lease of a drive's run for a `worker`.

    `beside` is what is done meanwhile, each from so many seconds on. A run that is `known` was read before its lease is
    taken: the first line takes that if nothing moved the run since, and else it raises `MovedMeanwhile`.
    """

    def __init__(
        self, drive: Drive, journal: Journal, worker: str, beside: Mapping[float, Work], *, known: bool = False
    ) -> None:
        self.worker = worker
        self._drive, self._journal = drive, journal
        self._beside, self._known = beside, known
        self._along = leases_along(journal) and not drive.attended
        self._timers: list[_Later] = []
        self._taking: asyncio.Task[Claim | None] | None = None
        self._over = False

    def begin(self, claim: Claim, *, late: bool = False) -> None:
        """Hold the run under a claim from now on; one that comes late may have expired, and is renewed at once."""
        self._drive.claim = claim
        self._known = False
        self._timers = [_Later(0 if late else seconds, work) for seconds, work in self._beside.items()]

    def end(self) -> None:
        """Stop what is done beside."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    async def append(self, run: Run, expected: int, line: bytes, rows: Changes) -> None:
        """Append a line of the run, and do what goes along to its lease."""
        drive = self._drive
        ends = self._along and self._is_last(run)
        lines, due = [line], wakes_at(run) if ends else None
        if drive.claim is not None:
            if not ends:
                await self._journal.append(run.id, expected, lines, drive.claim, rows)
                return
            await self._let_go(run, expected, lines, rows, Lease(ends=True, due=due))
        else:
            await self._take(run, expected, lines, rows, Lease(self.worker, drive.lease_ms, ends, due, self._known))
        if ends:
            self._released()

    async def _let_go(self, run: Run, expected: int, lines: Sequence[bytes], rows: Changes, lease: Lease) -> None:
        """Append a line that gives the lease back; whoever is cut off meanwhile knows whether it is held still."""
        claim = self._drive.claim
        assert claim is not None
        try:
            await self._journal.append(run.id, expected, lines, claim, rows, lease=lease)
        except asyncio.CancelledError:
            with contextlib.suppress(StorageError):
                try:
                    self._drive.claim = await self._journal.renew(claim, self._drive.lease_ms)
                except Conflict:  # it went with the line
                    self._released()
            raise

    def _released(self) -> None:
        self._drive.claim = None
        self.end()

    async def _take(self, run: Run, expected: int, lines: Sequence[bytes], rows: Changes, lease: Lease) -> None:
        """Append a line that takes the lease; what is not waited for any more is looked at as it is given back."""
        if self._over:  # nobody would give it back
            raise Conflict(f"run {run.id!r} is no longer held: its lease was released; claim the run again")
        asked = steady()
        self._taking = asyncio.ensure_future(self._journal.append(run.id, expected, lines, None, rows, lease=lease))
        try:
            taken = await asyncio.shield(self._taking)
        except (Conflict, LostRace) as error:  # what is refused takes no lease
            self._taking = None
            if self._known and isinstance(error, LostRace):
                raise MovedMeanwhile from error
            raise
        self._taking, self._known = None, False
        assert taken is not None
        if not lease.ends:
            self.begin(structs.replace(taken, since=steady()), late=steady() - asked > TIMELY)

    async def taken(self) -> Claim | None:
        """Take no lease any more; return the one that is held, also where whoever took it was cut off meanwhile."""
        self._over = True
        if self._drive.claim is None and self._taking is not None:
            return await self._taking
        return self._drive.claim

    def _is_last(self, run: Run) -> bool:
        """Return whether a run that was just decided has come as far as this drive takes it."""
        if self._drive.stops or run.queued or run.status not in ("running", "finished") or in_the_middle(run):
            return False
        told = all(frame.prefix is None or frame.written == len(frame.tape) for frame in run.frames.values())
        return told and self._drive.context_kept()


def in_the_middle(run: Run) -> bool:
    """Return whether a run is unfinished, or owes other logs something, and a worker should go on with it.

    A run that failed waits for somebody's word.
    """
    if run.status in OVER:
        return bool(run.owed)
    if run.status != "running":
        return False
    root = run.frames.get(ROOT)
    asks = run.drill is None and root is not None and root.barrier and root.phase == "model"  # as after most lines
    return asks or next(at_work(run), None) is not None or bool(pending(run, first=True))


class _Later:
    """Work that begins some seconds from now as a task of its own, unless it is cancelled first."""

    def __init__(self, seconds: float, work: Work) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._work())

    def cancel(self) -> None:
        """Stop the work, or never begin it."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
