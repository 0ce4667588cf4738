"""Judge what people say beside their decisions: marks, looks, and votes and approvals that are withdrawn.

A mark restricts nobody. To take an approval back is a word of its own, since it only ever makes a run do less: whoever
may decide the call may say it, and so may whoever let it run.
"""

from __future__ import annotations

from .. import commands as cm
from .. import events as ev
from ..encodable import moment
from ..errors import Conflict, Expired, NotAllowed, NotPending, UserError
from ..people import Decider, Proof, kept_out, plain_text
from ..records import BY_GRANT
from ..run import Call, Run, behind_glass, call_digest, ran_out, stated_terms
from ..states import READY, WAITING
from .deciding import check_not_withdrawn
from .noting import step_of
from .opening import Events, go_on, open_run, said_once
from .verdicts import void
from .words import decided_before

_LONGEST_MS = 31 * 24 * 3_600_000


def mark(run: Run, c: cm.MarkCall) -> Events:
    """Record or take off a mark on a request that waits."""
    if said_once(run, c.once, ["mark", c.call, c.mark, c.until is None]):
        return
    open_run(run)
    call = run.calls.get(c.call)
    if call is None or call.state not in WAITING:
        raise NotPending("this call is not pending, so it cannot be claimed or snoozed")
    if c.digest != call_digest(run, call):
        raise Conflict("the request is no longer the one that was shown; look at it again")
    why = kept_out(call.terms, c.decider, run.requester)
    if why:
        raise NotAllowed(f"{c.decider.id} cannot mark this request: {why}")
    before = call.claim if c.mark == "claim" else call.snoozes.get(c.decider.id)
    if c.until is None:
        if before is not None and before.decider.id != c.decider.id:
            raise Conflict(f"{before.decider.id} claimed it, and only they can release it", winner=before.decider.id)
        if before is not None:
            yield ev.CallMarked(c.call, c.mark, c.decider, digest=c.digest, once=c.once)
        return
    if not run.now < c.until <= run.now + _LONGEST_MS:
        raise UserError("until= must be in the future, and at most 31 days away")
    if before is None or (before.decider, before.until) != (c.decider, c.until):
        yield ev.CallMarked(c.call, c.mark, c.decider, c.until, c.digest, c.once)


def look(run: Run, c: cm.RecordLook) -> Events:
    """Record that somebody has a request on the screen, once as it is asked now; a name alone is nobody known."""
    open_run(run)
    call = run.calls.get(c.call)
    if call is None or call.state not in WAITING:
        raise NotPending("this call is not pending, so there is nothing to view")
    if c.digest != call_digest(run, call):
        raise Conflict("the request is no longer the one that was shown; look at it again")
    if c.decider.strength == "claimed":
        raise NotAllowed(
            f"{c.decider.id} is an unverified name, and only a signed-in user can view a request on record"
        )
    why = kept_out(call.terms, c.decider, run.requester)
    glass = behind_glass(call)
    if why and (glass is None or kept_out(glass, c.decider, run.requester)):
        raise NotAllowed(f"{c.decider.id} cannot look at this request: {why}")
    if c.decider.id not in call.looks:
        yield ev.CallLooked(c.call, c.decider, c.digest)


def withdraw(run: Run, c: cm.Withdraw) -> Events:
    """Withdraw one's vote on what waits, else what lets a call run that has not started."""
    if said_once(run, c.once, ["withdraw", c.call, c.note]):
        return
    open_run(run)
    call = run.calls.get(c.call)
    if c.note is not None:
        plain_text(c.note, "a note")
    if call is not None and call.state in WAITING and own_vote(call, c.decider) is not None:
        place = step_of(call, c.decider.id)
        back = None if place is None else call.met[place].terms
        yield _vote_withdrawn(run, call, c)
        if back is not None:
            yield ev.CallAskedAgain(call.id, "step", run.now, back)
        yield from go_on(run)
        return
    if call is None or call.state not in READY:
        raise _not_ready(run, c.call, call)
    yield from _approval_withdrawn(run, call, c)


def own_vote(call: Call, who: Decider) -> ev.Decision | None:
    """Return the vote that somebody has on a request that waits, or their confirmation of it."""
    said = [call.confirmed, *call.votes.values()]
    if call.state != "needs":  # what it asks now is asked on the word of all who let it run
        said += [vote for step in call.met for vote in step.votes]
    return next((vote for vote in said if vote is not None and vote.by == who.id), None)


def withdrawal_of(run: Run, call: Call, who: Decider, note: str | None, proof: Proof | None) -> ev.Decision:
    """Return the withdrawal of a vote as it is recorded, and signed."""
    count = len(call.withdrawn)
    return ev.Decision(
        call.id, "withdraw", call_digest(run, call), run.now, who, note=note, proof=proof, withdrawals=count
    )


def _vote_withdrawn(run: Run, call: Call, c: cm.Withdraw) -> ev.VoteWithdrawn:
    """Withdraw a vote: as sure of who says it as the vote was, and signed where that was."""
    vote = own_vote(call, c.decider)
    shown = call_digest(run, call)
    if c.digest not in (None, shown):
        raise Conflict("the request is no longer the one that was shown; look at it again")
    if call.state == "asked" and ran_out(run, call):
        raise Expired("this request has expired, and its votes with it; the call was not executed")
    made = withdrawal_of(run, call, c.decider, c.note, c.proof)
    if vote is not None and vote.proof is not None and c.proof is None:
        raise NotAllowed("this vote is signed, and so is its withdrawal: sign it with your own key")
    known = vote is None or vote.decider is None or vote.decider.strength == "claimed"
    if not known and c.decider.strength == "claimed":
        raise NotAllowed(f"{c.decider.id} is a name alone, which proves nothing: sign in to withdraw this vote")
    check_not_withdrawn(call, made)
    return ev.VoteWithdrawn(made, c.once)


def _approval_withdrawn(run: Run, call: Call, c: cm.Withdraw) -> Events:
    """Take back what lets a call run that has not started: it asks anew, or is in doubt where it ran before."""
    decision = call.decision
    if c.vote == "reject" and decision is not None:
        raise decided_before(decision)
    granted = call.by.removeprefix(BY_GRANT) if decision is None and call.by.startswith(BY_GRANT) else None
    if call.state == "supplied" or (decision is None and granted is None):
        raise NotPending("no one approved this call, so there is no approval to withdraw; cancel the run to stop it")
    if c.digest is not None and c.digest not in (call_digest(run, call), "" if decision is None else decision.digest):
        raise Conflict("approval was requested again since the call was shown; review it again")
    if not _let_it_run(run, call, c.decider, granted):
        why = kept_out(call.terms, c.decider, run.requester)
        if why:
            raise NotAllowed(f"{c.decider.id} cannot withdraw this approval: {why}")
    yield ev.ApprovalWithdrawn(c.call, c.decider, c.note, c.once)
    said = f"{c.decider.id} withdrew the approval"
    yield from void(run, call, f"{said}: {c.note}" if c.note else said, stated_terms(call))
    yield from go_on(run)


def _let_it_run(run: Run, call: Call, who: Decider, granted: str | None) -> bool:
    """Return whether somebody is among those on whose word a call runs; a name alone is nobody known."""
    decision = call.decision
    grant = granted if decision is None else decision.grant
    given = run.grants[grant].decider if grant in run.grants else None
    votes = [*call.votes.values(), *(vote for step in call.met for vote in step.votes)]
    words = [given, *([] if decision is None else [decision.decider]), *(vote.decider for vote in votes)]
    known = who.strength != "claimed"
    return known and any(one is not None and one.strength != "claimed" and one.id == who.id for one in words)


def too_late(by: str, at: int) -> Conflict:
    """Make the `Conflict` that tells who takes an approval back too late by whom the call was started, and when."""
    winner = by or "the process that has the run"
    return Conflict(
        f"this call was started at {moment(at):%H:%M:%S} UTC by {winner}; a started call cannot be withdrawn",
        winner=winner,
        decision="start",
        at=at,
    )


def _not_ready(run: Run, name: str, call: Call | None) -> Conflict | NotPending:
    """Say why there is nothing to take back: of what was started, when and by whom."""
    if call is not None and call.state in WAITING and not call.begun:
        return NotPending("you have no vote on this request; it is pending, and you can reject it")
    if call is not None and call.begun:
        return too_late(call.started_by, call.started_at)
    if call is None and name in run.decided:
        return Conflict("this call already has its result; there is nothing to withdraw", decision="settled")
    return NotPending("no call of that id in this run is approved and not started")
