"""Check the laws of approval chains: each step is met in its turn, by people of its own, before the next one is due."""

from __future__ import annotations

from ...core import events as ev
from ..calls import AuditedCall, AuditedStep, Broken, need
from ..deciders import agreeing, quorum
from ..run import AuditedRun
from ..voices import heard, one_voice


def in_chain(call: AuditedCall) -> bool:
    """Return whether a request is one of several steps, of which one is due."""
    return call.place in ("asked", "doubt") and (bool(call.met) or (call.terms is not None and bool(call.terms.then)))


def check(call: AuditedCall, made: ev.Decision) -> None:
    """Check that a decision is of somebody who voted in no earlier step, and edits nothing that was approved there."""
    if call.place == "asking" or made.via != "person":
        return
    again = any(one_voice(vote.decider, made.decider) for step in call.met for vote in step.votes.values())
    need(not again, "I1", f"call {call.id} was decided by a voter of an earlier step")
    edited = made.verdict == "edit" and in_chain(call)
    need(not edited, "I4", f"call {call.id} was edited, and each step of its chain approves the same call")


def check_last(call: AuditedCall, made: ev.Decision) -> None:
    """Check that a call of a chain is let run, or answered, in the last step, and before it in an emergency alone."""
    lets = made.verdict in ("approve", "edit", "retry", "answer") and made.via == "person" and not made.broke_glass
    early = lets and call.place != "asking" and call.terms is not None and call.terms.then is not None
    need(not early, "I1", f"call {call.id} was decided although a step of its chain was not met")


def voted(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check a vote that says to meet a step; the next one must open at once."""
    terms = call.terms
    if terms is None or terms.then is None or made.verdict not in ("approve", "retry") or made.broke_glass:
        raise Broken("I1", f"a vote on call {call.id} says to meet a step, and it has no other after it")
    votes = agreeing(terms, call.votes, made, audited.now) | {made.by or "": made}
    enough = heard(vote.decider for vote in votes.values()) >= quorum(terms, made.verdict)
    need(enough, "I1", f"a step of call {call.id} is said to be met, and takes more people")
    call.met.append(AuditedStep(terms, votes, call.looks))
    audited.next_step = call.id, terms.then


def withdrawn(audited: AuditedRun, call: AuditedCall, by: str) -> ev.Decision | None:
    """Return the vote that somebody had in an earlier step; that step must be asked anew at once."""
    for place, (terms, votes, _looks) in enumerate(call.met):
        if by in votes and call.place != "asking":
            del call.met[place:]
            audited.next_step = call.id, terms
            return votes[by]
    return None


def follows(audited: AuditedRun, event: ev.AnyEvent) -> None:
    """Check that the step that is due now opens at once."""
    if audited.next_step is None:
        return
    call, terms = audited.next_step
    opens = isinstance(event, ev.CallAskedAgain) and (event.call, event.why, event.terms) == (call, "step", terms)
    need(opens, "I1", f"another step of call {call} was due, and was not asked for")


def opened(audited: AuditedRun, event: ev.CallAskedAgain) -> None:
    """Check that a step opens when it is due."""
    due = audited.next_step is not None and audited.next_step[0] == event.call
    need(due, "I1", f"a step of call {event.call} was asked for, and was not due")
    need(not event.reason, "I8", f"call {event.call} asks again for another reason than it was asked about")
    audited.next_step = None
