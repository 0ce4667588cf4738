"""Check the laws of what people say beside their decisions: marks, and votes and approvals that are withdrawn."""

from __future__ import annotations

from ...core import events as ev
from ...core.people import Decider
from ..calls import WAITING, AuditedCall, Broken, need
from ..deciders import behind_glass, outside, two_steps
from ..run import AuditedRun
from . import chains, steps
from .grants import GRANT

_LONGEST_MS = 31 * 24 * 3_600_000


def follows(audited: AuditedRun, event: ev.AnyEvent) -> None:
    """Check that what was taken back asks anew at once, or is in doubt."""
    if audited.withdrawn is None:
        return
    again = isinstance(event, ev.CallVoided | ev.CallLost) and event.call == audited.withdrawn
    need(again, "I1", f"the approval of call {audited.withdrawn} was taken back, and it could still run")
    audited.withdrawn = None


def marked(audited: AuditedRun, event: ev.CallMarked) -> None:
    """Check a mark: on what waits, by somebody who may decide it, for a while; only one's own is taken off."""
    call = audited.at(event.call)
    need(call.place in WAITING, "I8", f"call {call.id} was marked while it was {call.place}")
    _of_this_asking(audited, call, event.digest, "a mark")
    need(event.mark in ("claim", "snooze"), "I7", f"call {call.id} got a mark of an unknown kind")
    why = outside(call.terms, event.decider, audited.requester)
    need(not why, "I8", f"call {call.id} was marked {why}")
    who = event.decider.id
    before = call.claim if event.mark == "claim" else call.snoozes.get(who)
    if event.until is None:
        own = before is not None and before.decider.id == who
        need(own, "I8", f"a mark of call {call.id} was taken off that was not there, or another person's")
    else:
        timely = audited.now < event.until <= audited.now + _LONGEST_MS
        need(timely, "I8", f"call {call.id} was marked for another time than a mark may last")
    kept = None if event.until is None else event
    if event.mark == "claim":
        call.claim = kept
        return
    others = {by: mark for by, mark in call.snoozes.items() if by != who}
    call.snoozes = others if kept is None else {**others, who: kept}


def looked(audited: AuditedRun, event: ev.CallLooked) -> None:
    """Check a look: at what waits, by somebody who is known and may decide it, for the first time."""
    call = audited.at(event.call)
    who = event.decider
    need(call.place in WAITING, "I8", f"call {call.id} was looked at while it was {call.place}")
    _of_this_asking(audited, call, event.digest, "a look")
    need(who.strength != "claimed", "I1", f"call {call.id} was looked at by a name that was not verified")
    glass = behind_glass(call.stated)
    why = outside(call.terms, who, audited.requester)
    why = why if glass is None else why and outside(glass, who, audited.requester)
    need(not why, "I8", f"call {call.id} was looked at {why}")
    need(who.id not in call.looks, "I8", f"call {call.id} was first looked at twice by one person")
    call.looks = {**call.looks, who.id: audited.now}


def _of_this_asking(audited: AuditedRun, call: AuditedCall, shown: str, what: str) -> None:
    """Check what a mark or a look is of; those of earlier versions do not say."""
    own = not shown or shown == call.digest(audited.bound_to)
    need(own, "I1", f"{what} of call {call.id} is of another run, or of another asking")


def step_of(audited: AuditedRun, call: AuditedCall) -> str:
    """Return for whom a request waits, where its requester has to confirm it."""
    if call.terms is None or not call.terms.confirm:
        return ""
    return "others" if two_steps(call.terms) and steps.confirmed(audited, call) else "requester"


def vote_withdrawn(audited: AuditedRun, event: ev.VoteWithdrawn) -> None:
    """Check that a vote is withdrawn by its voter while the request is open, as surely as it was cast."""
    made = event.decision
    call = audited.at(made.call)
    need(call.place in WAITING, "I3", f"a vote on call {call.id} was withdrawn while it was {call.place}")
    need(not steps.ran_out(audited, call), "I1", f"a vote on call {call.id} was withdrawn after its time had run out")
    own = made.digest == call.digest(audited.bound_to)
    need(own, "I1", f"a withdrawal on call {call.id} is on another run's, or on another asking of it")
    sure, name = call.confirmed, made.by or ""
    confirms = sure is not None and sure.by == name
    earlier = chains.withdrawn(audited, call, name)
    vote = earlier or (sure if confirms else call.votes.get(name))
    who, voter = made.decider, None if vote is None else vote.decider
    if vote is None or who is None or made.verdict != "withdraw" or made.via != "person":
        raise Broken("I1", f"a vote on call {call.id} was withdrawn that was never cast, or by another person")
    known = voter is None or voter.strength == "claimed" or who.strength != "claimed"
    need(known, "I1", f"a vote on call {call.id} was withdrawn by a name that was not verified")
    signed = vote.proof is None or made.proof is not None
    need(signed, "I1", f"a signed vote on call {call.id} was withdrawn without a signature")
    need(made.at == audited.now, "I8", f"a withdrawal on call {call.id} has another time than its line")
    steps.after_own(call, made)
    call.withdrawn = (*call.withdrawn, made)
    if confirms:
        call.confirmed, call.votes = None, {}
    elif earlier is None:
        del call.votes[name]


def taken_from(audited: AuditedRun, event: ev.ApprovalWithdrawn) -> None:
    """Check that an approval is taken back before it is executed, by somebody who may."""
    call = audited.at(event.call)
    if call.place != "ready" or call.supplied:
        raise Broken("I8", f"an approval of call {call.id} was taken back while it was {call.place}")
    approved = call.decision is not None or call.allowed_by.startswith(GRANT)
    need(approved, "I8", f"an approval of call {call.id} was taken back that was never given")
    why = "" if _let_it_run(audited, call, event.decider) else outside(call.terms, event.decider, audited.requester)
    need(not why, "I8", f"the approval of call {call.id} was taken back {why}")
    audited.withdrawn = call.id
    again = call.met or call.acted  # a chain that begins anew has the time of its first step
    call.pended = 0 if again or call.decision is None else call.decision.at - call.asked_at


def _let_it_run(audited: AuditedRun, call: AuditedCall, who: Decider) -> bool:
    made = call.decision
    name = call.allowed_by.removeprefix(GRANT) if made is None else made.grant or ""
    given = audited.grants.get(name)
    words = [vote.decider for votes in (call.votes, *(step.votes for step in call.met)) for vote in votes.values()]
    words += [None if made is None else made.decider, None if given is None else given.decider]
    sure = [one.id for one in words if one is not None and one.strength != "claimed"]
    return who.strength != "claimed" and who.id in sure
