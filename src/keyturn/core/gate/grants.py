"""Judge what a grant covers, and let it decide the calls that it covers: each of them consumes a use of it."""

from __future__ import annotations

from msgspec.structs import replace

from .. import events as ev
from ..approval import Approval
from ..errors import NotAllowed, UserError
from ..people import barred, plain_text
from ..policy import check_share
from ..predicates.predicate import check_where, holds, may_hold
from ..run import Call, Run, call_digest, confirmed, in_chain, ran_out
from .deciding import NO_PERSON, repeated
from .lending import is_about
from .opening import Events
from .reviews import sampled
from .words import decided_before, in_two_steps, needed


def grant_for(run: Run, call: Call, terms: Approval | None) -> ev.GrantTerms | None:
    """Return the newest standing decision that covers a call; one of another run only where this one has none."""
    if not run.grants:
        return None
    newest = list(reversed(run.grants.values()))
    own_first = [*(grant for grant in newest if grant.call is None), *(grant for grant in newest if grant.call)]
    return next((grant for grant in own_first if covers(run, grant, call, terms)), None)


def covers(run: Run, grant: ev.GrantTerms, call: Call, terms: Approval | None) -> bool:
    """Return whether a standing decision covers a call: one whose giver could decide this very call alone."""
    if not is_about(run, grant, call.agent, call.proposal):
        return False
    if grant.call not in (None, call.id):
        return False
    if grant.verdict == "approve" and _takes_more(call, terms):
        return False
    said = call.confirmed is not None and confirmed(run, call)
    due = [] if terms is None else [each for each in terms.in_turn if needed(each, grant.verdict) == 1]
    if terms and all(barred(each.at_step(confirmed=said), grant.decider, run.requester) for each in due):
        return False
    spent = grant.uses is not None and run.grant_uses.get(grant.id, 0) >= grant.uses
    over = grant.expires_at is not None and run.now >= grant.expires_at
    if spent or over:
        return False
    # An approval covers what it surely means. "Never again" holds where nobody can tell, too.
    means = holds if grant.verdict == "approve" else may_hold
    return means(grant.where, call.params)


def _takes_more(call: Call, terms: Approval | None) -> bool:
    """Return whether an approval is more than the word of one person that was given before: steps, or a look."""
    return bool(call.met) or (
        terms is not None and (terms.in_two_steps or terms.then is not None or terms.min_look is not None)
    )


def by_grant(run: Run, call: Call, grant: ev.GrantTerms) -> Events:
    """Decide a call by a standing decision that covers it."""
    shown = call_digest(run, call)
    yield ev.CallDecided(
        ev.Decision(call.id, grant.verdict, shown, run.now, via="grant", grant=grant.id, message=grant.message)
    )
    yield ev.GrantUsed(grant.id, call.id)
    if grant.verdict == "approve":
        yield from sampled(run, call, max(grant.review, call.review), grant.decider)


def cover_waiting(run: Run, grant: ev.GrantTerms) -> Events:
    """Apply a new grant to the calls that wait already, which no older one covers."""
    for call in list(run.groups["wait"].values()):
        if call.state == "asked" and not ran_out(run, call) and covers(run, grant, call, call.terms):
            yield from by_grant(run, call, grant)


def as_given(run: Run, grant: ev.GrantTerms, decisions: list[ev.Decision]) -> ev.GrantTerms:
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
    chain = in_chain(call) and decision.verdict != "reject"
    several = in_two_steps(call) and decision.verdict != "reject"
    several = several or decision.broke_glass or needed(call.terms, decision.verdict) > 1
    if chain or (call.state == "asked" and several):
        raise NotAllowed(
            "this call requires several approvers, and a standing decision is made by one; decide it alone"
        )
    if call.state == "asked" and call.terms is not None and call.terms.min_look and decision.verdict != "reject":
        raise NotAllowed(
            "this call must be viewed before it is approved, which a standing decision cannot do; decide it alone"
        )
    alike = (decision.verdict == "reject") == (grant.verdict == "reject")
    return alike and decision.via not in NO_PERSON and decision.decider == grant.decider
