"""Let a caller outside carry out a call: it claims the call once, holds it until a time, and reports what came of it.

To claim a call is to start it: whatever holds for a start holds for a claim. A caller that does not report in time, or
prolong its claim, leaves the call in doubt.
"""

from __future__ import annotations

from .. import events as ev
from ..commands import RunCommand, StartCall
from ..errors import Conflict, UserError
from ..run import Call, Run
from .opening import Events, call_in

_LATE = "the caller that claimed it did not report its outcome in time"


class HoldCall(RunCommand, frozen=True):
    """Prolong the claim on a call until a later time; `by` is the caller that holds it."""

    call: str
    by: str
    until: int


def check_start(call: Call, c: StartCall) -> None:
    """Refuse to start here what a caller outside carries out, and the other way round."""
    if call.proposal.claimed and (c.until is None or not c.by):
        raise Conflict("this call is carried out by the caller that asked: it starts when that caller claims it")
    if not call.proposal.claimed and c.until is not None:
        raise Conflict("this call runs here, and is not to be claimed")


def check_holder(call: Call, by: str) -> None:
    """Refuse what another than the caller that claimed a call reports of it."""
    if call.proposal.claimed and call.state == "started" and call.started_by != by:
        raise Conflict("another caller claimed this call, and its report is the one that is recorded")


def hold(run: Run, c: HoldCall) -> Events:
    """Prolong a claim; one that was given a later time already stays as it is."""
    call = call_in(run, c.call, "started")
    if not call.proposal.claimed:
        raise UserError("only a call that a caller outside carries out is claimed")
    check_holder(call, c.by)
    if call.held_until is None or c.until > call.held_until:
        yield ev.CallHeld(call.id, c.until)


def lapsed(run: Run) -> Events:
    """Put in doubt the calls whose callers did not report in time."""
    for call in list(run.groups["started"].values()):
        if call.held_until is not None and run.now > call.held_until:
            yield ev.CallLost(call.id, _LATE)
