"""The gate: what a verdict, a grant, a decision and the clock do to a call.

One place decides whether a call may run, for every kind of tool at every depth. A decision is bound to the digest of
what was shown, is used once, and beats a grant; a grant covers one tool of one agent as it was when it was given.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import commands as cm
from . import events as ev
from .errors import Conflict, Expired, NotPending
from .policy import Verdict
from .predicate import holds
from .run import Call, Run, call_digest
from .states import WAITING

Events = Iterator[ev.AnyEvent]
_OPENING = {"asked": ("approve", "edit", "reject", "answer"), "in_doubt": ("ran", "did_not_run", "retry")}


def screen(run: Run, c: cm.Screen) -> Events:
    call = run.calls.get(c.call)
    if call is None or (call.state != "proposed" and not call.recheck):
        return
    yield from screened(run, call, c.verdict)


def screened(run: Run, call: Call, verdict: Verdict) -> Events:
    action, reason, by = verdict.action, verdict.reason, verdict.by
    if call.recheck:
        yield ev.CallScreened(call.id, action, reason, by)
        return
    if call.voided and action == "allow":
        action = "ask"
    reason = call.voided or reason
    grant = _grant_for(run, call) if action == "ask" and not call.voided else None
    if grant is not None and grant.verdict == "approve":
        yield ev.CallScreened(call.id, "allow", reason, f"grant:{grant.id}")
        yield ev.GrantUsed(grant.id, call.id)
        return
    yield ev.CallScreened(call.id, action, reason, by, verdict.terms, run.now)
    if grant is not None:
        yield from _by_grant(run, call, grant)


def _grant_for(run: Run, call: Call) -> ev.GrantTerms | None:
    """The newest standing decision that covers a call."""
    for grant in reversed(list(run.grants.values())):
        fits = grant.agent == call.agent and grant.tool == call.proposal.tool
        spent = grant.uses is not None and run.grant_uses.get(grant.id, 0) >= grant.uses
        over = grant.expires_at is not None and run.now >= grant.expires_at
        if fits and not spent and not over and holds(grant.where, call.params):
            return grant
    return None


def _by_grant(run: Run, call: Call, grant: ev.GrantTerms) -> Events:
    made = ev.Decision(
        call.id, grant.verdict, call_digest(run, call), run.now, by=f"grant:{grant.id}", message=grant.message
    )
    yield ev.CallDecided(made)
    yield ev.GrantUsed(grant.id, call.id)


def deliver(run: Run, c: cm.Deliver) -> Events:
    open_run(run)
    standing = {decision.call for decision in c.decisions if _standing(run, decision)}
    fresh = [decision for decision in c.decisions if decision.call not in standing]
    for decision in fresh:
        _check_decision(run, decision)
    for decision in c.replaced:
        if decision.call in run.calls:
            yield ev.VoteCast(decision, replaced=True)
    for decision in fresh:
        yield from _decided(run, run.calls[decision.call], decision, c.recheck)
    for grant in c.grants:
        if grant.id not in run.grants:
            yield ev.GrantGiven(grant)
            yield from _cover_waiting(run)


def _cover_waiting(run: Run) -> Events:
    for call in list(run.groups["wait"].values()):
        grant = _grant_for(run, call) if call.state == "asked" else None
        if grant is not None:
            yield from _by_grant(run, call, grant)


def _standing(run: Run, decision: ev.Decision) -> bool:
    """Whether this very decision already stands; repeating it is harmless."""
    call, before = run.calls.get(decision.call), run.decided.get(decision.call)
    waits = call is not None and call.state in WAITING
    return not waits and before is not None and _same_decision(before, decision)


def _same_decision(one: ev.Decision, other: ev.Decision) -> bool:
    return (one.verdict, one.digest, one.args) == (other.verdict, other.digest, other.args)


def _check_decision(run: Run, decision: ev.Decision) -> None:
    call, before = run.calls.get(decision.call), run.decided.get(decision.call)
    if call is not None and call.state == "expired":
        raise Expired("this request ran out of time; the call was not executed and cannot be approved any more")
    if call is None or call.state not in WAITING:
        if before is not None:
            raise Conflict(
                f"this call was already decided ({before.verdict}) by {before.by or 'somebody else'}; "
                "the first decision stands",
                winner=before.by,
                decision=before.verdict,
                at=before.at,
            )
        raise NotPending("no call of this run waits for that decision; look at get_interruptions() again")
    if decision.verdict not in _OPENING[call.state]:
        raise NotPending(f"a call that is {call.state} cannot be decided with {decision.verdict!r}")
    if decision.digest != call_digest(run, call):
        raise Conflict("the call is no longer the one that was shown; look at get_interruptions() again")
    if call.expires_at is not None and decision.at > call.expires_at and call.state == "asked":
        raise Expired("this request ran out of time before the decision; the call was not executed")


def _decided(run: Run, call: Call, decision: ev.Decision, recheck: bool) -> Events:
    terms = call.terms
    if terms is not None and call.state == "asked":
        needed = terms.deny_quorum if decision.verdict == "reject" else terms.quorum
        alike = {by for by, vote in call.votes.items() if (vote.verdict == "reject") == (decision.verdict == "reject")}
        if len(alike | {decision.by or ""}) < needed:
            yield ev.VoteCast(decision)
            return
    if call.state == "in_doubt" and call.decision is not None and call.decision.args is not None:
        decision = msgspec.structs.replace(decision, args=call.decision.args)
    yield ev.CallDecided(decision, recheck=recheck and decision.verdict in ("approve", "edit", "retry"))


def tick(run: Run, _c: cm.Tick) -> Events:
    for call in list(run.groups["wait"].values()):
        if call.state == "asked" and call.expires_at is not None and run.now > call.expires_at:
            yield ev.CallDecided(ev.Decision(call.id, "expire", call_digest(run, call), run.now, by="clock"))
    for call in list(run.groups["run"].values()):
        if _stale(run, call):
            yield ev.CallVoided(call.id, call.proposal, "the approval was not executed in time and has gone stale")
            yield from screened(run, call, Verdict("ask", terms=call.terms, by="tool"))


def _stale(run: Run, call: Call) -> bool:
    limit = call.terms.execute_by_ms if call.terms is not None else None
    return limit is not None and call.decision is not None and run.now > call.decision.at + limit


def open_run(run: Run) -> None:
    if run.status in ("finished", "cancelled"):
        why = f": {run.error}" if run.error else ""
        raise Conflict(f"this run is {run.status}{why}; nothing of it waits any more", winner=run.status)


def call_in(run: Run, call_id: str, *states: str) -> Call:
    call = run.calls.get(call_id)
    if call is None or call.state not in states:
        found = "settled" if call is None else call.state
        raise Conflict(f"this needs a call that is {' or '.join(states)}; it is {found}")
    return call
