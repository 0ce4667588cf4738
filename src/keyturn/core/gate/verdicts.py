"""Apply the verdict of policies and tools to a call: run, ask, refuse, or say why nothing can be known."""

from __future__ import annotations

from msgspec.structs import replace

from .. import commands as cm
from .. import events as ev
from ..approval import Approval
from ..digest import canonical
from ..policy import Verdict
from ..preview import Preview
from ..records import BY_GRANT
from ..run import Call, Run, allowed_by
from ..states import OVER, READY
from .deciding import meets
from .grants import by_grant, covers, grant_for
from .opening import Events
from .reviews import sampled


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
        said = {"quotas": c.quotas, "shadow": c.shadow, "watched": c.watched, "revision": c.revision}
        yield replace(event, **said) if told else event


def screened(run: Run, call: Call, verdict: Verdict, preview: Preview | None = None) -> Events:
    """Yield the events of a verdict, and of a standing decision with it."""
    action = verdict.action
    if call.recheck and action == "deny" and unknown(call):
        yield from mark_in_doubt(call, "the policy denies it now")
        return
    if call.recheck:
        yield ev.CallScreened(call.id, action, verdict.reason, verdict.by)
        if action == "ask" and not meets(run, call, verdict.terms):
            yield from void(run, call, "the policy requires more than was decided", verdict.terms)
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
    since = run.now - (call.pended if verdict.terms == call.terms else 0)
    yield ev.CallScreened(call.id, action, reason, verdict.by, verdict.terms, since, shown, review=share)
    if grant is not None:
        yield from by_grant(run, call, grant)
    elif action == "allow":
        yield from sampled(run, call, share)


def void(run: Run, call: Call, why: str, terms: Approval | None) -> Events:
    """Void what let a call run: it asks again, or is in doubt where it may have had its effect before."""
    if call.acted:
        yield from mark_in_doubt(call, why)
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


def mark_in_doubt(call: Call, why: str, preview: Preview | None = None) -> Events:
    """Leave a call that will not be started again in doubt: only a person can say what it did before."""
    yield ev.CallLost(call.id, f"{why}; it was started before, and its outcome is unknown", preview=preview)


def meets_now(run: Run, call: Call, terms: Approval) -> bool:
    """Return whether what lets a call run meets terms that its tool states since it asked, time limits included.

    Those of a chain are the limits of its last step, on which the call was let run.
    """
    decision = allowed_by(call)
    if decision is None:
        grant = run.grants.get(call.by.removeprefix(BY_GRANT)) if call.by.startswith(BY_GRANT) else None
        return grant is not None and covers(run, grant, call, terms)
    last = terms.in_turn[-1]
    over = last.expires_ms is not None and decision.at > call.asked_at + last.expires_ms
    old = last.execute_by_ms is not None and run.now > decision.at + last.execute_by_ms
    return not old and not (over and decision.verdict in ("approve", "edit")) and meets(run, call, terms)
