"""Apply the clock to waiting calls, and a restore of the store to a run.

Requests are warned of, expire, escalate or ask again; approvals that were not executed in time are void. Nothing here
reads a clock: the time is the run's own.
"""

from __future__ import annotations

from . import commands as cm
from . import events as ev
from .gate import Events, void
from .run import Call, Run, call_digest, ran_out, stale, told_of_copy
from .states import OVER

_STALE = "the approval was not executed in time and has gone stale"


def tick(run: Run, _c: cm.Tick) -> Events:
    """Let time pass: warn, expire, escalate, ask again, and void approvals that were not executed in time."""
    if run.status in OVER:
        return
    for call in list(run.groups["wait"].values()):
        if call.state == "asked":
            yield from _waited(run, call)
    for call in list(run.groups["run"].values()):
        if stale(run, call):
            yield from void(run, call, _STALE, call.terms)


def _waited(run: Run, call: Call) -> Events:
    """Yield what the clock does to a request."""
    terms = call.terms
    if terms is None or not ran_out(run, call):
        if call.warns_at is not None and run.now >= call.warns_at:
            yield ev.ExpiryNear(call.id)
        return
    if terms.on_expiry == "escalate":
        yield ev.CallAskedAgain(call.id, "escalate", run.now, terms.escalated())
    elif terms.on_expiry == "ask_again" and call.asks + 1 < terms.max_asks:
        yield ev.CallAskedAgain(call.id, "ask_again", run.now)
    else:
        yield ev.CallDecided(ev.Decision(call.id, "expire", call_digest(run, call), run.now, via="clock"))


def restored(run: Run, c: cm.Restored) -> Events:
    """Put in doubt what a restored store lets run, ask again what waits, and revoke approving grants."""
    if run.status in OVER or run.status == "new" or told_of_copy(run, c.nonce or c.why):
        return
    waits = list(run.groups["wait"].values())
    for call in list(run.groups["screen"].values()):
        if not call.voided:  # it may have been allowed, and have run, after the copy was made
            yield ev.CallVoided(call.id, call.proposal, c.why, nonce=c.nonce)
    for call in [*run.groups["run"].values(), *run.groups["started"].values()]:
        if call.id not in run.frames:
            yield ev.CallLost(call.id, c.why, nonce=c.nonce)
    for call in waits:  # so that no word which was said before, on whatever, can be said once more
        yield ev.CallAskedAgain(call.id, "restored", run.now, reason=c.why, nonce=c.nonce)
    for grant in list(run.grants):  # how often it was used after the copy was made is not in the copy
        if run.grants[grant].verdict == "approve":
            yield ev.GrantRevoked(grant)
    yield ev.RunRestored(c.why, c.nonce)
