"""Deliver decisions to their calls, with the grants that they give.

One place decides whether a call may run, for every kind of tool at every depth and from every door. A decision is bound
to the digest of what was shown, is used once, and beats a grant. Who may decide is judged here, from what the call's
terms say and what the decision says of its decider; what is not known is refused.
"""

from __future__ import annotations

from msgspec.structs import replace

from .. import commands as cm
from .. import events as ev
from ..errors import Conflict
from ..people import voices
from ..run import Call, Run, call_digest, confirmed, edit_digest, terms_now
from .deciding import NO_PERSON, agreeing, check_decision, repeated
from .grants import as_given, cover_waiting
from .opening import Events, go_on, open_run
from .reviews import glass_broken
from .words import in_two_steps, needed, same_decision


def on_run_time(run: Run, c: cm.Deliver, now: int) -> cm.Deliver:
    """Return decisions with the time of each on the run's own time, given what the clock says now.

    The same clock says how long a decision was in hand; that is subtracted from the run's time, which never goes back
    though the clock may have been wrong.
    """
    ahead = run.now - now
    said = [replace(each, at=max(0, min(run.now, each.at + ahead)) if each.at else run.now) for each in c.decisions]
    return replace(c, decisions=said)


def deliver(run: Run, c: cm.Deliver) -> Events:
    """Record decisions, from whatever door, all or none; what a person decides resumes a run that failed."""
    recorded = False
    for event in _delivered(run, c):
        recorded = True
        yield event
    if recorded and any(decision.via not in NO_PERSON for decision in c.decisions):
        yield from go_on(run)


def one_by_one(c: cm.Deliver) -> list[cm.Deliver]:
    """Split decisions on different calls into deliveries that fold to the same, one after the other.

    Not those that come with grants, which cover what is left once all of them are recorded.
    """
    if c.grants or c.replaced or c.lapsed or len({decision.call for decision in c.decisions}) < len(c.decisions):
        return [c]
    return [cm.Deliver([decision]) for decision in c.decisions]


def _delivered(run: Run, c: cm.Deliver) -> Events:
    fresh: list[ev.Decision] = []
    first: dict[str, ev.Decision] = {}
    for decision in [decision for decision in c.decisions if not repeated(run, decision)]:
        check_decision(run, decision)
        if not same_decision(first.setdefault(decision.call, decision), decision):
            raise Conflict("one delivery has two decisions for one call; deliver one of them")
        fresh.append(decision)
    if c.grants:
        open_run(run)
    granted = [as_given(run, grant, c.decisions) for grant in c.grants]
    for decision in c.replaced:
        if decision.call in first:
            yield ev.VoteCast(replace(decision, at=min(decision.at or run.now, run.now)), replaced=True)
    for decision in fresh:
        call = run.calls[decision.call]
        if call.met and decision.digest != call_digest(run, call):
            continue  # another of this delivery met the step that it is of
        if not repeated(run, decision):  # else it says what another of this delivery has settled
            yield from _decided(run, call, decision, c.lapsed)
    for grant in granted:
        if grant.id not in run.grant_uses:
            yield ev.GrantGiven(grant)
            yield from cover_waiting(run, grant)


def _decided(run: Run, call: Call, decision: ev.Decision, left: tuple[str, ...]) -> Events:
    """Record a decision; it settles the call once enough people say the same, without those who have `left`.

    It may have been said before it was delivered, and goes stale the earlier.
    """
    decision = replace(decision, runs=None, confirms=False, key="")
    if decision.args is not None:
        runs = edit_digest(run, call, decision.args, decision.basis)
        decision = replace(decision, runs=runs, key=call.proposal.key)
    terms = terms_now(run, call)
    if in_two_steps(call) and not confirmed(run, call) and decision.verdict == "approve" and not decision.broke_glass:
        yield ev.VoteCast(replace(decision, confirms=True))
        return
    by = decision.by or ""
    alone = decision.via in NO_PERSON or call.state == "needs" or decision.broke_glass
    lapsed = tuple(each for each in left if each in call.votes)
    votes = {each: vote for each, vote in agreeing(run, call, decision).items() if each not in lapsed}
    words = {vote.by or "": vote.decider for vote in votes.values()} | {by: decision.decider}
    if not alone and voices(words.values()) < needed(terms, decision.verdict):
        before = votes.get(by)  # one that went stale is cast anew
        if before is None or not same_decision(before, decision) or before.basis != decision.basis:
            yield ev.VoteCast(decision, lapsed=lapsed)
        return
    if terms is not None and terms.then is not None and not alone and decision.verdict in ("approve", "retry"):
        yield ev.VoteCast(replace(decision, confirms=True), lapsed=lapsed)
        yield ev.CallAskedAgain(call.id, "step", run.now, terms.then)
        return
    if call.state != "asked" and call.decision is not None and call.decision.args is not None:
        edit = call.decision
        bound = edit_digest(run, call, call.text, edit.basis)
        decision = replace(decision, args=edit.args, basis=edit.basis, runs=bound)
    yield ev.CallDecided(decision, lapsed)
    yield from glass_broken(call, decision)
