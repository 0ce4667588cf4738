"""What a command does to a run: `decide` validates it and yields events, or refuses.

Each event is folded before the next one is decided, so a handler sees what it has just done. A handler
validates before its first event: a refusal leaves the run as it was. Nothing here waits, reads a clock
or draws a random number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from . import commands as cm
from . import events as ev
from .errors import Conflict, ModelBehaviorError, NotPending
from .evolve import evolve
from .gate import Events, call_in, deliver, open_run, screen, screened, tick
from .policy import Verdict
from .run import Run
from .states import MOVES, READY


def step(run: Run, command: cm.Command, now: int) -> list[ev.AnyEvent]:
    """Decide a command at a time, fold its events into the run, and return them."""
    run.now = max(run.now, now)
    events: list[ev.AnyEvent] = []
    for event in _DECIDE[type(command)](run, command):
        evolve(run, event)
        events.append(event)
    return events


def _start(run: Run, c: cm.Start) -> Events:
    if run.status != "new":
        raise Conflict("this run has already started", winner=run.id)
    yield ev.RunStarted(c.run, c.salt, c.input, c.about)
    yield ev.FrameOpened(ev.ROOT, c.agent, c.items, c.max_turns, c.guarded, c.prefix, 0, c.response_id)


def _open_frame(run: Run, c: cm.OpenFrame) -> Events:
    call = call_in(run, c.call, "started")
    yield ev.FrameOpened(call.id, c.agent, c.items, c.max_turns, c.guarded, c.prefix, 0, c.response_id)


def _resume(run: Run, c: cm.Resume) -> Events:
    open_run(run)
    if c.max_turns is not None or run.status == "failed":
        yield ev.RunResumed(c.max_turns)


def _save_context(run: Run, c: cm.SaveContext) -> Events:
    if c.context != run.context:
        yield ev.ContextSaved(c.context)


def _add_input(run: Run, c: cm.AddInput) -> Events:
    open_run(run)
    yield ev.InputAdded(c.frame, c.items)


def _record_reply(run: Run, c: cm.RecordReply) -> Events:
    frame = run.frames.get(c.frame)
    if frame is None or frame.phase != "model" or run.status in ("finished", "cancelled"):
        raise Conflict("this reply answers a question that is no longer asked")
    labels = [proposal.label for proposal in c.proposals]
    if len(set(labels)) != len(labels) or not all(labels):
        raise ModelBehaviorError("the model's reply has calls without an id of their own")
    yield ev.ReplyRecorded(c.frame, c.output, c.proposals, c.usage, c.response_id, c.request_id, c.tools, c.judged)
    for call_id in list(frame.calls):
        call = run.calls.get(call_id)
        if call is not None and call.state == "proposed" and call.proposal.gate == "ask":
            yield from screened(run, call, Verdict("ask", terms=call.proposal.terms, by="tool"))


def _revoke(run: Run, c: cm.Revoke) -> Events:
    if c.grant not in run.grants:
        raise NotPending("this run has no such grant; it was revoked already or was never given")
    yield ev.GrantRevoked(c.grant, c.by)


def _start_call(run: Run, c: cm.StartCall) -> Events:
    call = call_in(run, c.call, *READY)
    if call.recheck:
        raise Conflict("the policy has not been asked about this decision yet")
    if c.tool != call.proposal.tool:
        raise Conflict("the tool is not the one that was shown")
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    yield ev.CallStarted(c.call)


def _void_call(run: Run, c: cm.VoidCall) -> Events:
    call_in(run, c.call, "asked", *READY)
    yield ev.CallVoided(c.call, c.proposal, c.why, c.tools)
    call = run.calls.get(c.call)
    if call is not None and call.state == "proposed" and call.proposal.gate in ("ask", "allow"):
        yield from screened(run, call, Verdict("ask", terms=call.proposal.terms, by="tool"))


def _finish_call(run: Run, c: cm.FinishCall) -> Events:
    call = run.calls.get(c.call)
    if call is None or ((call.state, "finish") not in MOVES and not (c.failed and call.state in READY)):
        raise Conflict("this call already has its result")
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    yield ev.CallFinished(c.call, c.item, c.value, c.failed)


def _lose_call(run: Run, c: cm.LoseCall) -> Events:
    call = call_in(run, c.call, "started")
    if call.id not in run.frames:
        yield ev.CallLost(c.call, c.why, again=call.proposal.recover == "retry")


def _hand_off(run: Run, c: cm.HandOff) -> Events:
    call = call_in(run, c.call, "started")
    yield ev.CallFinished(c.call, c.item)
    yield ev.HandedOff(call.frame, c.agent, c.view)


def _guard_frame(run: Run, c: cm.GuardFrame) -> Events:
    if c.frame in run.frames:
        yield ev.GuardrailReported(c.frame, c.reports)


def _judge_frame(run: Run, c: cm.JudgeFrame) -> Events:
    frame = run.frames.get(c.frame)
    if frame is None or frame.phase != "judge":
        raise Conflict("this frame waits for no judgement")
    if c.reports:
        yield ev.GuardrailReported(c.frame, c.reports)
        if frame.tripped is not None:
            return
    if not c.final:
        yield ev.ToolsJudged(c.frame, final=False)
        return
    yield ev.FrameClosed(c.frame, c.output)
    if c.item is not None:
        yield ev.CallFinished(c.frame, c.item, c.output if not isinstance(c.output, str) else None)


def _close_frame(run: Run, c: cm.CloseFrame) -> Events:
    if c.frame in run.frames and c.frame != ev.ROOT:
        yield ev.FrameClosed(c.frame, error=c.error)
        yield ev.CallFinished(c.frame, c.item, failed=True)


def _close_run(run: Run, c: cm.CloseRun) -> Events:
    open_run(run)
    if run.frames[ev.ROOT].phase != "model":
        raise Conflict("a run can be given an answer only where its model would be asked")
    if c.items:
        yield ev.InputAdded(ev.ROOT, c.items)
    yield ev.FrameClosed(ev.ROOT, c.output)


def _wrote_session(run: Run, c: cm.WroteSession) -> Events:
    if run.frames[c.frame].written != c.count:
        yield ev.SessionWritten(c.frame, c.count)


def _fail(run: Run, c: cm.Fail) -> Events:
    if run.status == "running":
        yield ev.RunFailed(c.error)


def _cancel(run: Run, c: cm.Cancel) -> Events:
    open_run(run)
    yield ev.RunCancelled(c.by, c.why)


_DECIDE: dict[type[cm.Command], Callable[[Run, Any], Events]] = cast(
    "dict[type[cm.Command], Callable[[Run, Any], Events]]",
    {
        cm.Start: _start,
        cm.OpenFrame: _open_frame,
        cm.Resume: _resume,
        cm.SaveContext: _save_context,
        cm.AddInput: _add_input,
        cm.RecordReply: _record_reply,
        cm.Screen: screen,
        cm.Deliver: deliver,
        cm.Revoke: _revoke,
        cm.StartCall: _start_call,
        cm.VoidCall: _void_call,
        cm.FinishCall: _finish_call,
        cm.LoseCall: _lose_call,
        cm.HandOff: _hand_off,
        cm.GuardFrame: _guard_frame,
        cm.JudgeFrame: _judge_frame,
        cm.CloseFrame: _close_frame,
        cm.CloseRun: _close_run,
        cm.WroteSession: _wrote_session,
        cm.Fail: _fail,
        cm.Cancel: _cancel,
        cm.Tick: tick,
    },
)
