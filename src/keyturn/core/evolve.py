"""Fold events into a run, one at a time.

`evolve` never fails on a log that `decide` wrote; it asks nobody, reads no clock and derives nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import crossing, queueing, quota
from . import events as ev
from .digest import digest
from .empties import NONE, owned
from .gate import lending, noting
from .gate.noting import from_first_step, unmarked
from .items import Item
from .moves import ask_before_acting, count, drop_below, let_run, move, read_in, recorded, runs_last, troubled
from .policy import BY_BREAKER
from .records import RUNS
from .run import Frame, Run
from .states import MOVES, READY


def evolve(run: Run, event: ev.AnyEvent) -> None:
    """Fold one event."""
    _FOLD[type(event)](run, event)


def _run_started(run: Run, event: ev.RunStarted) -> None:
    run.id = event.run
    run.salt = event.salt
    run.input = event.input
    run.about = event.about
    run.requester = event.requester
    run.drill = event.drill
    run.copied_from = event.copied_from
    run.move("start")


def _run_resumed(run: Run, event: ev.RunResumed) -> None:
    run.move("resume")
    if event.once:
        owned(run, "named")[event.once] = digest(["resume", event.max_turns, event.unlimited])
    run.error = ""
    run.traceback = ""
    run.lost = 0
    run.restored = None
    if event.limits is not None:
        run.limits = event.limits
    if event.about:
        run.about = run.about | event.about
    if event.max_turns is not None or event.unlimited:
        run.max_turns = None if event.unlimited else event.max_turns
        if not run.queued:
            run.frames[ev.ROOT].max_turns = run.max_turns


def _context_saved(run: Run, event: ev.ContextSaved) -> None:
    run.context = event.context


def _frame_opened(run: Run, event: ev.FrameOpened) -> None:
    run.frames[event.frame] = Frame(
        id=event.frame,
        agent=event.agent,
        items=list(event.items),
        max_turns=event.max_turns,
        guarding=event.guarded,
        guards=event.guarded if event.barrier else "",
        prefix=event.prefix,
        written=event.written,
        response_id=event.response_id,
        history=len(event.items),
        tape=[item for item in event.items if type(item) is dict],
        barrier=event.barrier,
    )
    if event.frame == ev.ROOT:
        run.queued = False
        run.root_agent = run.last_agent = event.agent
        run.max_turns = event.max_turns
        run.response_id = event.response_id


def _input_added(run: Run, event: ev.InputAdded) -> None:
    frame = run.frames[event.frame]
    if event.once:
        owned(run, "named")[event.once] = digest(event.items)
    if frame.guards:
        frame.unseen = (*frame.unseen, *event.items)
        frame.guarding = frame.guarding or ("ahead" if frame.guards == "before" else "along")
    if frame.phase == "calls":
        frame.queued.extend(event.items)
        return
    read_in(frame, event.items)
    if frame.phase == "judge":
        if frame.results:
            frame.unread = True
        else:  # whoever answers an answer that was not taken asks for another
            frame.move("continue")


def _call_screened(run: Run, event: ev.CallScreened) -> None:
    call = run.calls[event.call]
    run.under_policy = run.under_policy or event.by.startswith("policy")
    call.quotas = event.quotas or call.quotas
    call.watched = event.watched or call.watched
    if event.action == "deny" and BY_BREAKER not in event.by:
        troubled(run, call, "denied")
    if call.state in READY:
        call.recheck = False
        if event.action != "deny":
            let_run(run, call)
            return
    call.reason = event.reason
    call.by = event.by
    call.terms = event.terms
    call.met = ()
    call.asked_at = event.at
    call.pended = 0
    call.voided = ""
    call.preview = event.preview
    call.review = event.review
    move(run, call, event.action)
    quota.owe_unless_let(run, call)


def _call_decided(run: Run, event: ev.CallDecided) -> None:
    decision = event.decision
    call = run.calls[decision.call]
    noting.without_lapsed(call, event)
    # Whatever lets the tool be touched is looked at by the newest policy first. There is no way round it.
    call.recheck = decision.verdict in RUNS or call.state == "needs"
    verb: str = decision.verdict
    if call.state == "needs" and call.need is not None and call.need.wants == "result":
        call.recheck = False  # its tool is not touched again
        verb = "supply" if verb == "answer" else "withhold"
    elif call.state == "needs":
        call.supplied = decision
    elif decision.verdict in RUNS and decision.via != "probe":
        call.cleared = decision
        call.revoked = False
    elif decision.verdict == "retry":
        call.acted = call.doubted = False  # its tool found that it did not run
    if decision.verdict in ("approve", "edit"):
        call.approval = decision
    if decision.verdict == "reject" and not decision.asks_back:
        troubled(run, call, "rejected")
    call.decision = decision
    owned(run, "decided")[call.id] = decision
    move(run, call, verb)


def _call_asked_again(run: Run, event: ev.CallAskedAgain) -> None:
    call = run.calls[event.call]
    call.asks += 1
    call.asked_at = event.at
    call.warned = False
    unmarked(call)
    call.votes = {}
    if event.why in ("restored", "forked", "terms"):
        from_first_step(call)
    if event.why == "step":
        call.opened = call.asks
    if event.terms is not None:
        call.terms = event.terms
    if event.reason:
        call.reason = event.reason
    call.renewed = event.nonce or call.renewed
    call.revoked = True
    move(run, call, "ask_again")


def _call_voided(run: Run, event: ev.CallVoided) -> None:
    call = run.calls[event.call]
    if event.tools:
        run.tools = {**run.tools, **event.tools} if run.tools else event.tools
    call.shown = call.proposal.tool
    call.recheck = call.revoked = False
    call.warned = False
    unmarked(call)
    call.asks += 1
    frame = run.frames[call.frame]
    frame.last += runs_last(event.proposal) - runs_last(call.proposal)
    frame.along += event.proposal.by_provider - call.proposal.by_provider
    call.proposal = event.proposal
    run.key = run.key or event.proposal.key
    call.voided = event.why
    call.renewed = event.nonce or call.renewed
    call.decision = None
    call.votes = {}
    call.preview = call.approval = call.cleared = call.need = call.supplied = None
    run.decided.pop(call.id, None)
    move(run, call, "void")
    if event.proposal.refused is not None:
        call.item = event.proposal.refused
        move(run, call, "refuse")


def _call_started(run: Run, event: ev.CallStarted) -> None:
    run.started += 1
    call = run.calls[event.call]
    call.started_at = run.now
    call.started_by = event.by
    call.held_until = event.until
    move(run, call, "start")


def _call_needs(run: Run, event: ev.CallNeeds) -> None:
    call = run.calls[event.call]
    call.supplied = None
    call.asked_at = event.at
    call.reason = ""
    unmarked(call)
    call.votes = {}
    if event.wants == "approval":
        ask_before_acting(run, call, event.preview)
        return
    call.need = event
    call.rounds += 1
    move(run, call, "need")


def _call_finished(run: Run, event: ev.CallFinished) -> None:
    call = run.calls[event.call]
    call.item = event.item
    call.value = event.value
    if event.failed and call.state == "started":
        troubled(run, call, "failed")
    move(run, call, "fail" if event.failed and (call.state, "fail") in MOVES else "finish")


def _call_lost(run: Run, event: ev.CallLost) -> None:
    call = run.calls[event.call]
    call.reason = event.why
    call.renewed = event.nonce or call.renewed
    call.preview = event.preview or call.preview
    if event.again:
        call.acted = call.doubted if call.proposal.by_provider else call.acted  # what was not sent ran nothing
        move(run, call, "again")
        return
    call.asks += 1
    call.asked_at = run.now
    unmarked(call)
    from_first_step(call)
    call.votes = {}
    call.recheck = False
    call.revoked = call.revoked or call.state != "started"
    move(run, call, "lose")


def _handed_off(run: Run, event: ev.HandedOff) -> None:
    frame = run.frames[event.frame]
    frame.before = tuple(dict.fromkeys((*frame.before, frame.agent)))
    frame.agent = event.agent
    frame.fresh = True
    frame.judged = False
    frame.unread = False
    frame.used_tools = False
    frame.results = []
    frame.move("hand_off")
    if event.view is not None:
        frame.items = viewed(frame.items, event.view)
        frame.sent = frame.heard = 0
        frame.history = len(frame.items)
    if frame.id == ev.ROOT:
        run.last_agent = event.agent


def _history_compacted(run: Run, event: ev.HistoryCompacted) -> None:
    frame = run.frames[event.frame]
    unread = len(frame.items) - frame.sent
    frame.items = viewed(frame.items, event.view)
    frame.sent = frame.heard = max(len(frame.items) - unread, 0)
    frame.history = len(frame.items)
    count(run, event)


def _tools_judged(run: Run, event: ev.ToolsJudged) -> None:
    frame = run.frames[event.frame]
    frame.judged = False
    frame.unread = False
    frame.results = []
    frame.move("continue")


def _guardrail_reported(run: Run, event: ev.GuardrailReported) -> None:
    frame = run.frames.get(event.on)
    if frame is not None:
        frame.guarding = ""
        frame.unseen = ()
        frame.tripped = next((report for report in event.reports if report.tripped), None)


def _frame_closed(run: Run, event: ev.FrameClosed) -> None:
    drop_below(run, event.frame)
    run.frames[event.frame].move("close")
    if event.frame == ev.ROOT:
        run.move("finish")
        run.output = event.output
        run.error = ""
        run.traceback = ""
    else:
        del run.frames[event.frame]


def _session_written(run: Run, event: ev.SessionWritten) -> None:
    frame = run.frames[event.frame]
    frame.written = event.count
    if event.prefix is not None:
        frame.prefix = event.prefix


def _run_failed(run: Run, event: ev.RunFailed) -> None:
    run.move("set_aside" if event.lost else "fail")
    for frame in run.frames.values():  # whoever resumes the run lets its models try again
        frame.invalid = ()
    run.error = event.error
    run.traceback = event.traceback
    run.lost = event.lost


def _run_cancelled(run: Run, event: ev.RunCancelled) -> None:
    run.move("cancel")
    run.error = event.why
    run.traceback = ""
    quota.owe_unused(run)
    for group in run.groups:
        if group != "started":
            run.groups[group] = NONE


_FOLD: dict[type[Any], Callable[[Run, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.RunQueued: queueing.queued,
    ev.RunResumed: _run_resumed,
    ev.ContextSaved: _context_saved,
    ev.FrameOpened: _frame_opened,
    ev.InputAdded: _input_added,
    ev.ReplyRecorded: recorded,
    ev.ReplyRefused: count,
    ev.CallScreened: _call_screened,
    ev.VoteCast: noting.vote_cast,
    ev.VoteWithdrawn: noting.vote_withdrawn,
    ev.CallDecided: _call_decided,
    ev.CallAskedAgain: _call_asked_again,
    ev.CallMarked: noting.call_marked,
    ev.CallLooked: noting.call_looked,
    ev.ReviewAsked: noting.review_asked,
    ev.ReviewGiven: noting.review_given,
    ev.DrillEnded: noting.drill_ended,
    ev.ApprovalWithdrawn: noting.approval_withdrawn,
    ev.ExpiryNear: noting.expiry_near,
    ev.CallVoided: _call_voided,
    ev.CallStarted: _call_started,
    ev.CallHeld: noting.call_held,
    ev.CallNeeds: _call_needs,
    ev.CallFinished: _call_finished,
    ev.CallLost: _call_lost,
    ev.GrantGiven: lending.given,
    ev.GrantUsed: lending.used,
    ev.GrantLent: lending.lent,
    ev.GrantBorrowed: lending.taken_over,
    ev.GrantRevoked: lending.revoked,
    ev.QuotaTaken: quota.taken,
    ev.QuotaReturned: quota.returned,
    ev.QuotaClosed: quota.closed,
    ev.HandedOff: _handed_off,
    ev.HistoryCompacted: _history_compacted,
    ev.ToolsJudged: _tools_judged,
    ev.GuardrailReported: _guardrail_reported,
    ev.FrameClosed: _frame_closed,
    ev.SessionWritten: _session_written,
    ev.RunFailed: _run_failed,
    ev.RunCancelled: _run_cancelled,
    ev.RunRestored: crossing.was_restored,
    ev.RunForked: crossing.was_forked,
}


def viewed(items: list[Item | int], view: list[list[int] | Item]) -> list[Item | int]:
    """Return the items of a recorded view: ranges of the old ones and new ones."""
    seen: list[Item | int] = []
    for part in view:
        if isinstance(part, list):
            seen.extend(items[part[0] : part[1]])
        else:
            seen.append(part)
    return seen
