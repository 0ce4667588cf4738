"""Apply the clock to waiting calls.

Requests are warned of, expire, escalate or ask again; approvals that were not executed in time are void. Nothing here
reads a clock: the time is the run's own.
"""

from __future__ import annotations

from . import commands as cm
from . import events as ev
from .gate import Events, void
from .run import Call, Run, call_digest, ran_out, stale
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
