"""Ask what is pending, perform it, commit the outcome: the only loop.

Every way of running an agent uses it: plain, synchronous, streamed, by a worker. Effects run side by side, so a slow
tool does not delay a nested agent. A single effect without a lease is awaited without a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ..core import commands as cm
from ..core import events as ev
from ..core.call_ids import frame_of
from ..core.effects import Effect, pending
from ..core.errors import Conflict, StorageError, ToolInputGuardrailTripwireTriggered, ToolSourceDown, UserError
from ..core.gate.opening import Outdated
from ..core.policy import StoppedByPolicy
from ..core.run import Run, unknown_below
from ..core.states import READY
from ..support.forwarding import forwarded
from ..support.turns import AT_A_TIME
from ..support.user_code import RaisedByUser, contain
from .driving.drive import Drive
from .effects.ask_model import ask_model, exhausted, limited
from .effects.claiming import claim_call, claimable
from .effects.input_guardrails import guard, tripped
from .effects.judge import judge
from .effects.nested_frames import close_failed
from .effects.provider_calls import run_at_provider
from .effects.quotas import return_owed
from .effects.recover import lose_started
from .effects.run_tool import run_tool
from .effects.screening import screen
from .effects.settle import settle
from .effects.tool_errors import keep_words

_ON_CALLS = ("run", "screen", "settle")
# With these begins what a reader may not want any more; a screening may record a start.
_BEGINS = ("model", "run", "screen")


class Loop:
    """Runs one pass over a drive: the jobs in flight, and what failed."""

    run: Run = forwarded("drive.log.run")

    def __init__(self, drive: Drive) -> None:
        self.drive = drive
        self._jobs: dict[Effect, asyncio.Task[None]] = {}
        self._done: list[tuple[Effect, asyncio.Task[None]]] = []
        self._dropped: set[Effect] = set()
        self._failure: Exception | None = None
        self._failing: dict[str, Exception] = {}
        self._task = asyncio.current_task()
        # How often somebody had asked the task of this drive to stop.
        self._cancels = 0 if self._task is None else self._task.cancelling()

    async def advance(self) -> None:
        """Move the run until it is finished or only people can move it."""
        drive = self.drive
        try:
            while True:
                if drive.journal is not None:
                    await drive.kept()
                if drive.begun and drive.log.run.status == "cancelled":
                    await self._abandon()
                todo = self._todo()
                if drive.feeds and any(effect.do in _BEGINS for effect in todo) and await self._listened():
                    await drive.kept()
                    todo = self._todo()
                if not todo and not self._jobs:
                    break
                if len(todo) == 1 and not self._jobs and drive.claim is None and not drive.attended:
                    await self._perform(todo[0])
                    self._heed_cancel()
                else:
                    await self._together(todo)
                if self._failing:
                    await self._close_failed()
                if self._jobs and (drive.log.run.status == "cancelled" or "taken_over" in drive.stops):
                    await self._abandon()
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon())
            raise
        if self._failure is not None and drive.log.run.status != "cancelled":
            raise self._failure
        if drive.log.run.status == "failed":  # by whoever said so while it was moved
            raise Conflict(f"this run was stopped ({drive.log.run.error}) while it was executed: resume it to continue")

    def _heed_cancel(self) -> None:
        """Raise a cancellation that code awaited in line may have swallowed."""
        if self._task is not None and self._task.cancelling() > self._cancels:
            raise asyncio.CancelledError

    async def _listened(self) -> bool:
        """Let who reads the run's events along catch up; return whether anybody does."""
        feed = self.drive.feeds.get(ev.ROOT)
        if feed is None or self.drive.begun:  # what is begun is done: between its start and its tool comes nothing
            return False
        await feed.caught_up()
        return True

    def _todo(self) -> list[Effect]:
        drive = self.drive
        run, stops = drive.log.run, drive.stops
        drive.roused = False
        if "failed" in stops or run.status == "failed":
            return []
        if drive.begun or "leaving" in stops:  # what is begun is done, even by who leaves
            return [Effect("run", call) for call in drive.begun if Effect("run", call) not in self._jobs]
        effects = pending(run)
        if "after_turn" in stops:
            effects = [effect for effect in effects if effect.do != "model"]
        elif "limit" in stops:
            effects = drive.meter.hold_back(effects, busy=bool(self._jobs))
        claiming = drive.claiming
        if claiming is not None and claimable(run, claiming):
            effects.append(Effect("run", claiming.call))
        if self._jobs or self._failing:
            effects = [effect for effect in effects if effect not in self._jobs and not self._below_failure(effect)]
        return effects

    async def _together(self, todo: list[Effect]) -> None:
        for begun, effect in enumerate(todo, 1):
            job = self._jobs[effect] = asyncio.ensure_future(self._perform(effect))
            job.add_done_callback(partial(self._ended, effect))
            if begun % AT_A_TIME == 0:
                await asyncio.sleep(0)
                if "failed" in self.drive.stops:
                    break
        if not self._done:
            await self.drive.sleep()
        done, self._done = self._done, []
        for effect, job in done:
            del self._jobs[effect]
            if effect in self._dropped:
                self._dropped.discard(effect)
            else:
                job.result()

    def _ended(self, effect: Effect, job: asyncio.Task[None]) -> None:
        """Note an ended job and wake the loop, once for all that ended together."""
        self._done.append((effect, job))
        self.drive.rouse()

    async def _perform(self, effect: Effect) -> None:
        drive = self.drive
        do, on = effect
        run = drive.log.run
        if on not in (run.calls if do in _ON_CALLS else run.owed if do == "return" else run.frames):
            drive.drop_begun(on)  # settled by somebody else since it was found to be done
            return
        try:
            try:
                if drive.traces is None or do == "return":
                    await PERFORM[do](drive, on)
                else:
                    await drive.traces.around(effect, partial(PERFORM[do], drive, on))
            except BaseException as error:  # what user code raised past the seams inside
                contain(error)
                raise
        except asyncio.CancelledError:
            raise
        except Exception as error:
            try:
                passed = isinstance(error, Outdated) or (self.drive.refused is error and await self._passed(effect))
            except (Conflict, StorageError) as refused:
                passed, error = False, refused
            if not passed:
                await self._failed(self._frame_of(effect), error, deciding=self._deciding(effect, error))

    def _deciding(self, effect: Effect, error: Exception) -> bool:
        """Return whether an error came from deciding if a call may run, before anything ran.

        A guardrail's word is no failure of deciding, nor is what a hook or a tool raises.
        """
        if effect.do == "screen":
            return not isinstance(error, ToolInputGuardrailTripwireTriggered)
        if self.drive.patient and isinstance(error, ToolSourceDown):  # whatever waits for a server is not over
            return True
        call = self.drive.log.run.calls.get(effect.on) if effect.do == "run" else None
        if isinstance(error, RaisedByUser) or not isinstance(error, UserError | ToolSourceDown):
            return False
        return call is not None and call.state in READY

    async def _passed(self, effect: Effect) -> bool:
        """Return whether a refused command is obsolete: somebody decided meanwhile, or time went by.

        A lost race is no conflict yet. What a drive that was taken over does next, its journal refuses.
        """
        await self.drive.commit(cm.Tick())
        return effect not in pending(self.drive.log.run)

    async def _failed(self, frame_id: str, error: Exception, *, deciding: bool = False) -> None:
        """Make an error inside a nested agent its tool's error result; let the root's stop the drive.

        So does a store that failed, wherever: of what ran there it may hold the start and not the end. So does what
        failed in deciding, since a frame that is closed takes the decisions in it along.
        """
        asked = Effect("model", frame_id)
        if asked in self._jobs:  # a guardrail beside it said stop: nobody waits for that reply
            self._dropped.add(asked)
            self._jobs[asked].cancel()
        if frame_id == ev.ROOT or deciding or isinstance(error, Conflict | StorageError | StoppedByPolicy):
            self._stop(error)
        else:
            self._failing.setdefault(frame_id, error)

    def _stop(self, error: Exception) -> None:
        """Begin nothing more, and raise the first error of this kind once what is in flight has ended."""
        self._failure = self._failure or error
        self.drive.stops.add("failed")

    def _frame_of(self, effect: Effect) -> str:
        if effect.on in self.drive.log.run.frames and effect.do not in _ON_CALLS:
            return effect.on
        return frame_of(effect.on)

    def _below_failure(self, effect: Effect) -> bool:
        where = self._frame_of(effect) + "/"
        return any(where.startswith(frame + "/") for frame in self._failing)

    async def _close_failed(self) -> None:
        """Close nested frames that failed, once nothing inside them is still at work."""
        for frame_id, error in list(self._failing.items()):
            if any((self._frame_of(job) + "/").startswith(frame_id + "/") for job in self._jobs):
                continue
            del self._failing[frame_id]
            if unknown_below(self.drive.log.run, frame_id):  # closed, it would never be known: the run stops instead
                self._stop(error)
                continue
            try:
                await close_failed(self.drive, frame_id, error)
            except Exception as fatal:
                await self._failed(frame_of(frame_id), fatal)

    async def _abandon(self) -> None:
        """Stop what is in flight after a cancellation and record that its outcome is unknown."""
        for job in self._jobs.values():
            job.cancel()
        await asyncio.gather(*self._jobs.values(), return_exceptions=True)
        self._jobs, self._done = {}, []  # what ended meanwhile is abandoned as well
        self.drive.drop_begun(*self.drive.begun)
        await lose_started(self.drive, "it was cancelled while it ran")


_Perform = Callable[[Any, str], Awaitable[None]]


def _of_call(perform: _Perform, at_provider: _Perform | None = None, by_caller: _Perform | None = None) -> _Perform:
    """Perform an effect on a call, elsewhere where it runs there; what is raised carries none of its secrets on."""

    async def performed(drive: Any, call_id: str) -> None:
        call = drive.log.run.calls[call_id]
        try:
            if at_provider and call.proposal.by_provider:
                await at_provider(drive, call_id)
            elif by_caller and call.proposal.claimed:
                await by_caller(drive, call_id)
            else:
                await perform(drive, call_id)
        except Exception as error:
            keep_words(call, error)
            raise

    return performed


#: What performs each effect.
PERFORM: dict[str, _Perform] = {
    "guard": guard,
    "tripped": tripped,
    "model": ask_model,
    "exhausted": exhausted,
    "limited": limited,
    "screen": _of_call(screen),
    "run": _of_call(run_tool, run_at_provider, claim_call),
    "settle": _of_call(settle),
    "judge": judge,
    "return": return_owed,
}
