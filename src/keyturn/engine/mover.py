"""Move runs that are due: claim one, take it up, finish it or leave it, and give it back.

No engine is known here. Whatever hands a run over, the journal's own rounds, another engine or the reconciler, a run is
moved only under a claim, so it does not matter how often, how late or for what reason it is handed over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Generator
from contextlib import contextmanager
from typing import cast

from msgspec import structs

from ..core.aside import SetAside
from ..core.codec import WrittenByNewer
from ..core.errors import Conflict, LogDamaged, StorageError, ToolSourceDown
from ..core.upcasts import FORMAT
from ..fleet.base import Wake, WakeOutcome
from ..journal.base import RESERVED, Claim, ClaimFilter, FleetFull, Store
from ..journal.optional import FleetLimits, LimitsClaims
from ..journal.rows import Query
from ..support.user_code import contained, original
from .driving.home import Home
from .driving.lease import FROZEN_MS, LATER_MS, renewed
from .driving.taking import accepted
from .execution import Execution
from .logger import TRACE, error_words, failure_trace, failure_words, quotes_credentials, tool_data_allowed
from .run.open_run import steady
from .turns import SlotTurns

log = logging.getLogger("keyturn.worker")

_FULL = 0.25  # how soon is noticed, in seconds, that another worker ended a run, where the fleet has a limit
_LEFT = LATER_MS / 1_000  # how long a run is left to others that could not be taken up here, in seconds

Takes = Callable[[Claim], Awaitable[Execution]]
Limits = Callable[[], FleetLimits | None]


class Mover:
    """Moves runs under claims of `name`, at most `slots` at once, whoever hands them over.

    `take` makes the play of a run that was claimed. What a run's tools and models raise is the run's own affair: it is
    recorded there. `agents` are those whose runs can be moved here.
    """

    def __init__(
        self,
        store: Store,
        take: Takes,
        *,
        name: str,
        slots: int,
        lease_ms: int,
        agents: Callable[[], Collection[str]] | None,
    ) -> None:
        self.name = name
        self.slots, self.lease_ms = slots, lease_ms
        self.tenant: str = getattr(store, "tenant", "default")
        self.store, self._take = store, take
        #: The slots that it shares with the movers of other tenants; None where it has its own alone.
        self.turns: SlotTurns | None = None
        self.promised = 0
        self._agents = agents
        #: Returns how many runs all workers may move at once.
        self.limited_by: Limits = lambda: None
        self._home = Home(store)
        self._tasks: set[asyncio.Task[None]] = set()
        # One for each run that is being claimed, which has its slot already.
        self._claiming: set[asyncio.Future[None]] = set()
        self._plays: dict[str, Execution] = {}
        # The runs that other workers may take up, each with the time at which this one tries it again.
        self._left = dict[str, float]()
        # The runs of which it was said that they are frozen.
        self._told: set[str] = set()
        self.leaving = False
        # Until when it is left to others to take up more, since the whole fleet moves as much as it may.
        self._full_until = 0.0

    @property
    def limits(self) -> FleetLimits | None:
        """Return how many runs all workers may move at once; None for any number."""
        return self.limited_by()

    @property
    def full_for(self) -> float | None:
        """Return for how many seconds nothing is taken up, since the fleet moves as much as it may; None if not."""
        left = self._full_until - asyncio.get_running_loop().time() if self._full_until else 0.0
        return left if left > 0 else None

    async def room(self, free: int) -> int:
        """Return how many of so many runs may be taken up now."""
        limits = self.limits
        if limits is None:
            return free
        left = min(free, await cast("LimitsClaims", self.store).room(limits))
        if left <= 0:
            self._full()
        return max(left, 0)

    def _full(self) -> None:
        loop = asyncio.get_running_loop()
        self._full_until = loop.time() + _FULL
        if self.turns is not None:  # those who wait for a slot here wait for nothing now
            loop.call_soon(self.turns.give)

    @property
    def busy(self) -> int:
        """Return how many runs are being moved now."""
        return len(self._tasks)

    @property
    def tenant_slots(self) -> int:
        """Return how many runs of its tenant are moved at once."""
        return self.slots

    @property
    def own_free(self) -> int:
        """Return how many more its tenant may have moved, whether there are slots or not."""
        taken = len(self._tasks) + len(self._claiming) + self.promised
        return 0 if self.full_for else max(self.slots - taken, 0)

    @property
    def free(self) -> int:
        """Return how many more may be handed over."""
        return self.own_free if self.turns is None else min(self.own_free, self.turns.free)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the runs that are being moved, each a task that ends as it is given back."""
        return list(self._tasks)

    @property
    def left(self) -> int:
        """Return how many runs are left to others for now."""
        return len(self._left)

    def leave(self) -> None:
        """Take up nothing more, and leave each run after its current step."""
        self.leaving = True
        for play in self._plays.values():
            play.drive.leave()
        if self.turns is not None:
            self.turns.give()

    async def drain(self, grace: float) -> None:
        """Wait for what is being moved, for so many seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)

    async def end(self) -> None:
        """Cut off what is being moved, which leaves it in doubt."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._home.close()

    def filter(self) -> ClaimFilter:
        """Return which runs can be moved here, as far as is known."""
        now = asyncio.get_running_loop().time()
        self._left = {run: until for run, until in self._left.items() if until > now}
        return ClaimFilter(None if self._agents is None else tuple(self._agents()), FORMAT, tuple(self._left))

    async def _is_held(self, run: str) -> bool:
        """Return whether this worker holds a run whose lease expired as its process stood still, and renew the lease.

        Nobody died, and what is at work goes on.
        """
        play = self._plays.get(run)
        if play is None or play.drive.claim is None:
            return False
        try:
            await renewed(play.drive)
        except Conflict:  # another worker took it over meanwhile, and that one may have died
            return False
        return True

    async def move(self, wake: Wake) -> WakeOutcome:
        """Move a run that an engine hands over, until it is over or only people can move it."""
        try:
            return await self._moved(wake)
        except Exception as error:  # an engine would keep its words, which are nothing for its tables
            log.warning("run %s could not be moved, it is tried again: %s", wake.run, error_words(error))
            return WakeOutcome("failed")

    async def _moved(self, wake: Wake) -> WakeOutcome:
        if self.leaving:
            return WakeOutcome("leaving")
        if wake.tenant != self.tenant:
            return WakeOutcome("elsewhere")
        found = await self.store.runs(Query(run=wake.run))
        if not found or found[0].status == "erased":
            return WakeOutcome("gone")
        if not self.filter().admits(wake.run, found[0].agent, 0):
            return WakeOutcome("elsewhere")
        task = None
        while task is None:
            has_room = await self._has_room(wake.run)
            if self.leaving:
                return WakeOutcome("leaving")
            if not has_room:
                return WakeOutcome("later")
            task = await self.take_up(wake.run)
            if task is None and (wake.run in self._plays or not self.full_for):
                return WakeOutcome("held")
        await asyncio.wait({task})  # whoever asked may be cut off: the run goes on
        if not task.cancelled():
            task.result()  # or what it raised
        return WakeOutcome("moved")

    async def _has_room(self, run: str) -> bool:
        """Wait until there is room for a run; return False where its tenant has none, and it waits no longer."""
        if self.turns is not None and run not in self._plays:
            return await self.turns.wait(self)
        await self.until_free(run)
        return True

    async def until_free(self, run: str = "") -> None:
        """Wait until there is room for a run: the reconciler moves some beside an engine's, and other workers do."""
        while not self.own_free and run not in self._plays and not self.leaving:
            ends = {*self._tasks, *self._claiming} or {asyncio.ensure_future(asyncio.sleep(_FULL))}
            await asyncio.wait(ends, timeout=self.full_for, return_when=asyncio.FIRST_COMPLETED)

    async def take_up(self, run: str) -> asyncio.Task[None] | None:
        """Claim a run and begin to move it; None where it cannot be claimed, or is nothing to move."""
        with self.slot():
            return await self._claimed(run)

    @contextmanager
    def slot(self) -> Generator[None]:
        """Keep a slot while a run is claimed: a claim takes a while, and others look for free slots meanwhile."""
        claiming = asyncio.get_running_loop().create_future()
        self._claiming.add(claiming)
        self._taking(1)
        try:
            yield
        finally:
            self._claiming.remove(claiming)
            claiming.set_result(None)
            self._taking(-1)

    def _taking(self, more: int) -> None:
        if self.turns is not None:
            self.turns.taking(more)

    async def _claimed(self, run: str) -> asyncio.Task[None] | None:
        if await self._is_held(run):
            return None
        asked = steady()
        try:
            claim = await self._claim(run)
        except FleetFull:
            self._full()
            return None
        except Conflict:  # another worker was quicker
            return None
        except LogDamaged as error:  # the store looks at it again later
            self._frozen(error)
            return None
        if run.startswith(RESERVED):  # whoever wrote it was cut short, and nothing is to be done for it
            await self.store.release(claim)
            return None
        return await self.accept(claim, asked)

    async def _claim(self, run: str) -> Claim:
        limits = self.limits
        if limits is None or run.startswith(RESERVED):
            return await self.store.claim(run, self.name, self.lease_ms)
        return await cast("LimitsClaims", self.store).claim_within(run, self.name, self.lease_ms, limits)

    async def accept(self, claim: Claim, asked: float) -> asyncio.Task[None] | None:
        """Begin to move a run that was claimed, when that was `asked`; None where it is set aside."""
        try:
            claim = await accepted(self.store, claim, asked, self.lease_ms)
        except Conflict:
            return None
        except LogDamaged as error:
            self._frozen(error)
            return None
        task = asyncio.ensure_future(self._move(claim))
        self._tasks.add(task)
        self._taking(1)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._full_until = 0.0
        self._taking(-1)

    async def _move(self, claim: Claim) -> None:
        """Move a run to where it can go, and give it back."""
        play = await self._taken(claim)
        if play is not None:
            await self._finished(play, claim)

    async def _taken(self, claim: Claim) -> Execution | None:
        """Return the execution of a run that was claimed; a run that cannot be taken up here is given back."""
        try:
            with contained:
                return await self._take(claim)
        except SetAside as error:  # something was said of it, which does not resume it
            log.info("%s", error)
            await self.store.release(claim)
        except Exception as error:
            if isinstance(error, LogDamaged) and not isinstance(error, WrittenByNewer):
                self._frozen(error)
                await self._leave(claim, FROZEN_MS)
            else:
                self._leave_to_others(claim.run, error)
                await self._leave(structs.replace(claim, untried=True), 0)
        return None

    async def _finished(self, play: Execution, claim: Claim) -> None:
        """Finish an execution, as far as it goes, and see to it that the run is given back."""
        self._plays[claim.run] = play
        play.drive.patient, play.drive.home = True, self._home
        if self.leaving:
            play.drive.leave()
        try:
            with contained:
                await play.finish()
            if "elsewhere" in play.drive.stops:
                self._left[claim.run] = asyncio.get_running_loop().time() + _LEFT
        except Conflict as error:  # it was cancelled, or somebody took it over: theirs is the word
            log.info("run %s: %s", claim.run, error)
        except WrittenByNewer as error:  # what another process appended as it was at work
            self._leave_to_others(claim.run, error)
        except LogDamaged as error:
            self._frozen(error)
        except ToolSourceDown as error:
            log.warning("run %s of agent %r waits, and is tried again soon: %s", claim.run, play.run.root_agent, error)
        except Exception as error:
            if "not_here" in play.drive.stops or play.drive.hold is None:
                self._leave_to_others(claim.run, error)
            else:
                _log_failure(play, error)
        finally:
            if self._plays.get(claim.run) is play:  # it may have been taken up anew, after a standstill
                del self._plays[claim.run]
            if play.drive.hold is None:  # it was over before it was held, or what it takes to hold it failed
                unfinished = play.run.status == "running" or play.run.owed
                later = 0 if claim.run in self._left else LATER_MS
                await (self._leave(claim, later) if unfinished else self.store.release(claim))

    def _leave_to_others(self, run: str, error: Exception) -> None:
        """Leave a run that this process cannot take up to other workers, and look at it again in a minute."""
        log.warning("run %s cannot be executed here, it is left to other workers for a minute: %s", run, error)
        self._left[run] = asyncio.get_running_loop().time() + _LEFT

    def _frozen(self, error: LogDamaged) -> None:
        """Log once that a run is left alone, since its log does not verify; all others go on."""
        if error.run not in self._told:
            self._told.add(error.run)
            log.error("%s", error)

    async def _leave(self, claim: Claim, later: int) -> None:
        try:
            await self.store.release(claim, await self.store.now() + later)
        except StorageError as error:  # its claim runs out by itself
            log.warning("run %s is held until its lease runs out: %s", claim.run, error)


def _log_failure(play: Execution, error: Exception) -> None:
    """Log once why a run stopped, with its traceback: as text where something had to be taken out of it."""
    trace = failure_trace(error)
    whole = bool(trace) and tool_data_allowed() and not (hasattr(error, TRACE) or quotes_credentials(error))
    words = failure_words(error) + (f"\n{trace}" if trace and not whole else "")
    said = "run %s of agent %r stopped: %s"
    log.warning(said, play.run.id, play.run.root_agent, words, exc_info=original(error) if whole else None)
