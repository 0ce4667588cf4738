"""Check the laws of standing decisions: given with a decision of the same person, used for what they cover, counted."""

from __future__ import annotations

from ...core import events as ev
from ...core.approval import Approval
from ...core.predicates.predicate import holds, may_hold
from ..calls import AuditedCall, Broken, need, value_of
from ..deciders import chain_of, objection, of_step, outside, quorum, two_steps
from ..run import AuditedRun
from . import reviews

GRANT = "grant:"


def given(audited: AuditedRun, event: ev.GrantGiven) -> None:
    """Check that a new grant comes with a decision of the same person on a call of its tool and agent."""
    grant = event.grant
    need(grant.id not in audited.uses, "I3", f"grant {grant.id} was given twice")
    need(grant.verdict in ("approve", "reject"), "I7", f"grant {grant.id} neither approves nor rejects")
    need(grant.call is None, "I1", f"grant {grant.id} was given as if it were borrowed")
    need(grant.verdict == "approve" or not grant.reach, "I7", f"grant {grant.id} rejects beyond its run")
    calls = [call for call in audited.decided_now if _goes_with(grant, call)]  # first, since there may be many others
    calls = calls or [call for call in audited.calls.values() if _goes_with(grant, call)]
    need(calls, "I1", f"grant {grant.id} came without a decision of the same person on a call of its tool and agent")
    asked = [call.terms for call in calls] if grant.verdict == "reject" else [None]
    need(grant.terms in asked, "I8", f"grant {grant.id} records other terms than those of its call")
    audited.grants[grant.id] = grant
    audited.uses[grant.id] = 0
    audited.given_in[grant.id] = audited.line
    if grant.verdict == "reject":
        made = calls[0].proposal
        audited.never[grant.id] = made.name, made.kind, made.server


def lent_out(audited: AuditedRun, event: ev.GrantLent) -> None:
    """Check that a grant stands and reaches beyond its run when a call of another run uses it."""
    grant = audited.grants.get(event.grant)
    if grant is None or grant.call is not None or not grant.reach or event.run == audited.run:
        raise Broken("I1", f"grant {event.grant} was lent and did not stand for another run")
    need((event.run, event.call) not in audited.lent, "I1", f"grant {grant.id} was lent twice to one call")
    need(not _ended(audited, grant), "I1", f"grant {grant.id} was lent and {_ended(audited, grant)}")
    audited.uses[grant.id] += 1
    audited.lent[event.run, event.call] = grant


def taken_over(audited: AuditedRun, event: ev.GrantBorrowed) -> None:
    """Check that what is borrowed is an approval of another run, for one call and once."""
    grant = event.grant
    need(grant.id not in audited.uses, "I3", f"grant {grant.id} was borrowed twice")
    alone = grant.call is not None and grant.uses == 1 and grant.verdict == "approve" and bool(grant.reach)
    need(alone and event.home not in ("", audited.run), "I1", f"grant {grant.id} was borrowed for more than one call")
    audited.grants[grant.id] = grant
    audited.uses[grant.id] = 0
    audited.given_in[grant.id] = audited.line
    audited.borrowed.append((grant, event.home, audited.line))


def taken_back(audited: AuditedRun, event: ev.GrantRevoked) -> None:
    """Check that a revoked grant was standing, and a rejection revoked by somebody who may decide such a call."""
    need(event.grant in audited.grants, "I8", f"grant {event.grant} was revoked and did not stand")
    grant = audited.grants[event.grant]
    if grant.verdict == "reject":
        audited.freed_in = audited.line
        why = outside(grant.terms, event.decider, audited.requester)
        need(not why, "I1", f"grant {event.grant} rejects, and was revoked {why}")
    del audited.grants[event.grant]


def by_grant(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Record that the use of a grant is owed, for a call that the grant decided.

    A call that waits already takes a new grant, or a person.
    """
    name = made.grant or ""
    at_once = call.screened_in == audited.line and not call.must_ask
    timely = at_once or audited.given_in.get(name) == audited.line
    need(timely, "I1", f"call {call.id} was waiting for a person and was decided by an older grant")
    audited.owed = (name, call.id)


def used(audited: AuditedRun, event: ev.GrantUsed) -> None:
    """Check that a grant's use is counted where the grant decided a call."""
    owed = audited.owed
    audited.owed = None
    need(owed == (event.grant, event.call), "I1", f"grant {event.grant} was counted and decided nothing")
    call = audited.at(event.call)
    grant = audited.grants.get(event.grant)
    if grant is None:
        raise Broken("I1", f"grant {event.grant} decided call {call.id} and did not stand")
    verdict = "approve" if call.decision is None else call.decision.verdict
    said = verdict == grant.verdict
    need(said, "I1", f"grant {grant.id} decided call {call.id} in another way than it says")
    why = uncovered(audited, grant, call, call.terms)
    need(not why, "I1", f"grant {grant.id} decided call {call.id} and {why}")
    audited.uses[grant.id] += 1
    if grant.call is not None:  # it was borrowed for this call, and covers nothing more
        del audited.grants[grant.id]
    if verdict == "approve":
        reviews.draw(audited, call, max(grant.review, call.review), grant.decider)


def newest(audited: AuditedRun, call: AuditedCall, terms: Approval | None) -> str:
    """Return what the newest grant that covers a call says, the run's own first; "" where none does."""
    # In logs of earlier versions a tool ran that was described in other words than when it was rejected.
    same = [grant for grant in reversed(audited.grants.values()) if grant.tool == call.proposal.tool]
    covering = [grant for grant in same if not uncovered(audited, grant, call, terms)]
    own = [grant for grant in covering if grant.call is None]
    return (own or covering)[0].verdict if covering else ""


def uncovered(audited: AuditedRun, grant: ev.GrantTerms, call: AuditedCall, terms: Approval | None) -> str:
    """Return why a grant does not cover a call; "" where it does."""
    made = call.proposal
    named = audited.never.get(grant.id) in [(made.name, made.kind, server) for server in {"", made.server}]
    if grant.agent != call.agent or not (grant.tool == made.tool or named):
        return "is for another tool or agent"
    if grant.call not in (None, call.id):
        return "was borrowed for another call"
    if ended := _ended(audited, grant):
        return ended
    every = chain_of(terms)
    alone = [each for each in every if quorum(each, grant.verdict) == 1]
    if not alone:
        return "is of one person, where the call takes several"
    if grant.verdict == "approve" and (call.met or len(every) > 1):
        return "is of one person, where the call takes several steps"
    if two_steps(terms) and grant.verdict == "approve":
        return "is of one person, where the call takes its requester and others"
    if terms is not None and terms.min_look is not None and grant.verdict == "approve":
        return "looks at nothing, where who approves has to look"
    steps = [of_step(each, confirmed=confirmed) for each in alone for confirmed in (False, True)]
    if all(objection(step, grant.decider, audited.requester) for step in steps):
        return "was given by a person who could not have decided the call"
    # An approval covers what it surely means; "never again" holds where nobody can tell, too.
    means = may_hold if grant.verdict == "reject" else holds
    return "" if means(grant.where, value_of(call.args)) else "is for other arguments"


def _ended(audited: AuditedRun, grant: ev.GrantTerms) -> str:
    """Return why a grant covers nothing any more; "" where it does."""
    if grant.uses is not None and audited.uses[grant.id] >= grant.uses:
        return "had been used as often as it says"
    return "had run out" if grant.expires_at is not None and audited.now >= grant.expires_at else ""


def _goes_with(grant: ev.GrantTerms, call: AuditedCall) -> bool:
    """Return whether the giver of a grant decided this call, in the same sense."""
    if (call.agent, call.proposal.tool) != (grant.agent, grant.tool):
        return False
    said = [call.decision] if call.decision is not None else []
    if call.place == "doubt":  # there a grant may come with one voice of several
        said += call.votes.values()
    return any(
        made.decider == grant.decider
        and made.via in ("person", "on_approval")
        and (made.verdict == "reject") == (grant.verdict == "reject")
        for made in said
    )
