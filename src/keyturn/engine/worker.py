"""The worker: takes up runs that are due, many at once, and moves each until it is over or only people can move it.

It asks the journal what is due and sleeps until something is; nothing is polled, and a paused run costs nothing here. A
run is claimed before it is taken up, so any number of workers may share one journal.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Any, cast

from msgspec import structs

from ..core.aside import SetAside
from ..core.codec import WrittenByNewer
from ..core.errors import Conflict, LogDamaged, StorageError, StoreRestored, ToolSourceDown
from ..core.upcasts import FORMAT
from ..journal.base import RESERVED, Claim, ClaimFilter, Store, filters_due
from ..journal.optional import WATCHED, ClaimsDue, Presence
from ..support.user_code import contained, original
from .backlog import LATE_MS, left_alone, what_moves
from .driving.home import Home
from .driving.lease import FROZEN_MS, LATER_MS, TTL_MS, renewed
from .driving.taking import accepted
from .execution import Execution
from .logger import TRACE, failure_trace, failure_words, tool_data_allowed
from .presence import HolderWatch
from .run.new_ids import claimant
from .run.open_run import steady

log = logging.getLogger("keyturn.worker")

_BACKOFF = 1.0  # how long a store that fails is left alone, in seconds
_PAUSE = 0.5  # how often a journal that knows no filter is asked, in seconds, while runs are due for others alone
_LOOK_AGAIN = 1.0  # how soon is noticed, in seconds, that this worker can move other runs than it asked for
_LEFT = LATER_MS / 1_000  # how long a run is left to others that could not be taken up here, in seconds

Takes = Callable[[Claim], Awaitable[Execution]]


class Worker:
    """Moves runs of a journal forward, at most `slots` at once.

    `take` makes the play of a run that was claimed; `settle` puts in doubt what a store lets run that was restored.
    What a run's tools and models raise is the run's own affair: it is recorded there, and the worker goes on. A run
    of an agent that is not among `agents`, or that a newer Keyturn wrote, is never claimed; one that cannot be taken up
    for another reason stays due. So the workers of one journal may have different agents and different versions.
    """

    def __init__(
        self,
        store: Store,
        take: Takes,
        *,
        slots: int = 100,
        grace: float = 30.0,
        settle: Callable[[], Awaitable[Any]] | None = None,
        agents: Callable[[], Collection[str]] | None = None,
        lease_ms: int | None = None,
    ) -> None:
        self.name = claimant("worker")
        self._store, self._take = store, take
        self._settle, self._agents = settle, agents
        self._unsettled = True
        self.lease_ms = TTL_MS if lease_ms is None else lease_ms
        self._home = Home(store)
        self.slots, self._grace = slots, grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._plays: dict[str, Execution] = {}
        # The runs that other workers may take up, each with the time at which this one tries it again.
        self._left = dict[str, float]()
        # The runs of which it was said that they are frozen.
        self._told: set[str] = set()
        # The agents and log formats whose runs were reported to be moved by no worker, and when is looked again.
        self._reported, self._reports_at = set[tuple[str, int]](), 0.0
        self._leaving = asyncio.Event()
        #: The error that it waits for to pass; None while it works.
        self.error: Exception | None = None

    @property
    def busy(self) -> int:
        """Return how many runs are being moved now."""
        return len(self._tasks)

    def stop(self) -> None:
        """Take up nothing more, let what was begun end, and return from `run`."""
        self._leaving.set()
        for play in self._plays.values():
            play.drive.leave()

    async def run(self) -> None:
        """Work until stopped; on cancellation stop at once, which leaves what was in flight in doubt.

        An error before its first round is raised: it is set up wrongly. After that it waits until the error has passed.
        """
        begun = False
        self._reports_at = asyncio.get_running_loop().time() + LATE_MS / 1_000
        leaving = asyncio.ensure_future(self._leaving.wait())
        watching: asyncio.Task[None] | None = None
        try:
            watching = await self._watch()
            while not leaving.done():
                try:
                    await self._settled()
                    self.error = None
                    await self._round(leaving)
                    begun = True
                except StoreRestored as error:  # it was promoted while we worked on it
                    log.warning("the journal was restored while we worked on it, it is settled first: %s", error)
                    self._unsettled = True
                except Exception as error:  # a key that cannot be read, a store of one's own: what is at work goes on
                    await self._wait_out(error, leaving, begun=begun)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=self._grace)
        finally:
            leaving.cancel()
            await self._end()
            await self._home.close()
            if watching is not None:
                watching.cancel()
                await cast("Presence", self._store).be_absent(self.name)

    async def _watch(self) -> asyncio.Task[None] | None:
        """Show that this process lives, and watch the others, where the store can."""
        store = self._store
        if not isinstance(store, Presence) or self.name.endswith(WATCHED):
            return None
        try:
            if not await store.be_present(self.name + WATCHED):
                return None
        except StorageError as error:  # then its leases are waited for
            log.warning("that this worker lives cannot be shown: %s", error)
            return None
        self.name += WATCHED
        return asyncio.ensure_future(HolderWatch(store).run())

    async def _wait_out(self, error: Exception, leaving: asyncio.Future[Any], *, begun: bool) -> None:
        """Wait a moment for an error to pass, or raise it where it is there from the beginning."""
        if not begun and not isinstance(error, StorageError):
            raise error
        self.error = error
        trace = None if isinstance(error, StorageError) else error
        log.warning("the journal cannot be used, trying again: %s", error, exc_info=trace)
        await asyncio.wait({leaving}, timeout=_BACKOFF)

    async def _settled(self) -> None:
        """Put in doubt what the store lets run, where it was restored: before anything of it is taken up."""
        if self._unsettled:
            if self._settle is not None:
                await self._settle()
            self._unsettled = False

    async def _round(self, leaving: asyncio.Future[Any]) -> None:
        """Take up what is due and there is room for; then wait for more work, or for room."""
        free, only = self.slots - len(self._tasks), self._filter()
        if free and not leaving.done():
            asked = steady()
            claims, due = await self._claimed(free, only)
            todo = [*(self._accept(claim, asked) for claim in claims), *map(self._take_up, due)]
            for error in await asyncio.gather(*todo, return_exceptions=True):  # together, so that they share a commit
                if error is not None:
                    raise error
        room = self.slots - len(self._tasks)
        stirred = asyncio.ensure_future(self._stirred(only)) if room else None
        ends = list(self._tasks) if stirred is None else [stirred]
        try:
            await asyncio.wait({leaving, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if stirred is not None and stirred.done():
                stirred.result()
        finally:
            if stirred is not None:
                stirred.cancel()

    def _filter(self) -> ClaimFilter:
        """Return which runs this worker can move, as far as it knows."""
        now = asyncio.get_running_loop().time()
        self._left = {run: until for run, until in self._left.items() if until > now}
        return ClaimFilter(None if self._agents is None else tuple(self._agents()), FORMAT, tuple(self._left))

    async def _claimed(self, free: int, only: ClaimFilter) -> tuple[list[Claim], list[str]]:
        """Return runs that are due and were claimed, and the names of those that are to be claimed one by one."""
        if not hasattr(self._store, "claim_due"):
            return [], await self._due(free, only)
        made = await cast("ClaimsDue", self._store).claim_due(self.name, self.lease_ms, free, only)
        return made.claims, made.others

    async def _due(self, free: int, only: ClaimFilter) -> list[str]:
        """Return runs that are due, and that this worker may be able to move."""
        if filters_due(self._store):
            return await self._store.due(free, only)
        due = await self._store.due(free + len(self._left))
        return [run for run in due if run not in self._left][:free]

    async def _stirred(self, only: ClaimFilter) -> None:
        """Wait until something may be due that this worker can move, which may change while it waits."""
        if not filters_due(self._store):  # what is left to others is due all the time
            await (asyncio.sleep(_PAUSE) if self._left else self._store.wait_until_due())
            return
        waiting = asyncio.ensure_future(self._store.wait_until_due(None, only))
        try:
            while not waiting.done() and self._filter() == only:
                await asyncio.wait({waiting}, timeout=_LOOK_AGAIN)
                await self._report_backlog(only)
            if waiting.done():
                waiting.result()
        finally:
            waiting.cancel()

    async def _report_backlog(self, only: ClaimFilter) -> None:
        """Log once for each agent and log format that runs are late which this worker cannot move, nor any other."""
        now = asyncio.get_running_loop().time()
        if now < self._reports_at:
            return
        self._reports_at = now + LATE_MS / 1_000
        for (agent, format), late in (await left_alone(self._store, only)).items():
            if (agent, format) not in self._reported:
                self._reported.add((agent, format))
                said = "%d runs of agent %r are due for over a minute, and no worker executes them: %s"
                log.warning(said, len(late), agent, what_moves(agent, format))

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

    async def _take_up(self, run: str) -> None:
        if await self._is_held(run):
            return
        asked = steady()
        try:
            claim = await self._store.claim(run, self.name, self.lease_ms)
        except Conflict:  # another worker was quicker
            return
        except LogDamaged as error:  # the store looks at it again later
            self._frozen(error)
            return
        if run.startswith(RESERVED):  # whoever wrote it was cut short, and nothing is to be done for it
            await self._store.release(claim)
            return
        await self._accept(claim, asked)

    async def _accept(self, claim: Claim, asked: float) -> None:
        """Begin to move a run that was claimed, unless it is set aside."""
        try:
            claim = await accepted(self._store, claim, asked, self.lease_ms)
        except Conflict:
            return
        except LogDamaged as error:
            self._frozen(error)
            return
        task = asyncio.ensure_future(self._move(claim))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _move(self, claim: Claim) -> None:
        try:
            with contained:
                play = await self._take(claim)
        except SetAside as error:  # something was said of it, which does not resume it
            log.info("%s", error)
            await self._store.release(claim)
            return
        except Exception as error:
            if isinstance(error, LogDamaged) and not isinstance(error, WrittenByNewer):
                self._frozen(error)
                await self._leave(claim, FROZEN_MS)
                return
            self._leave_to_others(claim.run, error)
            await self._leave(structs.replace(claim, untried=True), 0)
            return
        self._plays[claim.run] = play
        play.drive.patient, play.drive.home = True, self._home
        if self._leaving.is_set():
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
                await (self._leave(claim, later) if unfinished else self._store.release(claim))

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
            await self._store.release(claim, await self._store.now() + later)
        except StorageError as error:  # its claim runs out by itself
            log.warning("run %s is held until its lease runs out: %s", claim.run, error)

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _log_failure(play: Execution, error: Exception) -> None:
    """Log once why a run stopped, with its traceback: as text where something had to be taken out of it."""
    trace = failure_trace(error)
    whole = bool(trace) and tool_data_allowed() and not hasattr(error, TRACE)
    words = failure_words(error) + (f"\n{trace}" if trace and not whole else "")
    said = "run %s of agent %r stopped: %s"
    log.warning(said, play.run.id, play.run.root_agent, words, exc_info=original(error) if whole else None)
