"""Run one call of `Runner.run`, streamed or not: start or resume, advance, save the session, build the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from ..core import commands as cm
from ..core import events as ev
from ..core.effects import pending
from ..core.errors import (
    Conflict,
    Expired,
    MaxTurnsExceeded,
    StateRejected,
    StorageError,
    ToolMissing,
    ToolSourceDown,
    UserError,
)
from ..core.gate.opening import open_run
from ..core.items import input_items, own_copy
from ..core.run import Call, Frame, Run
from ..core.states import READY, TO_SETTLE
from ..journal.base import Claim, Journal
from ..support.forwarding import forwarded
from ..support.user_code import contained
from .driving.drive import Drive
from .driving.lease import TTL_MS, as_it_is, is_with_others, to_the_end, under_lease
from .driving.stop import NO_MORE_ROUNDS, WITH_OTHERS
from .driving.taking import claim_for, stays_failed
from .effects.fused_steps import deliver
from .effects.quotas import return_all
from .effects.recover import recover
from .facts.proposals import check_terms
from .logger import error_words, failure_trace, failure_words, logger
from .loop import Loop
from .result import RunResult
from .run.frame_settings import FrameSettings
from .run.log_cache import log_in
from .run.new_ids import new_id
from .run.open_run import Attachments, OpenRun, journal_clock
from .session.sync import Superseded, reopen, save_session
from .session.turn import check_turn, end_superseded
from .starting import QUEUE, begin, start
from .states.context_data import is_kept, keep_context
from .states.resumable import check_resumable
from .states.state import RunState
from .states.undelivered import refused
from .tracing.spans import tracing
from .views.decisions_by_label import DecisionsByLabel
from .views.event_stream import AgentUpdatedStreamEvent, ApprovalRequestedStreamEvent, EventFeed, Sink
from .views.projection import requests_of


class TurnLimit(NamedTuple):
    """Holds a limit of turns that a caller set; None is no limit."""

    most: int | None


class Execution:
    """Executes one run for one caller; the lease of a run in a journal lasts `lease_ms` and is renewed meanwhile.

    Each layer calls the next: `finish` takes the saved state for this caller alone and traces the run, `_under_lease`
    holds the run where a journal keeps it, `_recording_failure` records what stops it, `_start_or_resume` records the
    start or delivers decisions and makes the result, `_until_idle` runs the loop until nothing is pending.
    """

    lease_ms: int = TTL_MS
    run: Run = forwarded("live.log.run")

    def __init__(self, live: OpenRun, scope: FrameSettings, state: RunState[Any], max_turns: TurnLimit | None) -> None:
        self.live = live
        self.scope = scope
        self.state = state
        self.max_turns = max_turns
        given = scope.config.usage_limits
        self.limits = None if given is None else given.record()
        self.drive = Drive(live, scope, self.result)
        self.drive.context_kept = partial(is_kept, live)
        self.said = state.undelivered.taken()
        live.context.known = DecisionsByLabel(live, ev.ROOT)
        self.claim: Claim | None = None
        # What was attached to the run before this resume: a resume that is refused leaves no trace.
        self.before: Attachments | None = None
        self._given = live.attached
        # Who moved the run before, and may be about to stop.
        self._hand_over = live.hand_over
        self._sink: Sink | None = None
        self._tools: dict[str, Any] = {}
        self._at_work = False
        # The runs that come before this one on its session.
        self._before: list[str] = []

    def listen(self, sink: Sink, unread: Callable[[], int]) -> None:
        """Send the root's events to a sink; `unread` counts those that whoever reads along has not dealt with."""
        feed = self.drive.feeds[ev.ROOT] = EventFeed(self.live, ev.ROOT, sink, unread)
        feed.catch_up(self.live.log.steps)
        root = self.run.frames.get(ev.ROOT)
        if root is not None and not root.fresh:  # a fresh one is announced when it is asked
            sink(AgentUpdatedStreamEvent(self.live.graph.agent(root.agent)))
        self._sink = sink

    def result(self, frame: str = ev.ROOT, value: Any = None) -> RunResult:
        """Return what the run, or a nested frame of it, came to so far."""
        return RunResult(self.live, self._tools, frame=frame, value=value, before=self._before)

    async def begin(self) -> str:
        """Record that the run starts, leave the rest to a worker, and return its id.

        That is one line, and nobody can hold a run that is not there yet. A session is told under a claim.
        """
        told = self.scope.session is not None and self.scope.config.paused_session != QUEUE
        if told or self.live.journal is None:
            self.drive.leave()
            return (await self.finish()).run_id
        with contained, tracing(self.live, self.drive.known_scope) as self.drive.traces:
            self._check_terms(inbox=True)
            self.live.clock = await journal_clock(self.live.journal)
            await self._start()
        return self.run.id

    async def finish(self) -> RunResult:
        """Drive the run until it is finished or only people can move it; no other may use its state meanwhile."""
        with contained:
            run_id = self.state.run_id
            if self._hand_over is not None and (ended := await self._hand_over()) is not None:
                self.state.moved(ended)
            used = self.live.used if self.claim is None and not self.live.named else None  # else the journal guards it
            try:
                if used is not None:
                    used.take(run_id, self.state.position)
            except Conflict:
                self._refused()
                raise
            try:
                await return_all(self.drive)
                if self.run.status == "finished":
                    return self.result()
                with tracing(self.live, self.drive.known_scope) as self.drive.traces:
                    return await self._under_lease()
            finally:
                self.drive.drop_begun(*self.drive.begun)
                self._refused()
                if used is not None:
                    over = self.run.status == "finished" and not self.live.handed_out
                    used.give_back(run_id, None if over else len(self.live.log))

    def _refused(self) -> None:
        """Take back what this resume attached, where nothing was done on it."""
        if self.before is not None and not self._at_work and self.run.status != "finished":
            self.live.detach(self._given, self.before)

    async def _under_lease(self) -> RunResult:
        """Move the run, under a lease where a journal keeps it."""
        journal = self.live.journal
        try:
            if journal is None:
                return await self._recording_failure()
            self.run.id = self.run.id or new_id()
            if self.run.status != "new" and not self.live.kept:
                await self._attach(journal)
            claim = self.claim or await claim_for(self.drive, journal, self.lease_ms, self.said.decisions)
            async with under_lease(self.drive, journal, claim, self.lease_ms):
                return await self._recording_failure()
        finally:
            self.state.moved(len(self.live.log))

    async def _attach(self, journal: Journal) -> None:
        """Go on with the run as its journal has it; a saved text counts only where the journal says the same."""
        mine = self.live.log
        log = await log_in(journal, self.run.id)
        if not log.steps:
            raise UserError(
                f"this journal does not have run {self.run.id!r}, which was not begun in it; resume the state without "
                "journal=, or with the journal that keeps the run"
            )
        if log.steps[: len(mine)] != mine.steps:
            raise StateRejected(
                "the journal has another history of this run than this state; nothing ran. If the journal was "
                "restored from a backup, run `keyturn restored`"
            )
        self.live.log = self.drive.log = log
        self.live.kept = True
        self.drive.publish(log.steps[len(mine) :])

    def _check_terms(self, *, inbox: bool) -> None:
        self.scope.witness = self.live.witness is not None
        check_terms(self.live, self.scope, inbox=inbox)

    async def _recording_failure(self) -> RunResult:
        """Move the run; record what stops it before the lease is released, since only the holder may."""
        try:
            with contained:
                return await self._start_or_resume()
        except BaseException as error:
            await to_the_end(self.drive, self._stopped(error))
            raise

    async def _start_or_resume(self) -> RunResult:
        """Record the start or the resume, move the run until it is idle, and return the result so far."""
        if self.drive.patient and await stays_failed(self.drive):
            return self.result()
        self._check_terms(inbox=self.scope.inbox)
        if self.run.status == "new":
            await self._start()
        else:
            self.scope.context.turn_input = own_copy(input_items(self.run.input))
            await as_it_is(self.drive, self._take_up)
            await check_turn(self.drive)
        self._at_work = True
        if self.run.queued:
            self._before = await begin(self.drive)
        self.scope.context.turn_input = own_copy(input_items(self.run.input))
        await self._until_idle()
        self.live.copies.forget()
        for feed in list(self.drive.feeds.values()):
            await feed.drained()
        await self._look_up_tools()
        result = self.result()
        if self._sink is not None:
            for item in requests_of(self.run, self.live.graph, self._tools):  # a listener may edit what it hears
                self._sink(ApprovalRequestedStreamEvent(item))
        self.state.settled(result)
        return result

    async def _look_up_tools(self) -> None:
        """Find the tools of the waiting calls, to check edits with; one that is gone has none."""
        waiting = self.run.groups["wait"].values()
        self._tools = {call.id: await self.drive.shown_tool(call) for call in waiting}

    async def _until_idle(self) -> None:
        """Move the run as far as it goes, including what others decide while its session is written."""
        drive, more = self.drive, True
        while more:
            await Loop(drive).advance()
            if self.run.status == "cancelled":
                open_run(self.run)
            await self._tell_sessions()
            await keep_context(drive)
            more = drive.claim is not None and bool(pending(self.run, first=True)) and not drive.stops & NO_MORE_ROUNDS

    async def _tell_sessions(self, *, stopped: bool = False) -> None:
        for frame in list(self.run.frames.values()):
            await save_session(self.drive, frame.id, stopped=stopped)

    async def _stopped(self, error: BaseException) -> None:
        """Record that the run stopped, write the sessions, and attach the result so far to the error.

        What was refused before anything was done leaves no trace: the state it came from is as good as before.
        """
        left = isinstance(error, StorageError) or "taken_over" in self.drive.stops  # neither fails a run
        if self.drive.patient and isinstance(error, ToolSourceDown):  # nor a server: its calls wait for it
            self.drive.stops.add("source_down")
            left = True
        elif self.drive.patient and not (self._at_work or isinstance(error, Conflict | StorageError)):
            self.drive.stops.add("not_here")
        if isinstance(error, asyncio.CancelledError):  # nor does a worker that ends, or who is late
            left = left or "leaving" in self.drive.stops or (self.drive.hold is not None and self.drive.claim is None)
        if self._at_work and self.run.status == "running" and not left:
            try:
                if not await is_with_others(self.drive, error):
                    await self.drive.commit(cm.Fail(failure_words(error), failure_trace(error)))
            except Exception as other:  # what stopped the run is raised, not what followed from it
                logger.warning(
                    "the failure of run %s is not recorded, the next worker continues the run: %s",
                    self.run.id,
                    error_words(other),
                )
        if isinstance(error, Superseded) and self.drive.claim is not None:
            await end_superseded(self.drive, return_all)
        if self._at_work and not self._others(error):
            try:
                await self._tell_sessions(stopped=True)
            except Exception as other:  # the session may be what failed
                logger.warning(
                    "the session of run %s lacks its last items until it is resumed: %s",
                    self.run.id,
                    error_words(other),
                )
        try:
            await self._look_up_tools()
        except Exception as other:  # their arguments are not checked then, where a person edits them
            logger.debug("tools of run %s are not found after %s", self.run.id, error_words(other))
        try:
            error.run_data = self.result()  # type: ignore[attr-defined]  # every error tells how far the run came
            self.state.settled(self.result())
        except Exception as other:  # an exception that takes no attributes, or a run that is not there yet
            logger.debug("%s goes without run_data: %s", type(error).__name__, error_words(other))

    def _others(self, error: BaseException) -> bool:
        """Return whether others write the session: a process that may hold the run, or a write that was cut off."""
        doubtful = self.drive.claim is not None and isinstance(error, Conflict | StorageError)
        return bool(self.drive.stops & WITH_OTHERS) or (doubtful and self.run.status != "cancelled")

    async def _start(self) -> None:
        given = self.said.start
        assert given is not None
        limit = given["max_turns"] if self.max_turns is None else self.max_turns.most
        await start(self.drive, {**given, "max_turns": limit}, self.said.input, self.limits)
        self.live.kept = self.live.journal is not None
        self.state.delivered(len(self.live.log), self.said)

    async def _take_up(self) -> None:
        said = self.said
        drive = self.drive
        check_resumable(self.live, self.scope, said)
        for frame in self.run.frames.values():
            drive.agent(frame.agent)
        await self._let_time_pass()
        await self._check_reachable()
        resume: list[cm.RunCommand] = [self._resume()]
        for frame in list(self.run.frames.values()):
            resume += await reopen(drive, frame, await drive.enter(frame.id))
        await recover(drive, said.decisions)
        if (said.empty and self.max_turns is None) or self.run.queued:
            await drive.commit(*resume, cm.Tick())
            return
        self._check_limits()
        try:
            await deliver(drive, [*said.decisions.values()], *resume, *said.commands(), cm.Tick())
        except (Conflict, Expired, UserError):  # refused once: the next resume goes on with what still counts
            late = await refused(self.run, said, drive.clock())
            if not late.empty:
                self.state.forget(late)
                await drive.commit(cm.Tick())
            raise
        self.state.delivered(len(self.live.log), self.said)
        self.live.context.decisions.clear()

    def _resume(self) -> cm.Resume:
        """Return the command to resume the run under the limits and settings that its caller gives now."""
        policy, most = self.scope.config.reasoning_item_id_policy, self.max_turns
        about = {} if policy is None else {"reasoning_item_id_policy": policy}
        if most is None:
            return cm.Resume(limits=self.limits, about=about)
        return cm.Resume(most.most, most.most is None, self.limits, about)

    async def _let_time_pass(self) -> None:
        """Record what expired, before anything else, since that needs no tool and no policy.

        A word that came too late is refused here, once: by what the clock says it would be one on another asking.
        """
        now = self.live.clock()
        decided = [call for call in map(self.run.calls.get, self.said.decisions) if call is not None]
        asked = [call for call in decided if call.state == "asked"]
        late = [call for call in asked if call.expires_at is not None and now > call.expires_at]
        if late:
            self.state.forget(await refused(self.run, self.said, self.drive.clock()))
        await self.drive.commit(cm.Tick())
        if late:
            raise Expired(f"this request has expired; {late[0].proposal.name!r} was not executed")

    async def _check_reachable(self) -> None:
        """Check that every tool that an open call needs is there, before anything is done."""
        for call in list(self.run.calls.values()):
            needs = call.state in READY or call.state in ("asked", "needs", "proposed")
            if needs and call.state not in TO_SETTLE and not await self._reaches(call):
                if call.state != "needs" and self._rejects(call.id):
                    continue
                raise ToolMissing(call.proposal.name, agent=call.agent)

    async def _reaches(self, call: Call) -> bool:
        """Return whether the tool of a call is there, or waits for its server, while others of the run go on."""
        try:
            return await self.drive.find_tool(call) is not None
        except ToolSourceDown:
            if not self.drive.patient:
                raise
            return True

    def _rejects(self, call_id: str) -> bool:
        decision = self.said.decisions.get(call_id)
        return decision is not None and decision.verdict in ("reject", "answer")

    def _may_end(self, frame: Frame) -> bool:
        """Return whether a turn's results may be the final answer, as far as that is known before."""
        behavior: Any = self.drive.agent(frame.agent).tool_use_behavior
        if not frame.judged or not isinstance(behavior, dict):
            return frame.judged
        names = cast("list[str]", behavior["stop_at_tool_names"])
        return any(self.run.calls[call].proposal.name in names for call in frame.calls)

    def _check_limits(self) -> None:
        """Raise for spent turns or usage before an approved tool runs, where a model call would follow."""
        frame, handlers = self.run.frames[ev.ROOT], self.scope.error_handlers or {}
        if frame.phase != "calls" or self._may_end(frame):
            return
        over = self.drive.meter.spent(self.scope.config.usage_limits)
        if over is not None and "usage_limit" not in handlers:
            raise over
        limit = frame.max_turns if self.max_turns is None else self.max_turns.most
        if limit is not None and frame.turn >= limit and "max_turns" not in handlers:
            raise MaxTurnsExceeded(
                f"the run has spent its {limit} turns and would ask the model again; no tool ran and no decision was "
                "used: resume it with a higher max_turns"
            )
