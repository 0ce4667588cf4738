"""The gate: what a verdict, a grant, a decision and the clock do to a call.

One place decides whether a call may run, for every kind of tool at every depth. A decision is bound to the digest of
what was shown, is used once, and beats a grant; a grant covers one tool of one agent as it was when it was given.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from . import commands as cm
from . import events as ev
from .digest import canonical, same
from .errors import BadJson, Conflict, Expired, NotPending, UserError
from .policy import Approval, Verdict
from .predicate import check_where, holds
from .preview import Preview
from .run import Call, Run, call_digest
from .states import READY, WAITING
from .strict import parse

Events = Iterator[ev.AnyEvent]
OVER = ("finished", "cancelled")
_OPENING = {
    "asked": ("approve", "edit", "reject", "answer"),
    "in_doubt": ("ran", "did_not_run", "retry"),
    "needs": ("answer", "reject"),
}


def screen(run: Run, c: cm.Screen) -> Events:
    call = run.calls.get(c.call)
    if call is None or run.status in OVER or not (call.state == "proposed" or (call.recheck and call.state in READY)):
        return
    if c.preview is not None:
        canonical(c.preview.basis)  # a decision will be bound to it
    if c.reports:
        yield ev.GuardrailReported(c.call, c.reports)
    yield from screened(run, call, c.verdict, c.preview)


def screened(run: Run, call: Call, verdict: Verdict, preview: Preview | None = None) -> Events:
    action, reason, by = verdict.action, verdict.reason, verdict.by
    if call.recheck:
        yield ev.CallScreened(call.id, action, reason, by)
        return
    if call.voided and action == "allow":
        action = "ask"
    reason = call.voided or reason
    grant = None if action == "deny" or call.voided else _grant_for(run, call, verdict.terms)
    if grant is not None and action == "allow":  # "never again" is about the tool; "always" is not used up for nothing
        action, grant = ("ask", grant) if grant.verdict == "reject" else (action, None)
    if grant is not None and grant.verdict == "approve":
        yield ev.CallScreened(call.id, "allow", reason, f"grant:{grant.id}")
        yield ev.GrantUsed(grant.id, call.id)
        return
    shown = preview if action == "ask" else None
    yield ev.CallScreened(call.id, action, reason, by, verdict.terms, run.now, shown)
    if grant is not None:
        yield from _by_grant(run, call, grant)


def _grant_for(run: Run, call: Call, terms: Approval | None) -> ev.GrantTerms | None:
    """The newest standing decision that covers a call."""
    return next((grant for grant in reversed(run.grants.values()) if _covers(run, grant, call, terms)), None)


def _covers(run: Run, grant: ev.GrantTerms, call: Call, terms: Approval | None) -> bool:
    """Whether a standing decision covers a call. One person gave it, so it never makes a quorum."""
    if (grant.agent, grant.tool) != (call.agent, call.proposal.tool) or _needed(terms, grant.verdict) > 1:
        return False
    spent = grant.uses is not None and run.grant_uses[grant.id] >= grant.uses
    over = grant.expires_at is not None and run.now >= grant.expires_at
    try:
        return not spent and not over and holds(grant.where, call.params)
    except BadJson:  # what cannot be compared does not match
        return False


def _needed(terms: Approval | None, verdict: str) -> int:
    """How many people this verdict takes."""
    if terms is None:
        return 1
    return terms.deny_quorum if verdict == "reject" else terms.quorum


def _by_grant(run: Run, call: Call, grant: ev.GrantTerms, recheck: bool = False) -> Events:
    made = ev.Decision(
        call.id, grant.verdict, call_digest(run, call), run.now, by=f"grant:{grant.id}", message=grant.message
    )
    yield ev.CallDecided(made, recheck=recheck and grant.verdict == "approve")
    yield ev.GrantUsed(grant.id, call.id)


def deliver(run: Run, c: cm.Deliver) -> Events:
    open_run(run)
    fresh: dict[str, ev.Decision] = {}
    for decision in c.decisions:
        if not _standing(run, decision):
            _check_decision(run, decision)
            if not _alike(fresh.setdefault(decision.call, decision), decision):
                raise Conflict("one delivery decides one call in two ways; deliver the one that counts")
    for grant in c.grants:
        _check_grant(grant)
    for decision in c.replaced:
        if decision.call in fresh:
            yield ev.VoteCast(decision, replaced=True)
    for decision in fresh.values():
        yield from _decided(run, run.calls[decision.call], decision, c.recheck)
    for grant in c.grants:
        if grant.id not in run.grant_uses:  # nor one that was revoked: an id is given once
            yield ev.GrantGiven(grant)
            yield from _cover_waiting(run, grant, c.recheck)


def _check_grant(grant: ev.GrantTerms) -> None:
    if grant.verdict not in ("approve", "reject"):
        raise UserError("a standing decision approves or rejects")
    check_where(grant.where)


def _cover_waiting(run: Run, grant: ev.GrantTerms, recheck: bool) -> Events:
    """Decide by a new grant what waits already; an older one was found not to cover it, or may not any more."""
    for call in list(run.groups["wait"].values()):
        if call.state == "asked" and not _ran_out(run, call) and _covers(run, grant, call, call.terms):
            yield from _by_grant(run, call, grant, recheck)


def _standing(run: Run, decision: ev.Decision) -> bool:
    """Whether this very decision was given before; repeating it is harmless, and never a new one."""
    call, before = run.calls.get(decision.call), run.decided.get(decision.call)
    if before is None or not _alike(before, decision):
        return False
    return call is None or call.state not in WAITING or _one(before, decision)


def _one(one: ev.Decision, other: ev.Decision) -> bool:
    return (one.at, one.by) == (other.at, other.by)


def _alike(one: ev.Decision, other: ev.Decision) -> bool:
    """Whether two decisions say the same: the verdict, of the same bytes, to the same end."""
    edits = one.args == other.args or one.verdict != "edit"
    told = one.message == other.message and same(one.output, other.output)
    return (one.verdict, one.digest) == (other.verdict, other.digest) and edits and told


def _check_decision(run: Run, decision: ev.Decision) -> None:
    call, before = run.calls.get(decision.call), run.decided.get(decision.call)
    if before is not None and before.verdict == "expire":
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
    if (decision.verdict == "edit") != (decision.args is not None):
        raise UserError("an edit names the arguments that shall run, and no other decision does")
    if decision.args is not None:
        parse(decision.args)
    if call.state == "asked" and _lacks_reason(call.terms, decision):
        raise UserError("this decision needs a reason: pass note=, or rejection_message= where it is a rejection")
    if call.expires_at is not None and decision.at > call.expires_at and call.state == "asked":
        raise Expired("this request ran out of time before the decision; the call was not executed")


def _lacks_reason(terms: Approval | None, decision: ev.Decision) -> bool:
    if terms is None or decision.note or decision.message:
        return False
    return terms.reason == "required" or (terms.reason == "on_reject" and decision.verdict == "reject")


def _decided(run: Run, call: Call, decision: ev.Decision, recheck: bool) -> Events:
    by = decision.by or ""
    if call.state == "asked" and len(_voices(call, decision) | {by}) < _needed(call.terms, decision.verdict):
        if call.votes.get(by) != decision:
            yield ev.VoteCast(decision)
        return
    if call.state != "asked" and call.decision is not None and call.decision.args is not None:
        decision = msgspec.structs.replace(decision, args=call.decision.args)
    runs = call.state == "needs" or decision.verdict in ("approve", "edit", "retry")
    yield ev.CallDecided(decision, recheck=recheck and runs)


def _voices(call: Call, decision: ev.Decision) -> set[str]:
    """Who voted for what this decision says, to the byte: one who approved has not seen what another edited."""

    def agrees(vote: ev.Decision) -> bool:
        if vote.verdict == "reject" or decision.verdict == "reject":
            return vote.verdict == decision.verdict
        alike = (vote.verdict, vote.args) == (decision.verdict, decision.args)
        return alike and same(vote.output, decision.output)

    return {by for by, vote in call.votes.items() if agrees(vote)}


def tick(run: Run, _c: cm.Tick) -> Events:
    if run.status in OVER:
        return
    for call in list(run.groups["wait"].values()):
        if call.state == "asked" and _ran_out(run, call):
            yield ev.CallDecided(ev.Decision(call.id, "expire", call_digest(run, call), run.now, by="clock"))
    for call in list(run.groups["run"].values()):
        if stale(run, call):
            again, looked = call.proposal, call.preview is not None
            if call.edited:  # what a person made of the call stays as they made it
                again = msgspec.structs.replace(again, args=call.text, edited=True)
            yield ev.CallVoided(call.id, again, "the approval was not executed in time and has gone stale")
            if looked:  # what it would change is looked at again before anybody is asked
                continue
            yield from screened(run, call, Verdict("ask", terms=call.terms, by="tool"))


def _ran_out(run: Run, call: Call) -> bool:
    """Whether a request's time is up, though nobody may have said so yet."""
    return call.expires_at is not None and run.now > call.expires_at


def stale(run: Run, call: Call) -> bool:
    """Whether an approval was not executed in its time."""
    limit = call.terms.execute_by_ms if call.terms is not None else None
    return limit is not None and call.decision is not None and run.now > call.decision.at + limit


def open_run(run: Run) -> None:
    if run.status in OVER:
        why = f": {run.error}" if run.error else ""
        raise Conflict(f"this run is {run.status}{why}; nothing of it waits any more", winner=run.status)


def call_in(run: Run, call_id: str, *states: str) -> Call:
    call = run.calls.get(call_id)
    if call is None or call.state not in states:
        found = "settled" if call is None else call.state
        raise Conflict(f"this needs a call that is {' or '.join(states)}; it is {found}")
    return call
