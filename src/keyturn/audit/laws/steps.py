"""Check the laws of decisions that take two steps, or are made in a way of their own: glass broken, a question back."""

from __future__ import annotations

from ...core import events as ev
from ...core.approval import Approval
from ...core.records import BY_GRANT
from ..calls import WAITING, AuditedCall, need
from ..deciders import is_escalation, lasts, of_step, two_steps
from ..run import AuditedRun
from ..voices import one_voice
from . import chains

_AGAIN = ("ask_again", "escalate", "restored", "forked", "terms", "step")


def check_steps(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check that others decide after the requester confirmed, and nobody instead of them but in an emergency."""
    second = made.verdict in ("reject", "expire") or made.broke_glass or confirmed(audited, call)
    need(
        second or not two_steps(call.terms),
        "I1",
        f"call {call.id} was decided although its requester had not confirmed it",
    )
    need(not made.confirms, "I1", f"call {call.id} was decided by a confirmation")
    chains.check_last(call, made)


def check_way(audited: AuditedRun, call: AuditedCall, made: ev.Decision) -> None:
    """Check what is said in a way of its own: glass that is broken, a question to the agent, a vote cast anew."""
    after_own(call, made)
    chains.check(call, made)
    asked = call.place == "asked" and made.via == "person"
    alone = asked and made.verdict == "approve" and made.note
    need(alone or not made.broke_glass, "I1", f"the glass was broken for call {call.id} otherwise than it may be")
    back = asked and made.verdict == "reject" and made.message
    need(back or not made.asks_back, "I8", f"call {call.id} was asked back about and not rejected with a question")
    sure = call.confirmed if two_steps(call.terms) and call.place == "asked" and confirmed(audited, call) else None
    twice = sure is not None and one_voice(sure.decider, made.decider)
    need(not twice, "I1", f"call {call.id} was decided by the one who had confirmed it")
    edited = made.verdict == "edit" and two_steps(call.terms)
    need(not edited, "I4", f"call {call.id} was edited, and what its requester confirms is what runs")


def after_own(call: AuditedCall, made: ev.Decision) -> None:
    """Check that a decision was made after its maker withdrew a vote on this asking, not before."""
    last = max((place for place, each in enumerate(call.withdrawn, 1) if each.by == made.by), default=0)
    fresh = last <= made.withdrawals <= len(call.withdrawn)
    need(fresh, "I1", f"a decision of call {call.id} is of before its maker withdrew it")


def confirmed(audited: AuditedRun, call: AuditedCall) -> bool:
    """Return whether the requester's word is there, or matters no more."""
    if call.place != "asked":
        return True
    within = call.terms.execute_by_ms if call.terms is not None else None
    return call.confirmed is not None and (within is None or audited.now <= call.confirmed.at + within)


def asked_now(audited: AuditedRun, call: AuditedCall) -> Approval | None:
    """Return the terms of the step that is due."""
    return of_step(call.terms, confirmed=confirmed(audited, call))


def ran_out(audited: AuditedRun, call: AuditedCall) -> bool:
    """Return whether the time of a request is over."""
    return call.expires_at is not None and audited.now > call.expires_at


def stale(audited: AuditedRun, call: AuditedCall) -> bool:
    """Return whether a person's approval, or a standing one, was not executed in its time."""
    within = lasts(call.terms)
    probed = call.decision is not None and call.decision.via == "probe"
    made = call.approval if probed else call.decision
    granted = call.let_at if made is None and call.allowed_by.startswith(BY_GRANT) else None
    approved = granted if made is None else made.at
    return within is not None and approved is not None and audited.now > approved + within


def check_held(audited: AuditedRun, call: AuditedCall) -> None:
    """Check that a call starts no sooner than its approval says, since it could be withdrawn until then."""
    probed = call.decision is not None and call.decision.via == "probe"
    made = call.approval if probed else call.decision
    early = made is not None and made.undo_ms and audited.now < made.at + made.undo_ms
    need(not early, "I1", f"call {call.id} started while its approval could still be undone")


def check_expiry(audited: AuditedRun, call: AuditedCall) -> None:
    """Check that a request runs out in its time, and only where nobody is to be asked once more."""
    need(ran_out(audited, call), "I6", f"call {call.id} expired before its time")
    terms = call.terms or Approval()
    more = terms.on_expiry == "escalate" or _once_more(call, terms)
    need(not more, "I6", f"call {call.id} expired where its terms say that it is requested once more")


def _once_more(call: AuditedCall, terms: Approval) -> bool:
    return terms.on_expiry == "ask_again" and call.asks - call.opened + 1 < terms.max_asks


def warned(audited: AuditedRun, event: ev.ExpiryNear) -> None:
    """Check a warning that a request will expire."""
    call = audited.at(event.call)
    due = call.warns_at if call.place == "asked" else None
    need(not call.warned, "I8", f"call {call.id} was said to run out soon a second time")
    in_time = due is not None and audited.now >= due and not ran_out(audited, call)
    need(in_time, "I8", f"call {call.id} was said to run out soon at the wrong time")
    call.warned = True


def asked_again(audited: AuditedRun, event: ev.CallAskedAgain) -> None:
    """Check that a call asks again with a reason."""
    call = audited.at(event.call)
    may = {"restored": WAITING, "terms": ("doubt",), "step": ("asked", "doubt")}.get(event.why, ("asked",))
    need(call.place in may, "I3", f"call {call.id} was asked about again while it was {call.place}")
    need(event.at == audited.now, "I8", f"call {call.id} asks again with another time than that of its line")
    need(event.why in _AGAIN, "I7", f"call {call.id} was asked about again for an unknown reason")
    terms = call.terms or Approval()
    if event.why == "escalate":
        need(terms.on_expiry == "escalate", "I1", f"call {call.id} was escalated, and its terms do not say so")
        exact = is_escalation(terms, event.terms)
        need(exact, "I1", f"call {call.id} was escalated to other terms than it was to be")
    elif event.why not in ("terms", "step"):
        need(event.terms is None, "I1", f"call {call.id} asks again on other terms, and was not escalated")
    if event.why == "ask_again":
        need(_once_more(call, terms), "I6", f"call {call.id} was asked about again more often than its terms say")
    if event.why == "step":
        chains.opened(audited, event)
    elif event.why == "restored":
        audited.restoring = True
    elif event.why == "forked":
        audited.forking = True
        need(not event.reason, "I8", f"call {call.id} asks again for another reason than it was asked about")
    elif event.why == "terms":
        fresh = call.renewed_in == audited.line
        need(fresh, "I8", f"call {call.id} asks again on other terms, and was not put in doubt just before")
    else:
        need(not event.reason, "I8", f"call {call.id} asks again for another reason than it was asked about")
        need(ran_out(audited, call), "I6", f"call {call.id} was asked about again before its time had run out")
    call.asks += 1
    call.asked_at = event.at
    call.warned = False
    call.unmark()
    call.votes = {}
    if event.why in ("restored", "forked", "terms"):
        call.from_first_step()
    call.opened = call.asks if event.why == "step" else call.opened
    call.terms = call.terms if event.terms is None else event.terms
    call.reason = event.reason or call.reason
    call.renewed = event.nonce or call.renewed
    call.renewed_in = audited.line
    call.revoked = True
