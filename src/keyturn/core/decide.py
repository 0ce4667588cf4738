"""Decide a command: validate it against a run and yield events, or refuse.

Each event is folded before the next one is decided, so a handler sees what it has just done. A handler
validates before its first event: a refusal leaves the run as it was. An event shares no value with its command, so that
whoever gave the command cannot change what was recorded. Nothing here waits, reads a clock
or draws a random number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from . import commands as cm
from . import drills, queueing, quota
from . import events as ev
from .aside import check_not_aside
from .crossing import fork, restored
from .digest import canonical
from .effects import comes_next, sent_along
from .errors import Conflict, UserError
from .evolve import evolve
from .gate.claiming import HoldCall, check_holder, check_start, hold
from .gate.deciding import bound_as_decided
from .gate.delivery import deliver, on_run_time
from .gate.expiry import stale, tick
from .gate.grants import by_grant, grant_for
from .gate.lending import borrow, lend, revoke
from .gate.marks import look, mark, withdraw
from .gate.opening import Events, Still, call_in, check_still, go_on, open_run, said_once
from .gate.reviews import give_review
from .gate.verdicts import mark_in_doubt, screen, screened, unknown
from .items import own_copy
from .moves import asked_on
from .policy import Verdict
from .records import WANTS
from .reply import check_proposal, check_usage, keyed, record_reply, refuse_reply
from .run import Frame, Run, undo_until, unknown_below
from .states import MOVES, OVER, READY


def step(run: Run, command: cm.RunCommand, now: int) -> list[ev.AnyEvent]:
    """Decide a command at a time, fold its events into the run, and return them."""
    if run.status == "new" and type(command) not in (cm.Start, cm.Queue):
        raise Conflict("this run has not started")
    decides = _DECIDE[type(command)] if run.drill is None else drills.decider(run, command, _DECIDE[type(command)])
    before = run.now
    if now > before:
        run.now = now
    events: list[ev.AnyEvent] = []
    try:
        if type(command) is cm.Deliver:
            command = on_run_time(run, command, now)
        for event in decides(run, command):
            evolve(run, event)
            events.append(event)
    finally:
        if not events:
            run.now = before  # the time of a run is the time of its log
    return events


def _start(run: Run, c: cm.Start) -> Events:
    if run.status != "new":
        raise Conflict("this run has already started", winner=run.id)
    yield ev.RunStarted(c.run, c.salt, own_copy(c.input), own_copy(c.about), c.requester, c.drill)
    yield ev.FrameOpened(
        ev.ROOT, c.agent, own_copy(c.items), c.max_turns, c.guarded, c.prefix, 0, c.response_id, c.barrier
    )


def _open_frame(run: Run, c: cm.OpenFrame) -> Events:
    open_run(run)
    call = call_in(run, c.call, "started")
    _no_frame(run, call.id)
    yield ev.FrameOpened(call.id, c.agent, own_copy(c.items), c.max_turns, c.guarded, c.prefix, 0, c.response_id)


def _resume(run: Run, c: cm.Resume) -> Events:
    if said_once(run, c.once, ["resume", c.max_turns, c.unlimited]):
        return
    open_run(run)
    if c.decider is None:
        check_not_aside(run)
    limits = c.limits if c.limits != run.limits else None
    about = {name: own_copy(said) for name, said in c.about.items() if name not in run.about or run.about[name] != said}
    if c.max_turns is not None or c.unlimited or limits is not None or about or run.status == "failed":
        yield ev.RunResumed(c.max_turns, c.unlimited, limits, about, c.decider, c.once)


def _save_context(run: Run, c: cm.SaveContext) -> Events:
    if c.context != run.context:
        yield ev.ContextSaved(own_copy(c.context))


def _add_input(run: Run, c: cm.AddInput) -> Events:
    if said_once(run, c.once, c.items):
        return
    open_run(run)
    if run.queued:
        raise Conflict(
            "this run is queued on its session; start another run with the message, which is queued behind it"
        )
    _frame(run, c.frame)
    yield ev.InputAdded(c.frame, own_copy(c.items), c.once)
    if run.restored is None:  # what was restored goes on by a decision on what it did, or a resume
        yield from go_on(run)


def _frame(run: Run, frame_id: str) -> Frame:
    frame = run.frames.get(frame_id)
    if frame is None:
        raise Conflict("this requires a running agent; its frame is closed or was never opened")
    return frame


def _no_frame(run: Run, call_id: str) -> None:
    if call_id in run.frames:
        raise Conflict("a nested agent answers this call; its result is available when that agent ends")


def _start_call(run: Run, c: cm.StartCall) -> Events:
    open_run(run)
    if run.status == "failed":
        raise Conflict("this run failed; nothing starts until it is resumed")
    call = call_in(run, c.call, *READY)
    frame = run.frames[call.frame]
    if call.decision is not None and run.now < (undo_until(call) or 0):
        raise Conflict("the approval can be withdrawn for a moment still, and the call starts after that")
    if call.recheck:
        raise Conflict("the policy has not been evaluated for this decision yet")
    if stale(run, call):
        raise Conflict("the approval was not executed in time and has expired; the call requires approval again")
    if frame.guarding or frame.tripped is not None:
        raise Conflict("the input guardrails of this agent have not passed, so its tools cannot run")
    check_start(call, c)
    if not call.proposal.claimed and not comes_next(run, call) and call not in sent_along(run, frame):
        raise Conflict("this call runs after its siblings, and not all of them are settled")
    if c.tool != call.proposal.tool:
        raise Conflict("the tool is not the one that was shown")
    if not bound_as_decided(run, call):
        raise Conflict("what was approved is not what would run; nothing ran, review the call again")
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    yield ev.CallStarted(c.call, c.by, c.until)


def _void_call(run: Run, c: cm.VoidCall) -> Events:
    open_run(run)
    shown = call_in(run, c.call, "asked", *READY)
    if c.proposal.label != shown.proposal.label:
        raise UserError("a call is proposed anew under the label that its model gave it")
    check_proposal(c.proposal, shown.raw)
    if shown.acted:
        canonical(None if c.preview is None else c.preview.basis)
        yield from mark_in_doubt(shown, c.why, c.preview)
        if c.terms is not None and c.terms != shown.terms:
            yield ev.CallAskedAgain(c.call, "terms", run.now, c.terms)
        return
    [made] = keyed(run, [c.proposal])
    yield ev.CallVoided(c.call, made, c.why, c.tools)
    call = run.calls.get(c.call)
    if call is not None and call.state == "proposed" and call.proposal.gate in ("ask", "allow"):
        yield from screened(run, call, Verdict("ask", terms=call.proposal.terms, by="tool"))


def _need_input(run: Run, c: cm.NeedInput) -> Events:
    call = call_in(run, c.call, "started")
    _no_frame(run, c.call)
    if run.status in OVER:  # nobody will answer any more, and what it did so far nobody knows
        yield ev.CallLost(c.call, "it asked for an answer when its run was over")
        return
    canonical([c.requests, c.state, None if c.preview is None else c.preview.basis])  # an answer will be bound to them
    if c.wants not in WANTS:
        raise UserError(f"a call wants {', '.join(WANTS)}, not {c.wants!r}")
    # Once: what was approved and asks all the same, asks a person.
    standing = c.wants == "approval" and call.approval is None
    grant = grant_for(run, call, asked_on(call)) if standing else None
    yield ev.CallNeeds(call.id, own_copy(c.requests), own_copy(c.state), c.preview, run.now, c.wants)
    if grant is not None:
        yield from by_grant(run, call, grant)


def _finish_call(run: Run, c: cm.FinishCall) -> Events:
    call = run.calls.get(c.call)
    if call is None or ((call.state, "finish") not in MOVES and not (c.failed and call.state in READY)):
        raise Conflict("this call already has its result, or is not at its result yet")
    if call.state != "started":
        open_run(run)  # what did run is recorded even when the run is over
    _no_frame(run, c.call)
    check_holder(call, c.by)
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    if call.state in READY and unknown(call):
        yield from mark_in_doubt(call, "it was not started again")
        return
    yield ev.CallFinished(c.call, own_copy(c.item), own_copy(c.value), c.failed)


def _lose_call(run: Run, c: cm.LoseCall) -> Events:
    call = call_in(run, c.call, "started")
    check_holder(call, c.by)
    if call.id not in run.frames:
        unsent = c.unsent and call.proposal.by_provider
        yield ev.CallLost(c.call, c.why, again=unsent or (c.again and call.proposal.recover == "retry"))


def _hand_off(run: Run, c: cm.HandOff) -> Events:
    open_run(run)
    call = call_in(run, c.call, "started")
    _no_frame(run, c.call)
    frame = run.frames[call.frame]
    view = own_copy(c.view)
    if call.agent != frame.agent:
        raise Conflict(f"agent {call.agent!r} handed over already, and cannot do so twice")
    if frame.barrier and frame.open != 1:
        raise Conflict("a frame is handed over when all other calls of the reply are settled")
    late = len(frame.queued)
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    yield ev.CallFinished(c.call, own_copy(c.item))
    if view is not None and late:  # nobody who made the view has seen what was added meanwhile
        view = [*view, [len(frame.items) - late, len(frame.items)]]
    yield ev.HandedOff(call.frame, c.agent, view)


def _switch_agent(run: Run, c: cm.SwitchAgent) -> Events:
    open_run(run)
    frame = _frame(run, c.frame)
    if frame.barrier:
        raise Conflict("an agent whose model waits for its calls hands over by a call")
    if frame.agent != c.agent:
        yield ev.HandedOff(c.frame, c.agent)


def _compact_history(run: Run, c: cm.CompactHistory) -> Events:
    open_run(run)
    frame = _frame(run, c.frame)
    check_usage(c.usage)
    if frame.phase != "model" or frame.open or len(frame.items) < c.seen:
        raise Conflict("a conversation is compacted when its model is to be asked next, and this one went on meanwhile")
    kept = [part for part in c.view if isinstance(part, list)]
    ends = [0, *(place for part in kept for place in part), c.seen]
    if any(len(part) != 2 for part in kept) or ends != sorted(ends):
        raise UserError("a compacted conversation keeps ranges of the old one, in their order")
    late = [[c.seen, len(frame.items)]] if len(frame.items) > c.seen else []  # nobody who made the view has seen it
    yield ev.HistoryCompacted(c.frame, [*own_copy(c.view), *late], c.usage, c.model)


def _guard_frame(run: Run, c: cm.GuardFrame) -> Events:
    frame = run.frames.get(c.frame)
    if frame is not None and frame.guarding and run.status not in OVER:
        if c.seen != len(frame.unseen):
            raise Conflict("a message was added meanwhile; the input guardrails look at it as well")
        yield ev.GuardrailReported(c.frame, c.reports)


def _judge_frame(run: Run, c: cm.JudgeFrame) -> Events:
    open_run(run)
    frame = run.frames.get(c.frame)
    if frame is None or frame.phase != "judge" or frame.guarding or frame.tripped is not None:
        raise Conflict("this frame is not waiting for a judgement")
    if c.final and (c.item is None) != (c.frame == ev.ROOT):
        raise UserError("a nested agent's answer is an item for the call that it answers; the root's is none")
    if c.reports:
        yield ev.GuardrailReported(c.frame, c.reports)
        if frame.tripped is not None:
            return
    if not c.final or frame.unread:  # an answer that passes over a message is not the last word
        yield ev.ToolsJudged(c.frame)
        return
    yield ev.FrameClosed(c.frame, own_copy(c.output))
    if c.item is not None:
        if c.judged:  # its frame is closed: they are of its result
            yield ev.GuardrailReported(c.frame, c.judged)
        value = own_copy(c.output) if not isinstance(c.output, str) else None
        yield ev.CallFinished(c.frame, own_copy(c.item), value)


def _close_frame(run: Run, c: cm.CloseFrame) -> Events:
    open_run(run)
    if c.frame in run.frames and c.frame != ev.ROOT:
        unknown = unknown_below(run, c.frame)
        if unknown:  # dropped with its frame, what it did would never be known, and nobody would be asked
            raise Conflict(
                f"a nested agent cannot be closed: {len(unknown)} of its calls have an unknown outcome; record their "
                f"results, or resolve them, first"
            )
        yield ev.FrameClosed(c.frame, error=c.error)
        if c.judged:
            yield ev.GuardrailReported(c.frame, c.judged)
        yield ev.CallFinished(c.frame, own_copy(c.item), failed=True)


def _close_run(run: Run, c: cm.CloseRun) -> Events:
    open_run(run)
    root = _frame(run, ev.ROOT)
    if root.phase not in ("model", "judge") or root.guarding or root.tripped is not None:
        raise Conflict("a run can be given an answer only where its model would be asked or has answered")
    if root.open:  # dropped with the run, what they came to would never be known
        raise Conflict(f"{root.open} calls of this run have no result yet; settle them first, or cancel the run")
    if c.reports:
        yield ev.GuardrailReported(ev.ROOT, c.reports)
        if root.tripped is not None:
            return
    if c.items:
        yield ev.InputAdded(ev.ROOT, own_copy(c.items))
    yield ev.FrameClosed(ev.ROOT, own_copy(c.output))


def _wrote_session(run: Run, c: cm.WroteSession) -> Events:
    frame = _frame(run, c.frame)
    if c.prefix is not None and frame.prefix is not None:
        raise Conflict("this agent's conversation has a session already")
    if frame.written != c.count or c.prefix is not None:
        yield ev.SessionWritten(c.frame, c.count, c.prefix)


def _fail(run: Run, c: cm.Fail) -> Events:
    if run.status == "running" or (c.lost and run.status == "failed" and not run.lost):
        yield ev.RunFailed(c.error, c.traceback, c.lost)


def _cancel(run: Run, c: cm.Cancel) -> Events:
    open_run(run)
    yield ev.RunCancelled(c.decider, c.why)


_DECIDE: dict[type[cm.RunCommand], Callable[[Run, Any], Events]] = cast(
    "dict[type[cm.RunCommand], Callable[[Run, Any], Events]]",
    {
        cm.Start: _start,
        cm.Queue: queueing.queue,
        cm.Begin: queueing.begin,
        cm.OpenFrame: _open_frame,
        cm.Resume: _resume,
        cm.SaveContext: _save_context,
        cm.AddInput: _add_input,
        cm.RecordReply: record_reply,
        cm.RefuseReply: refuse_reply,
        Still: check_still,
        cm.Screen: screen,
        cm.Deliver: deliver,
        cm.MarkCall: mark,
        cm.RecordLook: look,
        cm.GiveReview: give_review,
        cm.Withdraw: withdraw,
        cm.Revoke: revoke,
        cm.LendGrant: lend,
        cm.BorrowGrant: borrow,
        cm.TakeQuota: quota.take,
        cm.ReturnQuota: quota.give_back,
        cm.CloseQuota: quota.close,
        cm.StartCall: _start_call,
        HoldCall: hold,
        cm.VoidCall: _void_call,
        cm.NeedInput: _need_input,
        cm.FinishCall: _finish_call,
        cm.LoseCall: _lose_call,
        cm.HandOff: _hand_off,
        cm.SwitchAgent: _switch_agent,
        cm.CompactHistory: _compact_history,
        cm.GuardFrame: _guard_frame,
        cm.JudgeFrame: _judge_frame,
        cm.CloseFrame: _close_frame,
        cm.CloseRun: _close_run,
        cm.WroteSession: _wrote_session,
        cm.Fail: _fail,
        cm.Cancel: _cancel,
        cm.RecordRestore: restored,
        cm.Fork: fork,
        cm.Tick: tick,
    },
)
