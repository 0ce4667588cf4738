"""Judge a decision: who makes it, of what, whether others agree, and whether it was made before."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from .. import events as ev
from ..approval import Approval
from ..digest import same
from ..errors import Conflict, Expired, NotAllowed, NotPending
from ..people import barred, same_voice, voices
from ..records import RUNS, StepMet
from ..run import (
    Call,
    Run,
    allowed_by,
    behind_glass,
    call_digest,
    confirmed,
    edit_digest,
    ran_out,
    stated_terms,
    terms_now,
)
from ..states import WAITING
from .combined_terms import escalated_from
from .opening import OPENING, open_run
from .words import check_words, decided_before, lacks_reason, needed, same_decision, voted_earlier

# What decides without being a person, each where it stands in this file and the engine.
NO_PERSON = ("grant", "clock", "probe")


def repeated(run: Run, decision: ev.Decision) -> bool:
    """Return whether this very decision was given before; repeating it is harmless, and never a new one."""
    call = run.calls.get(decision.call)
    before = run.decided.get(decision.call)
    sure = call.confirmed if call is not None and call.state == "asked" and confirmed(run, call) else None
    if sure is not None and sure.decider == decision.decider and same_decision(sure, decision):
        return True
    if call is not None and call.met:
        earlier = [vote for step in call.met for vote in step.votes if vote.decider == decision.decider]
        if any(same_decision(vote, decision) for vote in earlier):
            return True
    if before is None or not same_decision(before, decision):
        return False
    return call is None or call.state not in WAITING or (before.decider, before.via) == (decision.decider, decision.via)


def check_decision(run: Run, decision: ev.Decision) -> None:
    """Refuse a decision that does not fit what waits, or is of somebody who may not decide it."""
    call = run.calls.get(decision.call)
    before = run.decided.get(decision.call)
    if before is not None and before.verdict == "expire":
        raise Expired("this request has expired; the call was not executed and can no longer be approved")
    if call is None or call.state not in WAITING:
        if before is not None:
            raise decided_before(before)
        open_run(run)
        raise NotPending("no pending call of this run matches that decision; see get_interruptions()")
    open_run(run)
    if decision.verdict not in OPENING[call.state]:
        raise NotPending(f"a call that is {call.state} cannot be decided with {decision.verdict!r}")
    if decision.digest != call_digest(run, call):
        raise Conflict("the call is no longer the one that was shown; look at get_interruptions() again")
    if call.state == "asked" and ran_out(run, call):
        raise Expired("this request expired before the decision was delivered; the call was not executed")
    check_not_withdrawn(call, decision)
    _check_decider(run, call, decision)
    check_words(run, call, decision)


def check_not_withdrawn(call: Call, decision: ev.Decision) -> None:
    """Refuse a vote that was made before its voter withdrew one on this asking: it would undo the withdrawal.

    What is signed names how many withdrawals there were, so that a signature from before is no vote a second time.
    """
    own = [place for place, made in enumerate(call.withdrawn, 1) if made.by == decision.by]
    if not (own[-1] if own else 0) <= decision.withdrawals <= len(call.withdrawn):
        raise Conflict("this vote was made before it was withdrawn; look at the request again, and vote anew")


def _check_decider(run: Run, call: Call, decision: ev.Decision) -> None:
    """Check that this person may decide this call, in whatever state it waits; a probe decides for its own tool."""
    if decision.grant is not None or (decision.via != "person" and decision.decider is not None):
        raise NotAllowed("a decision is made by a person or by a program, not by both")
    if decision.via == "probe" and call.state == "in_doubt" and call.proposal.recover == "probe":
        if decision.verdict == "retry" and call.revoked:
            raise NotAllowed("the earlier approval of this call is no longer valid; a person must resolve the call")
        return
    if decision.via in NO_PERSON:
        raise NotAllowed(f"no one can decide in the name of the {decision.via}; pass the approver")
    terms = behind_glass(call) if decision.broke_glass and call.terms is not None else terms_now(run, call)
    if terms is None and decision.broke_glass:
        raise NotAllowed("the terms of this call allow no emergency override")
    why = barred(terms, decision.decider, run.requester, decision.proof)
    why = why or voted_earlier(run, call, decision.decider)
    if why:
        raise NotAllowed(f"this call cannot be decided by {decision.by or 'an unnamed approver'}: {why}")
    why = unlooked(call.looks, terms, decision)
    if why:
        raise NotAllowed(f"this call cannot be approved yet by {decision.by or 'an unnamed approver'}: {why}")


def meets(run: Run, call: Call, terms: Approval | None) -> bool:
    """Return whether what was decided meets other terms as well: who decided, how many they were, and why."""
    decision = allowed_by(call)
    if decision is None:  # it was allowed, and a check of its tool found that it did not run: nobody was ever asked
        return False
    if terms is None or terms == stated_terms(call) or (not call.met and escalated_from(terms, call.terms)):
        return True
    if decision.broke_glass:
        glass = terms.behind_glass()
        known = glass is not None and not barred(glass, decision.decider, run.requester, decision.proof)
        return known and not unlooked(call.looks, terms, decision)
    steps = iter([*call.met, _last_step(run, call, decision)])  # those of a chain are met in their order
    return all(any(_meets(run, call, each, step) for step in steps) for each in terms.in_turn)


def _last_step(run: Run, call: Call, decision: ev.Decision) -> StepMet:
    """Return how the last step of a call was met, or its only one: by its decision and the votes for the same."""
    who = run.grants[decision.grant].decider if decision.grant in run.grants else decision.decider
    votes = agreeing(run, call, decision) | {decision.by or "": replace(decision, decider=who)}
    return StepMet(call.terms or Approval(), tuple(votes.values()), call.looks, call.asks)


def _meets(run: Run, call: Call, terms: Approval, step: StepMet) -> bool:
    """Return whether the votes that met a step meet other terms."""
    if call.met and (terms == step.terms.alone or escalated_from(terms, step.terms.alone)):
        return True
    decision = step.votes[-1]
    sure = call.confirmed if terms.in_two_steps else None
    if terms.in_two_steps:
        first = terms.at_step(confirmed=False)
        if sure is None or barred(first, sure.decider, run.requester, sure.proof):
            return False
        if unlooked(step.looks, terms, sure):
            return False
        terms = terms.at_step(confirmed=True)
    if any(unlooked(step.looks, terms, vote) for vote in step.votes):
        return False
    known = not any(barred(terms, vote.decider, run.requester, vote.proof) for vote in step.votes)
    known = known and (sure is None or not any(same_voice(sure.decider, vote.decider) for vote in step.votes))
    reasoned = call.state == "supplied" or not lacks_reason(terms, decision)
    enough = voices(vote.decider for vote in step.votes) >= needed(terms, decision.verdict)
    return known and reasoned and (call.state == "supplied" or enough)


def agreeing(run: Run, call: Call, decision: ev.Decision) -> dict[str, ev.Decision]:
    """Return the votes for exactly this decision that have not gone stale.

    One who approved has not seen what another edited.
    """
    if not call.votes:
        return {}
    limit = call.terms.execute_by_ms if call.terms is not None else None

    def agrees(vote: ev.Decision) -> bool:
        if vote.verdict == "reject" or decision.verdict == "reject":
            return vote.verdict == decision.verdict
        alike = (vote.verdict, vote.args, vote.basis) == (decision.verdict, decision.args, decision.basis)
        return alike and same(vote.output, decision.output)

    own = {by: vote for by, vote in call.votes.items() if vote.digest == decision.digest}
    fresh = {by: vote for by, vote in own.items() if limit is None or run.now <= vote.at + limit}
    return {by: vote for by, vote in fresh.items() if agrees(vote)}


def bound_as_decided(run: Run, call: Call) -> bool:
    """Return whether what would run is what was decided: the bytes that were shown, or those of the edit."""
    decision = call.decision
    if decision is None or decision.args is None:
        return decision is None or decision.digest == call_digest(run, call)
    return decision.runs == edit_digest(run, call, call.text, decision.basis)


def unlooked(looks: Mapping[str, int], terms: Approval | None, said: ev.Decision) -> str:
    """Return why a word comes too soon to let a call run; "" where it does not."""
    floor = None if terms is None else terms.min_look_ms
    if floor is None or said.verdict not in RUNS:
        return ""
    who = said.decider
    since = None if who is None or who.strength == "claimed" else looks.get(who.id)
    if since is None:
        return (
            "it requires a signed-in approver who viewed the request first, and no view is recorded; show it, call "
            "looked(request, by=...) of the inbox, then decide"
        )
    left = floor - (said.at - since)
    if left <= 0:
        return ""
    return f"it must be viewed for {floor / 1_000:g} s before it is approved, and {left / 1_000:g} s of them are left"
