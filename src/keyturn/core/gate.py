"""The gate, which applies verdicts, grants, decisions and the clock to a call.

One place decides whether a call may run, for every kind of tool at every depth and from every door. A decision is bound
to the digest of what was shown, is used once, and beats a grant. Who may decide is judged here, from what the call's
terms say and what the decision says of its decider; what is not known is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from . import commands as cm
from . import events as ev
from .combined_terms import escalated_from
from .digest import canonical, same
from .errors import Conflict, Expired, NotAllowed, NotPending, UserError
from .looking import unlooked
from .people import barred, plain_text, same_voice, voices
from .policy import Approval, Verdict, check_share
from .predicate import check_where, holds, may_hold
from .preview import Preview
from .records import BY_GRANT, Word
from .reviews import glass_broken, sampled
from .run import Call, Run, call_digest, confirmed, edit_digest, let_by, ran_out, terms_now
from .states import OVER, READY, WAITING
from .words import check_words, confirmed_by, decided_before, in_two_steps, lacks_reason, needed, say_alike

Events = Iterator[ev.AnyEvent]

# The words that open a call in each state it waits in.
OPENING: dict[str, tuple[Word, ...]] = {
    "asked": ("approve", "edit", "reject", "answer"),
    "in_doubt": ("ran", "did_not_run", "retry"),
    "needs": ("answer", "reject"),
}
# What decides without being a person, each where it stands in this file and the engine.
_NO_PERSON = ("grant", "clock", "probe")


# Verdicts -----------------------------------------------------------------------------------------------------------


def screen(run: Run, c: cm.Screen) -> Events:
    """Record a verdict on a call: the first one, or that of the newest policy on a decision."""
    call = run.calls.get(c.call)
    if call is None or run.status in OVER:
        return
    if not (call.recheck and call.state in READY) if c.on_decision else call.state != "proposed":
        return  # it was asked of something else: what is shown now has not been judged
    canonical(None if c.preview is None else c.preview.basis)  # a decision will be bound to it
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    for place, event in enumerate(screened(run, call, c.verdict, c.preview)):
        told = place == 0 and isinstance(event, ev.CallScreened)
        yield replace(event, quotas=c.quotas, shadow=c.shadow, watched=c.watched) if told else event


def screened(run: Run, call: Call, verdict: Verdict, preview: Preview | None = None) -> Events:
    """Yield the events of a verdict, and of a standing decision with it."""
    action = verdict.action
    if call.recheck and action == "deny" and unknown(call):
        yield from lost_before(call, "the policy denies it now")
        return
    if call.recheck:
        yield ev.CallScreened(call.id, action, verdict.reason, verdict.by)
        if action == "ask" and not meets(run, call, verdict.terms):
            yield from void(run, call, "the policy asks for more than was decided on", verdict.terms)
        return
    if call.voided and action == "allow":
        action = "ask"
    reason = call.voided or verdict.reason
    grant = None if action == "deny" or call.voided else grant_for(run, call, verdict.terms)
    share = verdict.review
    if grant is not None and action == "allow":
        if grant.verdict == "reject":  # "never again" is about the tool
            action = "ask"
        else:  # "always" is not used up for nothing
            grant = None
    if grant is not None and grant.verdict == "approve":
        yield ev.CallScreened(call.id, "allow", reason, f"{BY_GRANT}{grant.id}", verdict.terms, review=share)
        yield ev.GrantUsed(grant.id, call.id)
        yield from sampled(run, call, max(grant.review, share), grant.decider)
        return
    shown = preview if action == "ask" else None
    yield ev.CallScreened(call.id, action, reason, verdict.by, verdict.terms, run.now, shown, review=share)
    if grant is not None:
        yield from by_grant(run, call, grant)
    elif action == "allow":
        yield from sampled(run, call, share)


# Standing decisions -------------------------------------------------------------------------------------------------


def grant_for(run: Run, call: Call, terms: Approval | None) -> ev.GrantTerms | None:
    """Return the newest standing decision that covers a call; one of another run only where this one has none."""
    newest = list(reversed(run.grants.values()))
    own_first = [*(grant for grant in newest if grant.call is None), *(grant for grant in newest if grant.call)]
    return next((grant for grant in own_first if covers(run, grant, call, terms)), None)


def covers(run: Run, grant: ev.GrantTerms, call: Call, terms: Approval | None) -> bool:
    """Return whether a standing decision covers a call: one whose giver could decide this very call alone."""
    if (grant.agent, grant.tool) != (call.agent, call.proposal.tool) or needed(terms, grant.verdict) > 1:
        return False
    if grant.call not in (None, call.id):
        return False
    if terms is not None and (terms.in_two_steps or terms.min_look is not None) and grant.verdict == "approve":
        return False
    said = call.confirmed is not None and confirmed(run, call)
    due = None if terms is None else terms.at_step(confirmed=said)
    if barred(due, grant.decider, run.requester):
        return False
    spent = grant.uses is not None and run.grant_uses.get(grant.id, 0) >= grant.uses
    over = grant.expires_at is not None and run.now >= grant.expires_at
    if spent or over:
        return False
    # An approval covers what it surely means. "Never again" holds where nobody can tell, too.
    means = holds if grant.verdict == "approve" else may_hold
    return means(grant.where, call.params)


def by_grant(run: Run, call: Call, grant: ev.GrantTerms) -> Events:
    """Decide a call by a standing decision that covers it."""
    shown = call_digest(run, call)
    yield ev.CallDecided(
        ev.Decision(call.id, grant.verdict, shown, run.now, via="grant", grant=grant.id, message=grant.message)
    )
    yield ev.GrantUsed(grant.id, call.id)
    if grant.verdict == "approve":
        yield from sampled(run, call, max(grant.review, call.review), grant.decider)


def _cover_waiting(run: Run, grant: ev.GrantTerms) -> Events:
    """Apply a new grant to the calls that wait already, which no older one covers."""
    for call in list(run.groups["wait"].values()):
        if call.state == "asked" and not ran_out(run, call) and covers(run, grant, call, call.terms):
            yield from by_grant(run, call, grant)


def _granted(run: Run, grant: ev.GrantTerms, decisions: list[ev.Decision]) -> ev.GrantTerms:
    """Return a standing decision to record; refuse one that comes with no decision of its giver on a call like it."""
    if grant.id in run.grant_uses:  # it was given before, and may have been revoked since: an id is given once
        return grant
    if grant.verdict not in ("approve", "reject"):
        raise UserError("a standing decision approves or rejects")
    if grant.message is not None:
        plain_text(grant.message, "a message")
    if grant.call is not None or (grant.reach and grant.verdict != "approve"):
        raise UserError("only an approval reaches beyond its run, and it is given for no single call")
    check_share("review", grant.review)
    check_where(grant.where)
    beside = [decision for decision in decisions if _goes_with(run, grant, decision)]
    if not beside:
        raise UserError("a standing decision is given with a decision on a call of the same tool, by the same person")
    first = [run.decided[decision.call] for decision in beside if repeated(run, decision)]
    if len(first) == len(beside) and grant.decider not in [before.decider for before in first]:
        raise decided_before(first[0])  # a repeated word decides nothing, so no grant can come with it
    return replace(grant, terms=run.calls[beside[0].call].terms if grant.verdict == "reject" else None)


def _goes_with(run: Run, grant: ev.GrantTerms, decision: ev.Decision) -> bool:
    call = run.calls.get(decision.call)
    if call is None or (call.agent, call.proposal.tool) != (grant.agent, grant.tool):
        return False
    several = in_two_steps(call) and decision.verdict != "reject"
    if call.state == "asked" and (several or decision.broke_glass or needed(call.terms, decision.verdict) > 1):
        raise NotAllowed("this call takes several people, and a standing decision would be of one; decide it alone")
    if call.state == "asked" and call.terms is not None and call.terms.min_look and decision.verdict != "reject":
        raise NotAllowed("who approves this call looks at it, and a standing decision looks at none; decide it alone")
    alike = (decision.verdict == "reject") == (grant.verdict == "reject")
    return alike and decision.via not in _NO_PERSON and decision.decider == grant.decider


# Decisions ----------------------------------------------------------------------------------------------------------


def deliver(run: Run, c: cm.Deliver) -> Events:
    """Record decisions, from whatever door, all or none."""
    fresh: list[ev.Decision] = []
    first: dict[str, ev.Decision] = {}
    for decision in [decision for decision in c.decisions if not repeated(run, decision)]:
        check_decision(run, decision)
        if not say_alike(first.setdefault(decision.call, decision), decision):
            raise Conflict("one delivery decides one call in two ways; deliver the one that counts")
        fresh.append(decision)
    if c.grants:
        open_run(run)
    granted = [_granted(run, grant, c.decisions) for grant in c.grants]
    for decision in c.replaced:
        if decision.call in first:
            yield ev.VoteCast(replace(decision, at=min(decision.at or run.now, run.now)), replaced=True)
    for decision in fresh:
        if not repeated(run, decision):  # else it says what another of this delivery has settled
            yield from _decided(run, run.calls[decision.call], decision)
    for grant in granted:
        if grant.id not in run.grant_uses:
            yield ev.GrantGiven(grant)
            yield from _cover_waiting(run, grant)


def repeated(run: Run, decision: ev.Decision) -> bool:
    """Return whether this very decision was given before; repeating it is harmless, and never a new one."""
    call = run.calls.get(decision.call)
    before = run.decided.get(decision.call)
    sure = call.confirmed if call is not None and call.state == "asked" and confirmed(run, call) else None
    if sure is not None and sure.decider == decision.decider and say_alike(sure, decision):
        return True
    if before is None or not say_alike(before, decision):
        return False
    return call is None or call.state not in WAITING or (before.decider, before.via) == (decision.decider, decision.via)


def check_decision(run: Run, decision: ev.Decision) -> None:
    """Refuse a decision that does not fit what waits, or is of somebody who may not decide it."""
    call = run.calls.get(decision.call)
    before = run.decided.get(decision.call)
    if before is not None and before.verdict == "expire":
        raise Expired("this request ran out of time; the call was not executed and cannot be approved any more")
    if call is None or call.state not in WAITING:
        if before is not None:
            raise decided_before(before)
        open_run(run)
        raise NotPending("no call of this run waits for that decision; look at get_interruptions() again")
    open_run(run)
    if decision.verdict not in OPENING[call.state]:
        raise NotPending(f"a call that is {call.state} cannot be decided with {decision.verdict!r}")
    if decision.digest != call_digest(run, call):
        raise Conflict("the call is no longer the one that was shown; look at get_interruptions() again")
    if call.state == "asked" and ran_out(run, call):
        raise Expired("this request ran out of time before the decision was delivered; the call was not executed")
    _check_decider(run, call, decision)
    check_words(run, call, decision)


def _check_decider(run: Run, call: Call, decision: ev.Decision) -> None:
    """Check that this person may decide this call, in whatever state it waits; a probe decides for its own tool."""
    if decision.grant is not None or (decision.via != "person" and decision.decider is not None):
        raise NotAllowed("a decision is of one person, or of what is no person, and not of both")
    if decision.via == "probe" and call.state == "in_doubt" and call.proposal.recover == "probe":
        if decision.verdict == "retry" and call.revoked:
            raise NotAllowed("what let this call run before does not any more; a person says what becomes of it")
        return
    if decision.via in _NO_PERSON:
        raise NotAllowed(f"nobody can decide in the name of the {decision.via}; say who decides")
    terms = terms_now(run, call) if call.terms is None or not decision.broke_glass else call.terms.behind_glass()
    if terms is None and decision.broke_glass:
        raise NotAllowed("the terms of this call let nobody break the glass")
    why = barred(terms, decision.decider, run.requester, decision.proof)
    if not why and confirmed_by(run, call, decision.decider):
        why = "it takes somebody other than the one who confirmed it"
    if why:
        raise NotAllowed(f"this call cannot be decided by {decision.by or 'nobody in particular'}: {why}")
    why = unlooked(call, terms, decision)
    if why:
        raise NotAllowed(f"this call cannot be approved yet by {decision.by or 'nobody in particular'}: {why}")


def _decided(run: Run, call: Call, decision: ev.Decision) -> Events:
    """Record a decision; it settles the call once enough people say the same.

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
    alone = decision.via in _NO_PERSON or call.state == "needs" or decision.broke_glass
    votes = _agreeing(run, call, decision)
    words = {vote.by or "": vote.decider for vote in votes.values()} | {by: decision.decider}
    if not alone and voices(words.values()) < needed(terms, decision.verdict):
        before = votes.get(by)  # one that went stale is cast anew
        if before is None or not say_alike(before, decision) or before.basis != decision.basis:
            yield ev.VoteCast(decision)
        return
    if call.state != "asked" and call.decision is not None and call.decision.args is not None:
        edit = call.decision
        bound = edit_digest(run, call, call.text, edit.basis)
        decision = replace(decision, args=edit.args, basis=edit.basis, runs=bound)
    yield ev.CallDecided(decision)
    yield from glass_broken(call, decision)


def meets(run: Run, call: Call, terms: Approval | None) -> bool:
    """Return whether what was decided meets other terms as well: who decided, how many they were, and why."""
    decision = let_by(call)
    if decision is None:  # it was allowed, and a check of its tool found that it did not run: nobody was ever asked
        return False
    if terms is None or terms == call.terms or escalated_from(terms, call.terms):
        return True
    if decision.broke_glass:
        glass = terms.behind_glass()
        known = glass is not None and not barred(glass, decision.decider, run.requester, decision.proof)
        return known and not unlooked(call, terms, decision)
    sure = call.confirmed if terms.in_two_steps else None
    if terms.in_two_steps:
        first = terms.at_step(confirmed=False)
        if sure is None or barred(first, sure.decider, run.requester, sure.proof):
            return False
        if unlooked(call, terms, sure):
            return False
        terms = terms.at_step(confirmed=True)
    votes = _agreeing(run, call, decision)
    if any(unlooked(call, terms, said) for said in (decision, *votes.values())):
        return False
    who = run.grants[decision.grant].decider if decision.grant in run.grants else decision.decider
    people = {vote.by: (vote.decider, vote.proof) for vote in votes.values()} | {decision.by: (who, decision.proof)}
    known = not any(barred(terms, person, run.requester, proof) for person, proof in people.values())
    known = known and (sure is None or not any(same_voice(sure.decider, person) for person, _ in people.values()))
    reasoned = call.state == "supplied" or not lacks_reason(terms, decision)
    enough = voices(person for person, _ in people.values()) >= needed(terms, decision.verdict)
    return known and reasoned and (call.state == "supplied" or enough)


def void(run: Run, call: Call, why: str, terms: Approval | None) -> Events:
    """Void what let a call run: it asks again, or is in doubt where it may have had its effect before."""
    if call.acted:
        yield from lost_before(call, why)
        if terms is not None and terms != call.terms:
            yield ev.CallAskedAgain(call.id, "terms", run.now, terms)
        return
    again = call.proposal
    looked = call.preview is not None
    if call.edited:  # what a person made of the call stays as they made it
        again = replace(again, args=call.text, edited=True)
    yield ev.CallVoided(call.id, again, why)
    if not looked:  # else what it would change is looked at again before anybody is asked
        yield from screened(run, call, Verdict("ask", terms=terms, by="tool"))


def unknown(call: Call) -> bool:
    """Return whether a call that could run now was started before, and neither ended nor asked."""
    return call.acted and call.state != "supplied"


def lost_before(call: Call, why: str, preview: Preview | None = None) -> Events:
    """Leave a call that will not be started again in doubt: only a person can say what it did before."""
    yield ev.CallLost(call.id, f"{why}; it was started before, and nobody knows what it did", preview=preview)


def _agreeing(run: Run, call: Call, decision: ev.Decision) -> dict[str, ev.Decision]:
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


# What every command asks first --------------------------------------------------------------------------------------


def open_run(run: Run) -> None:
    """Refuse a command to a run that is over."""
    if run.status in OVER:
        why = f": {run.error}" if run.error else ""
        raise Conflict(f"this run is {run.status}{why}; nothing of it waits any more", winner=run.status)


def call_in(run: Run, call_id: str, *states: str) -> Call:
    """Return the call of that id in one of these states, or raise `Conflict`."""
    call = run.calls.get(call_id)
    if call is None or call.state not in states:
        found = "settled" if call is None else call.state
        raise Conflict(f"this needs a call that is {' or '.join(states)}; it is {found}")
    return call
