"""Fold what people say beside their decisions."""

from __future__ import annotations

from msgspec.structs import replace

from .. import events as ev
from ..digest import digest
from ..empties import owned
from ..moves import drop_below
from ..records import StepMet
from ..run import Call, Review, Run, call_digest, stated_terms
from .deciding import agreeing


def call_marked(run: Run, event: ev.CallMarked) -> None:
    """Keep a mark, or drop the one that is taken off; one claim stands at a time, and one snooze for each person."""
    if event.once:
        owned(run, "named")[event.once] = digest(["mark", event.call, event.mark, event.until is None])
    call = run.calls[event.call]
    if not _of_this_asking(run, call, event.digest):
        return
    if event.mark == "claim":
        call.claim = None if event.until is None else event
        return
    who = event.decider.id
    others = {by: mark for by, mark in call.snoozes.items() if by != who}
    call.snoozes = others if event.until is None else {**others, who: event}


def call_looked(run: Run, event: ev.CallLooked) -> None:
    """Keep since when somebody has had a request on the screen."""
    call = run.calls[event.call]
    if _of_this_asking(run, call, event.digest):
        call.looks = {**call.looks, event.decider.id: run.now}


def review_asked(run: Run, event: ev.ReviewAsked) -> None:
    """Keep a call as it is now, for those who are asked about it; a call that was let run anew is asked about anew."""
    before = run.reviews.get(event.call)
    revision = 1 if before is None else before.revision + 1
    owned(run, "reviews")[event.call] = Review(
        replace(run.calls[event.call]), event.why, run.now, revision, event.deciders
    )


def review_given(run: Run, event: ev.ReviewGiven) -> None:
    """Keep what was said of a call that was let run."""
    owned(run, "reviews")[event.call] = replace(run.reviews[event.call], said=event)


def drill_ended(run: Run, event: ev.DrillEnded) -> None:
    """Keep what was said of a drill, and drop all that was open: its run is over."""
    owned(run, "decided")[event.decision.call] = event.decision
    drop_below(run, ev.ROOT)
    run.frames[ev.ROOT].move("close")
    run.move("finish")


def _of_this_asking(run: Run, call: Call, shown: str) -> bool:
    """Return whether what is said is of this asking of this call of this run; anything else is said of nothing here.

    A mark or a look of an earlier version does not say what it is of.
    """
    return not shown or shown == call_digest(run, call)


def unmarked(call: Call) -> None:
    """Drop the marks of a call that asks anew, and its confirmation: they were about what was asked before."""
    call.claim = call.confirmed = None
    call.snoozes = {}
    call.looks = {}
    call.withdrawn = ()


def from_first_step(call: Call) -> None:
    """Have an approval chain begin anew, on the terms of its first step."""
    call.terms = stated_terms(call)
    call.met = ()


def without_lapsed(call: Call, event: ev.VoteCast | ev.CallDecided) -> None:
    """Drop the votes of those who could not have cast them by now."""
    if event.lapsed:
        call.votes = {by: vote for by, vote in call.votes.items() if by not in event.lapsed}


def step_of(call: Call, by: str | None) -> int | None:
    """Return which step of a chain somebody's vote met, from 0 on; None where they have none in one that is met."""
    voted = (place for place, step in enumerate(call.met) if any(vote.by == by for vote in step.votes))
    return next(voted, None)


def vote_cast(run: Run, event: ev.VoteCast) -> None:
    """Count a vote, or note what comes before the votes of others: a confirmation, or that a step of a chain is met.

    What was replaced counts not.
    """
    if event.replaced:
        return
    call = run.calls[event.decision.call]
    if not _of_this_asking(run, call, event.decision.digest):
        return
    without_lapsed(call, event)
    if event.decision.confirms and call.terms is not None and call.terms.then is not None:
        votes = {**agreeing(run, call, event.decision), event.decision.by or "": event.decision}
        call.met = (*call.met, StepMet(call.terms, tuple(votes.values()), call.looks, call.asks))
    elif event.decision.confirms:
        call.confirmed = event.decision
    else:
        call.votes = {**call.votes, event.decision.by or "": event.decision}


def vote_withdrawn(run: Run, event: ev.VoteWithdrawn) -> None:
    """Drop a vote; a confirmation goes with the votes that rested on it, and a step of a chain with the later ones."""
    made = event.decision
    if event.once:
        owned(run, "named")[event.once] = digest(["withdraw", made.call, made.note])
    call = run.calls[made.call]
    if not _of_this_asking(run, call, made.digest):
        return
    call.withdrawn = (*call.withdrawn, made)
    call.met = call.met[: step_of(call, made.by)]
    if call.confirmed is not None and call.confirmed.by == made.by:
        call.confirmed = None
        call.votes = {}
    else:
        call.votes = {by: vote for by, vote in call.votes.items() if by != made.by}


def approval_withdrawn(run: Run, event: ev.ApprovalWithdrawn) -> None:
    """Note its name, and how long the call was pending: that it asks anew, or is in doubt, is said by the event after.

    What asks anew goes on with the time that it had left. A chain begins anew, with the time of its first step.
    """
    call = run.calls[event.call]
    made = None if call.met or call.acted else call.decision
    call.pended = 0 if made is None else made.at - call.asked_at
    if event.once:
        owned(run, "named")[event.once] = digest(["withdraw", event.call, event.note])


def expiry_near(run: Run, event: ev.ExpiryNear) -> None:
    """Note that people were warned of the request's end."""
    run.calls[event.call].warned = True


def call_held(run: Run, event: ev.CallHeld) -> None:
    """Note until when a caller outside holds a call."""
    run.calls[event.call].held_until = event.until
