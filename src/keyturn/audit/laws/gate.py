"""Check the laws of the gate with an automaton of its own: which event a call may meet where, and what lets it run.

It asks the code that folds and decides nothing, and raises `Broken` at the first event that no honest gate would write.
"""

from __future__ import annotations

from ...core import events as ev
from ...core.policy import BY_BREAKER
from ..calls import WAITING, AuditedCall, Broken, need
from ..deciders import (
    behind_glass,
    hasty,
    lacks_reason,
    objection,
    quorum,
    takes_people,
    two_steps,
    voices,
)
from ..run import AuditedRun
from . import chains, frames, grants, quotas, reviews, steps
from .grants import GRANT

_MAY = {
    "asked": {"approve": "ready", "edit": "ready", "reject": "dead", "answer": "dead", "expire": "dead"},
    "doubt": {"ran": "dead", "did_not_run": "dead", "retry": "ready"},
    "asking": {"answer": "ready", "reject": "ready"},
}
_SCREENED = {"allow": "ready", "ask": "asked", "deny": "dead"}
_NO_START = {
    "new": ("I1", "without a verdict or a decision"),
    "asked": ("I1", "while it was still waiting for approval"),
    "asking": ("I1", "before its tool's question was answered"),
    "dead": ("I7", "although it had been refused or settled"),
    "running": ("I2", "twice"),
    "doubt": ("I2", "again while it was in doubt"),
    "settled": ("I2", "again after it had its result"),
}


# Verdicts ------------------------------------------------------------------------------------------------------


def screened(audited: AuditedRun, event: ev.CallScreened) -> None:
    """Check the verdict of a tool or policy on a call."""
    call = audited.at(event.call)
    need(event.action in _SCREENED, "I7", f"call {call.id} got a verdict of an unknown kind")
    stands = event.revision in (0, call.revision)
    need(stands, "I3", f"call {call.id} got a verdict on asking {event.revision}, and not on the one that stands")
    audited.counted_in += [(log, call.id, audited.line) for log in event.quotas]
    call.watched = event.watched or call.watched
    if event.action == "deny" and BY_BREAKER not in event.by:
        quotas.troubled(audited, call, "denied")
    if call.place == "ready" and call.recheck:
        call.recheck = False
        forgotten = event.action == "deny" and call.acted and not call.supplied
        need(not forgotten, "I2", f"call {call.id} had been started, and was denied as if it had not")
        call.place = "dead" if event.action == "deny" else "ready"
        call.stricter_in = audited.line if event.action == "ask" else 0
        return
    need(call.place == "new", "I3", f"call {call.id} was screened again while it was {call.place}")
    shows = event.preview is not None and event.action != "ask"
    need(not shows, "I4", f"call {call.id} records a preview, and no decision was requested")
    # A call whose approval was withdrawn has the time that it had left; earlier versions gave it all of it anew.
    pended = call.pended if event.terms == call.terms else 0
    dated = event.action != "ask" or event.at in (audited.now, audited.now - pended)
    need(dated, "I8", f"call {call.id} asks with another time than that of its line")
    _as_stated(audited, event, call)
    if event.action == "allow":
        _allowed(audited, event, call)
    call.place = _SCREENED[event.action]
    call.terms, call.met = event.terms, []
    call.asked_at = event.at
    call.pended = 0
    call.reason = event.reason
    call.preview = event.preview
    call.screened_in = audited.line
    call.allowed_by = event.by
    call.let_at = audited.now
    call.review = event.review
    if event.action == "allow" and not event.by.startswith(GRANT):
        reviews.draw(audited, call, event.review)


def _as_stated(audited: AuditedRun, event: ev.CallScreened, call: AuditedCall) -> None:
    """Check that a tool which always asks is asked about: on its terms, their escalation or the newest policy's."""
    if call.proposal.gate != "ask" or event.action == "deny":
        return
    asks = event.action == "ask" or event.by.startswith(GRANT)
    need(asks, "I1", f"call {call.id} was allowed without approval, and its tool always asks for one")
    others = call.stricter_in == audited.line or (call.terms is not None and event.terms == call.terms)
    stated = (call.must_ask and others) or event.terms == call.proposal.terms
    need(stated, "I1", f"call {call.id} was screened on other terms than its tool states")


def _allowed(audited: AuditedRun, event: ev.CallScreened, call: AuditedCall) -> None:
    need(not call.must_ask, "I4", f"call {call.id} was voided, and was allowed without being asked about again")
    if event.by.startswith(GRANT):
        audited.owed = (event.by.removeprefix(GRANT), call.id)
        return
    never = grants.newest(audited, call, event.terms) == "reject"
    need(not never, "I1", f"call {call.id} was allowed although a standing rejection covers it")


# Decisions -----------------------------------------------------------------------------------------------------


def voted(audited: AuditedRun, event: ev.VoteCast) -> None:
    """Check a vote that does not settle the call yet."""
    made = event.decision
    call = audited.at(made.call)
    need(call.place in WAITING, "I3", f"a vote was cast on call {call.id}, which was not waiting")
    if event.replaced:
        need(made.at <= audited.now, "I8", f"a vote on call {call.id} has a later time than its line")
        return
    votes = call.place != "asking" and made.verdict in _MAY[call.place] and made.via == "person"
    need(votes, "I3", f"call {call.id} got a vote that cannot be cast while it is {call.place}")
    own = made.digest == call.digest(audited.bound_to)
    need(own, "I1", f"a vote on call {call.id} is on another run's, or on another asking of it")
    check(audited, call, made)
    _check_edit(audited, call, made)
    call.drop_lapsed(event)
    if made.confirms and not two_steps(call.terms):
        chains.voted(audited, call, made)
        return
    if made.confirms:
        first = two_steps(call.terms) and made.verdict == "approve" and not steps.confirmed(audited, call)
        need(first, "I1", f"call {call.id} was confirmed, and its terms ask for no confirmation now")
        call.confirmed = made
        return
    enough = voices(call.terms, call.votes, made, audited.now) >= quorum(steps.asked_now(audited, call), made.verdict)
    need(not enough, "I6", f"call {call.id} had the decisions that it takes and was left waiting")
    call.votes[made.by or ""] = made


def decided(audited: AuditedRun, event: ev.CallDecided) -> None:
    """Check a decision that settles what a call waits for."""
    made = event.decision
    call = audited.at(made.call)
    need(call.place in _MAY, "I3", f"call {call.id} was decided while it was {call.place}")
    may = _MAY[call.place]
    need(made.verdict in may, "I7", f"call {call.id} got a decision that does not fit: it was {call.place}")
    check(audited, call, made)
    call.drop_lapsed(event)
    wanted = quorum(steps.asked_now(audited, call), made.verdict)
    heard = voices(call.terms, call.votes, made, audited.now)
    alone = call.place == "asking" or made.via != "person" or made.broke_glass
    steps.check_steps(audited, call, made)
    enough = alone or heard >= wanted
    need(enough, "I1", f"call {call.id} takes {wanted} people and was decided by {heard}")
    _check_edit(audited, call, made)
    dropped = call.edited and made.args is None
    need(not dropped, "I4", f"call {call.id} was edited before, and a later decision drops the edit")
    call.args = call.args if made.args is None else made.args
    if made.via == "grant":
        grants.by_grant(audited, call, made)
    if made.verdict in ("approve", "edit", "retry") and made.via != "probe":
        call.approval, call.revoked = made, False
    elif made.verdict == "retry":  # its tool found that it did not run
        call.acted = call.doubted = False
    call.approved = call.approved or made.verdict in ("approve", "edit")
    given = call.place == "asking" and call.question is not None and call.question.wants == "result"
    call.supplied = call.place == "asking" and not given
    call.place = "dead" if given else may[made.verdict]
    call.decision = made
    call.recheck = call.place == "ready"
    call.must_ask = False
    audited.decided_now.append(call)
    if made.verdict == "reject" and not made.asks_back:
        quotas.troubled(audited, call, "rejected")
    reviews.broken(audited, call, made)


def check(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check what holds for every decision, whether it settles the call or not."""
    need(made.digest == call.digest(audited.bound_to), "I4", f"a decision of call {call.id} is for other bytes")
    _check_via(audited, call, made)
    steps.check_way(audited, call, made)
    if made.via == "clock":
        steps.check_expiry(audited, call)
    else:
        need(not steps.ran_out(audited, call), "I1", f"call {call.id} was decided after its time had run out")
    dated = made.at == audited.now if made.via in ("clock", "grant") else made.at <= audited.now
    need(dated, "I8", f"a decision of call {call.id} has another time than its line")
    if call.place == "asked":
        fixed = made.verdict == "edit" and call.proposal.fixed
        need(not fixed, "I4", f"call {call.id} was edited, and its arguments cannot be changed")
        elsewhere = made.verdict == "answer" and call.proposal.elsewhere
        need(not elsewhere, "I8", f"call {call.id} was answered by a person, and it runs elsewhere")
        lacks = made.via in ("person", "on_approval") and lacks_reason(call.terms, made)
        need(not lacks, "I1", f"call {call.id} was decided without the reason that its terms ask for")


def _check_via(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check whether what decided may decide this: a person, or what is none."""
    if made.via == "person":
        terms = behind_glass(call.stated) if made.broke_glass else steps.asked_now(audited, call)
        whole = made.broke_glass and terms is None
        need(not whole, "I1", f"the glass was broken for call {call.id}, and its terms have none")
        why = objection(terms, made.decider, audited.requester, made.proof)
        need(not why, "I1", f"call {call.id} was decided {why}")
        soon = hasty(terms, call.looks, made)
        need(not soon, "I1", f"call {call.id} was approved by an approver who had not viewed it for long enough")
    else:
        need(made.decider is None, "I1", f"call {call.id} was decided by no person, and a person is named")
        _check_no_person(call, made)
    clock = made.via == "clock"
    need(clock or made.verdict != "expire", "I1", f"call {call.id} expired, and the clock did not say so")
    need(
        not clock or made.verdict == "expire",
        "I1",
        f"the clock decided call {call.id} instead of letting it expire",
    )
    granted = made.grant is not None
    need(granted == (made.via == "grant"), "I1", f"the decision of call {call.id} does not say which grant made it")


def _check_no_person(call: AuditedCall, made: ev.Decision) -> None:
    asked = call.place == "asked" and made.verdict in ("approve", "reject")
    if made.via == "grant":
        need(asked, "I1", f"a grant decided call {call.id}, which was waiting for more than approval")
    elif made.via == "on_approval":
        people = takes_people(call.terms) or (made.verdict == "approve" and hasty(call.terms, {}, made))
        need(not people, "I1", f"a tool's own answer decided call {call.id}, and its terms ask for people")
    elif made.via == "probe":
        probed = call.place == "doubt" and call.proposal.recover == "probe"
        need(probed, "I1", f"a probe decided call {call.id}, which is not in doubt or has none")
        need(
            made.verdict != "retry" or not call.revoked,
            "I1",
            f"a probe let call {call.id} run again, and what had allowed it is revoked",
        )
    else:
        need(made.via == "clock", "I7", f"call {call.id} was decided by something unknown")


def _check_edit(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check that what will run is what was shown, or exactly what a person wrote in its place."""
    if made.args is None:
        need(made.verdict != "edit", "I4", f"call {call.id} was edited, and the log does not say to what")
        need(made.runs is None, "I4", f"call {call.id} was not edited and is bound to an edit")
        return
    before = call.decision
    kept = before is not None and (made.args, made.basis) == (before.args, before.basis) and call.place != "asked"
    allowed = kept or (made.verdict == "edit" and made.args)
    need(allowed, "I4", f"call {call.id} would run with other arguments than were edited or proposed")
    bound = made.runs == call.edit_digest(audited.bound_to, made.args, made.basis)
    need(bound, "I4", f"the edit of call {call.id} is bound to other arguments than it names")


# The effect ----------------------------------------------------------------------------------------------------


def voided(audited: AuditedRun, event: ev.CallVoided) -> None:
    """Check that a call may be proposed again: it waits or is new, and had no effect."""
    call = audited.at(event.call)
    audited.restoring = audited.restoring or call.place == "new"
    may = call.place in ("asked", "ready", "new")
    need(may, "I8", f"call {call.id} was voided while it was {call.place}")
    need(not call.acted, "I2", f"call {call.id} had been started, and was proposed anew as if it had not")
    same = event.proposal.label == call.proposal.label
    need(same, "I4", f"call {call.id} was proposed anew under another id than its model gave it")
    call.former_tool = call.proposal.tool
    call.propose(event.proposal)
    call.must_ask = True
    call.asks += 1
    call.renewed = event.nonce or call.renewed
    if call.place == "settled":
        frames.settled(audited, call)


def started(audited: AuditedRun, event: ev.CallStarted) -> None:
    """Check that a call which starts was let run."""
    call = audited.at(event.call)
    if call.place != "ready":
        invariant, how = _NO_START[call.place]
        raise Broken(invariant, f"call {call.id} started {how}")
    need(not call.recheck, "I7", f"call {call.id} started before the policy was asked about its decision")
    why = frames.may_run(audited, call)
    need(not why, "I7", f"call {call.id} started {why}")
    steps.check_held(audited, call)
    made = call.decision
    need(not steps.stale(audited, call), "I1", f"call {call.id} started after its approval had gone stale")
    if made is not None:
        fits = made.args is None or made.runs == call.edit_digest(audited.bound_to, call.args, made.basis)
        need(fits, "I4", f"call {call.id} started with other arguments than its edit is bound to")
    call.place = "running"
    call.started_at = audited.now
    call.started_by = event.by
    call.acted = call.acted or call.proposal.recover != "retry"
    audited.starts[call.id] = audited.starts.get(call.id, 0) + 1


def needed(audited: AuditedRun, event: ev.CallNeeds) -> None:
    """Check that a running tool asks a question."""
    call = _running(audited, event.call, "asks for an answer")
    need(event.at == audited.now, "I8", f"call {call.id} asks for an answer with another time than its line has")
    call.asked_at = event.at
    call.reason = ""
    call.unmark()
    call.votes = {}
    if event.wants == "approval":
        call.screened_in = 0 if call.approved else audited.line  # a standing decision covers what asks now, and once
        call.ask_before_acting(event)
        return
    call.place = "asking"
    call.rounds += 1
    call.question = event


def lost(audited: AuditedRun, event: ev.CallLost) -> None:
    """Check that a call is called lost only where it ran, or where a restore puts it in doubt."""
    call = audited.at(event.call)
    if call.place == "ready" and not event.again and not audited.framed(call.id):
        # What was never started is in doubt only where the log itself may be behind the world.
        audited.restoring = audited.restoring or not audited.starts.get(call.id)
    elif call.place == "asked":
        need(call.acted and not event.again, "I2", f"call {call.id} was lost while it waited to be started")
    else:
        _running(audited, event.call, "was lost")
    shows = event.preview is not None and (event.again or call.place == "running")
    need(not shows, "I4", f"call {call.id} was lost at work and records a preview for which no decision was requested")
    call.reason = event.why
    call.renewed = event.nonce or call.renewed
    call.preview = event.preview or call.preview
    call.revoked = call.revoked or call.place != "running"
    if event.again:
        again = call.proposal.recover == "retry" or call.proposal.by_provider
        need(again, "I2", f"call {call.id} may start again by itself, and its tool never said that it may")
        call.place, call.acted = "ready", call.doubted if call.proposal.by_provider else call.acted
        return
    call.place, call.doubted = "doubt", True
    call.asked_at = audited.now
    call.renewed_in = audited.line
    call.asks += 1
    call.recheck = False
    call.unmark()
    call.from_first_step()
    call.votes = {}


def _running(audited: AuditedRun, name: str, what: str) -> AuditedCall:
    call = audited.at(name)
    need(call.place == "running", "I2", f"call {call.id} {what} while it was {call.place}")
    need(not audited.framed(call.id), "I2", f"call {call.id} {what} while a nested agent was answering it")
    return call


def finished(audited: AuditedRun, event: ev.CallFinished) -> None:
    """Check a call's result against what the call was."""
    call = audited.at(event.call)
    refused = call.place == "ready" and event.failed and (call.supplied or not call.acted)
    comes = call.place == "running" or (not audited.over and (call.place == "dead" or refused))
    need(comes, "I2", f"call {call.id} got a result while it was {call.place}")
    need(not audited.framed(call.id), "I2", f"call {call.id} got a result before its nested agent had ended")
    if event.failed and call.place == "running":
        quotas.troubled(audited, call, "failed")
    label = event.item.get("call_id")
    need(label in (None, call.proposal.label), "I4", f"call {call.id} got the result of another call")
    call.place = "settled"
    frames.settled(audited, call)
