"""Judge what people say beside their decisions: marks and looks, and an approval taken back before it is executed.

A mark restricts nobody. To take an approval back is a word of its own, since it only ever makes a run do less: whoever
may decide the call may say it, and so may whoever let it run.
"""

from __future__ import annotations

from .. import commands as cm
from .. import events as ev
from ..encodable import moment
from ..errors import Conflict, NotAllowed, NotPending, UserError
from ..people import Decider, kept_out, plain_text
from ..records import BY_GRANT
from ..run import Call, Run, call_digest
from ..states import READY, WAITING
from .opening import Events, go_on, open_run, said_once
from .verdicts import void

_LONGEST_MS = 31 * 24 * 3_600_000


def mark(run: Run, c: cm.MarkCall) -> Events:
    """Record or take off a mark on a request that waits."""
    if said_once(run, c.once, ["mark", c.call, c.mark, c.until is None]):
        return
    open_run(run)
    call = run.calls.get(c.call)
    if call is None or call.state not in WAITING:
        raise NotPending("this call waits for nobody, so there is nothing to be on or to put off")
    if c.digest != call_digest(run, call):
        raise Conflict("the request is no longer the one that was shown; look at it again")
    why = kept_out(call.terms, c.decider, run.requester)
    if why:
        raise NotAllowed(f"{c.decider.id} cannot mark this request: {why}")
    before = call.claim if c.mark == "claim" else call.snoozes.get(c.decider.id)
    if c.until is None:
        if before is not None and before.decider.id != c.decider.id:
            raise Conflict(f"{before.decider.id} is on it, and only they let it go", winner=before.decider.id)
        if before is not None:
            yield ev.CallMarked(c.call, c.mark, c.decider, digest=c.digest, once=c.once)
        return
    if not run.now < c.until <= run.now + _LONGEST_MS:
        raise UserError("until= is a time from now on, and no more than 31 days away")
    if before is None or (before.decider, before.until) != (c.decider, c.until):
        yield ev.CallMarked(c.call, c.mark, c.decider, c.until, c.digest, c.once)


def look(run: Run, c: cm.RecordLook) -> Events:
    """Record that somebody has a request on the screen, once as it is asked now; a name alone is nobody known."""
    open_run(run)
    call = run.calls.get(c.call)
    if call is None or call.state not in WAITING:
        raise NotPending("this call waits for nobody, so there is nothing to look at")
    if c.digest != call_digest(run, call):
        raise Conflict("the request is no longer the one that was shown; look at it again")
    if c.decider.strength == "claimed":
        raise NotAllowed(f"{c.decider.id} is a name alone, which proves nothing: a look is of somebody who logged in")
    why = kept_out(call.terms, c.decider, run.requester)
    glass = None if call.terms is None else call.terms.behind_glass()
    if why and (glass is None or kept_out(glass, c.decider, run.requester)):
        raise NotAllowed(f"{c.decider.id} cannot look at this request: {why}")
    if c.decider.id not in call.looks:
        yield ev.CallLooked(c.call, c.decider, c.digest)


def withdraw(run: Run, c: cm.Withdraw) -> Events:
    """Take back what lets a call run that has not started: it asks anew, or is in doubt where it ran before."""
    if said_once(run, c.once, ["withdraw", c.call, c.note]):
        return
    open_run(run)
    call = run.calls.get(c.call)
    if call is None or call.state not in READY:
        raise _not_ready(run, c.call, call)
    if c.note is not None:
        plain_text(c.note, "a note")
    decision = call.decision
    granted = call.by.removeprefix(BY_GRANT) if decision is None and call.by.startswith(BY_GRANT) else None
    if call.state == "supplied" or (decision is None and granted is None):
        raise NotPending("nobody approved this call, so there is no approval to take back; cancel the run to stop it")
    if c.digest is not None and c.digest not in (call_digest(run, call), "" if decision is None else decision.digest):
        raise Conflict("the call was asked about anew since it was shown; look at it again")
    if not _let_it_run(run, call, c.decider, granted):
        why = kept_out(call.terms, c.decider, run.requester)
        if why:
            raise NotAllowed(f"{c.decider.id} cannot take this approval back: {why}")
    yield ev.ApprovalWithdrawn(c.call, c.decider, c.note, c.once)
    said = f"{c.decider.id} took the approval back"
    yield from void(run, call, f"{said}: {c.note}" if c.note else said, call.terms)
    yield from go_on(run)


def _let_it_run(run: Run, call: Call, who: Decider, granted: str | None) -> bool:
    """Return whether somebody is among those on whose word a call runs; a name alone is nobody known."""
    decision = call.decision
    grant = granted if decision is None else decision.grant
    given = run.grants[grant].decider if grant in run.grants else None
    words = [given, *([] if decision is None else [decision.decider]), *(vote.decider for vote in call.votes.values())]
    known = who.strength != "claimed"
    return known and any(one is not None and one.strength != "claimed" and one.id == who.id for one in words)


def too_late(by: str, at: int) -> Conflict:
    """Make the `Conflict` that tells who takes an approval back too late by whom the call was started, and when."""
    winner = by or "the process that has the run"
    return Conflict(
        f"this call was started at {moment(at).isoformat()} by {winner}; what is begun is not taken back",
        winner=winner,
        decision="start",
        at=at,
    )


def _not_ready(run: Run, name: str, call: Call | None) -> Conflict | NotPending:
    """Say why there is nothing to take back: of what was started, when and by whom."""
    if call is not None and call.state in WAITING and not call.begun:
        return NotPending("this call waits and was not approved; reject it")
    if call is not None and call.begun:
        return too_late(call.started_by, call.started_at)
    if call is None and name in run.decided:
        return Conflict("this call has its result already; there is nothing to take back", decision="settled")
    return NotPending("no call of this run is approved and has not started under that name")
