"""Read the log of a run line by line, and hold each event to the laws that are about it.

>>> read_step(AuditedRun("run"), ev.Step(5, [ev.CallStarted("r/1.0")]))
Traceback (most recent call last):
...
keyturn.audit.calls.Broken: I8: the log does not begin with the start of its run
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import events as ev
from .calls import Broken, need
from .laws import beside, chains, claims, crossing, drills, frames, gate, grants, quotas, reviews, steps
from .run import AuditedRun

# What may still be said of a run that is over: what became of what was in flight, and what is no act of the run.
_AFTER = (
    *(ev.CallFinished, ev.CallLost, ev.CallHeld, ev.SessionWritten, ev.ContextSaved),
    *(
        ev.ReviewGiven,
        ev.GrantRevoked,
        ev.GrantLent,
        ev.GuardrailReported,
        ev.QuotaTaken,
        ev.QuotaReturned,
        ev.QuotaClosed,
    ),
)


def read_step(audited: AuditedRun, step: ev.Step) -> None:
    """Read one step, whole; raise `Broken` where the log breaks a promise."""
    need(step.events, "I8", "the log has a line in which nothing happened")
    audited.now = max(audited.now, step.at)
    audited.line += 1
    audited.decided_now = []
    crossing.own_lines(audited)
    for event in step.events:
        _take(audited, event)
    need(audited.owed is None, "I1", "a grant decided a call and was not counted")
    need(audited.withdrawn is None, "I1", "an approval was taken back, and its call could still run")
    need(audited.next_step is None, "I1", "a step of a chain was met or undone, and no other was asked for")
    reviews.owes_no_review(audited, None)
    need(audited.answered is None, "I8", "a nested agent ended and its call got no result")
    need(not audited.unheard, "I2", "a call that its provider runs got its result, and the provider had not replied")
    need(not audited.forking, "I8", "a call asks anew as in a fork, and none begins")
    need(not audited.restoring, "I2", "a call was treated as after a restored store, and the run was not restored")


def end_log(audited: AuditedRun) -> None:
    """Check at the end of a log that it is of the run whose name it has."""
    audited.line += 1
    crossing.own_lines(audited)
    need(audited.bound_to == audited.run, "I8", "the log is a copy of another run's, and no fork of it begins")


def _take(audited: AuditedRun, event: ev.AnyEvent) -> None:
    began = isinstance(event, ev.RunStarted)
    need(audited.run or began, "I8", "the log does not begin with the start of its run")
    if audited.owed is not None and not isinstance(event, ev.GrantUsed):
        raise Broken("I1", "a grant decided a call and was not counted")
    if audited.over and not isinstance(event, _AFTER):
        acts = isinstance(event, ev.CallStarted)
        raise Broken("I7" if acts else "I8", f"the run had ended, and {type(event).__name__} was recorded")
    beside.follows(audited, event)
    chains.follows(audited, event)
    reviews.owes_no_review(audited, event)
    drills.fits_drill(audited, event)
    law = _LAWS.get(type(event))
    if law is not None:
        law(audited, event)


def began(audited: AuditedRun, event: ev.RunStarted) -> None:
    """Check that the run starts once, and that the log is its own."""
    need(not audited.run, "I8", "the run started a second time")
    need(event.run == audited.name, "I8", "the log is that of another run")
    audited.run = event.run
    audited.bound_to = event.copied_from or event.run
    audited.salt = event.salt
    audited.requester = event.requester
    audited.about = event.about
    audited.drill = event.drill


def queued(audited: AuditedRun, _event: ev.RunQueued) -> None:
    """Check that a run waits for its turn before it begins."""
    need(not audited.root, "I8", "the run waits for its turn, and had begun")


def ended(audited: AuditedRun, _event: ev.RunCancelled) -> None:
    """Record that the run is over."""
    audited.over = True


def stopped(audited: AuditedRun, _event: ev.RunFailed) -> None:
    """Record that the run failed: nothing starts until it is resumed."""
    audited.failed = True


def resumed(audited: AuditedRun, _event: ev.RunResumed) -> None:
    """Record that the run goes on."""
    audited.failed = False


def remade(audited: AuditedRun, event: ev.CallVoided) -> None:
    """Check a call that is proposed again because its tool changed."""
    audited.tools.update(event.tools)
    gate.voided(audited, event)


def result(audited: AuditedRun, event: ev.CallFinished) -> None:
    """Check that a nested agent's answer goes to its own call, then the result."""
    if audited.answered is not None:
        need(event.call == audited.answered, "I8", "a nested agent ended and another call got its result")
        audited.answered = None
    frames.owes_reply(audited, event)
    gate.finished(audited, event)


_LAWS: dict[type[Any], Callable[[AuditedRun, Any], None]] = {
    ev.RunStarted: began,
    ev.RunQueued: queued,
    ev.RunCancelled: ended,
    ev.RunFailed: stopped,
    ev.RunResumed: resumed,
    ev.FrameOpened: frames.opened,
    ev.FrameClosed: frames.closed,
    ev.GuardrailReported: frames.reported,
    ev.HandedOff: frames.handed_off,
    ev.HistoryCompacted: frames.compacted,
    ev.ReplyRecorded: frames.replied,
    ev.InputAdded: frames.added,
    ev.ToolsJudged: frames.judged,
    ev.SessionWritten: frames.told_session,
    ev.CallScreened: gate.screened,
    ev.VoteCast: gate.voted,
    ev.VoteWithdrawn: beside.vote_withdrawn,
    ev.CallDecided: gate.decided,
    ev.CallAskedAgain: steps.asked_again,
    ev.CallMarked: beside.marked,
    ev.CallLooked: beside.looked,
    ev.ReviewAsked: reviews.review_asked,
    ev.ReviewGiven: reviews.review_given,
    ev.DrillEnded: drills.drill_ended,
    ev.ApprovalWithdrawn: beside.taken_from,
    ev.ExpiryNear: steps.warned,
    ev.CallVoided: remade,
    ev.CallStarted: claims.started,
    ev.CallHeld: claims.held,
    ev.CallNeeds: gate.needed,
    ev.CallFinished: result,
    ev.CallLost: gate.lost,
    ev.GrantGiven: grants.given,
    ev.GrantUsed: grants.used,
    ev.GrantLent: grants.lent_out,
    ev.GrantBorrowed: grants.taken_over,
    ev.GrantRevoked: grants.taken_back,
    ev.QuotaTaken: quotas.taken,
    ev.QuotaReturned: quotas.returned,
    ev.QuotaClosed: quotas.closed_for_new,
    ev.RunRestored: crossing.restored,
    ev.RunForked: crossing.forked,
}
