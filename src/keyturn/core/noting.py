"""Fold what people say beside their decisions."""

from __future__ import annotations

from . import events as ev
from .run import Call, Run


def call_marked(run: Run, event: ev.CallMarked) -> None:
    """Keep a mark, or drop the one that is taken off; one claim stands at a time, and one snooze for each person."""
    call = run.calls[event.call]
    if event.mark == "claim":
        call.claim = None if event.until is None else event
        return
    who = event.decider.id
    others = {by: mark for by, mark in call.snoozes.items() if by != who}
    call.snoozes = others if event.until is None else {**others, who: event}


def unmarked(call: Call) -> None:
    """Drop the marks of a call that asks anew, and its confirmation: they were about what was asked before."""
    call.claim = call.confirmed = None
    call.snoozes = {}


def vote_cast(run: Run, event: ev.VoteCast) -> None:
    """Count a vote, or note the confirmation that comes before the votes of others; what was replaced counts not."""
    if event.replaced:
        return
    call = run.calls[event.decision.call]
    if event.decision.confirms:
        call.confirmed = event.decision
    else:
        call.votes = {**call.votes, event.decision.by or "": event.decision}


def approval_withdrawn(run: Run, event: ev.ApprovalWithdrawn) -> None:
    """Note nothing: that the call asks anew, or is in doubt, is said by the event that follows."""


def expiry_near(run: Run, event: ev.ExpiryNear) -> None:
    """Note that people were warned of the request's end."""
    run.calls[event.call].warned = True
