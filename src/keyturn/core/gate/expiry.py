"""Apply the clock to waiting calls.

Requests are warned of, expire, escalate or ask again; approvals that were not executed in time are void. Nothing here
reads a clock: the time is the run's own.
"""

from __future__ import annotations

from .. import commands as cm
from .. import events as ev
from ..policy import Verdict
from ..records import BY_GRANT
from ..run import Call, Run, allowed_by, call_digest, ran_out, stated_terms
from ..states import OVER
from .claiming import lapsed
from .opening import Events
from .verdicts import screened, void

_STALE = "the approval was not executed in time and has expired"


def tick(run: Run, _c: cm.Tick) -> Events:
    """Let time pass: warn, expire, escalate, ask again, and void approvals that were not executed in time."""
    if run.status in OVER:
        yield from lapsed(run)  # a caller outside may be at work still, or never say what came of it
        return
    for call in list(run.groups["wait"].values()):
        if call.state == "asked":
            yield from _waited(run, call)
    yield from lapsed(run)
    for call in list(run.groups["run"].values()):
        if stale(run, call):
            yield from _unused(run, call)


def _unused(run: Run, call: Call) -> Events:
    """Yield what becomes of a call whose approval was not executed in time: it asks again, or it is over."""
    if not call.proposal.final or call.acted:
        yield from void(run, call, _STALE, stated_terms(call))
        return
    yield ev.CallVoided(call.id, call.proposal, _STALE)
    yield from screened(run, call, Verdict("deny", by="clock"))


def _waited(run: Run, call: Call) -> Events:
    """Yield what the clock does to a request."""
    terms = call.terms
    if terms is None or not ran_out(run, call):
        if call.warns_at is not None and run.now >= call.warns_at:
            yield ev.ExpiryNear(call.id)
        return
    if terms.on_expiry == "escalate":
        yield ev.CallAskedAgain(call.id, "escalate", run.now, terms.escalated())
    elif terms.on_expiry == "ask_again" and call.asks - call.opened + 1 < terms.max_asks:
        yield ev.CallAskedAgain(call.id, "ask_again", run.now)
    else:
        yield ev.CallDecided(ev.Decision(call.id, "expire", call_digest(run, call), run.now, via="clock"))


def stale(run: Run, call: Call) -> bool:
    """Return whether an approval was not executed in its time, a person's or a standing one."""
    at = stale_at(call)
    return at is not None and run.now > at


def stale_at(call: Call) -> int | None:
    """Return until when an approval may be executed; None where it has no such time."""
    own = call.proposal.terms if call.proposal.final else None
    limit = call.terms.lasts_ms if call.terms is not None else own and own.lasts_ms
    approved = approved_at(call)
    return None if limit is None or approved is None else approved + limit


def approved_at(call: Call) -> int | None:
    """Return when a call was approved, by a person or by a standing decision; None where a policy let it run.

    What a policy let run has a time where an approval that is not executed ends the call.
    """
    decision = allowed_by(call)
    if decision is not None:
        return decision.at
    if call.let is not None and call.by.startswith(BY_GRANT):
        return call.let.at
    return call.asked_at if call.proposal.final and call.state == "allowed" else None
