"""Check the laws of calls that a caller outside carries out: only such a call is claimed, and held while at work."""

from __future__ import annotations

from ...core import events as ev
from ..calls import need
from ..run import AuditedRun
from . import gate


def started(audited: AuditedRun, event: ev.CallStarted) -> None:
    """Check that a call is claimed, with a time and a caller, exactly where a caller outside carries it out."""
    call = audited.at(event.call)
    claimed = event.until is not None
    need(claimed == call.proposal.claimed, "I2", f"call {call.id} started where others carry it out")
    need(not claimed or bool(event.by), "I2", f"call {call.id} was claimed by no caller")
    gate.started(audited, event)


def held(audited: AuditedRun, event: ev.CallHeld) -> None:
    """Check that the claim on a call at work is prolonged."""
    call = audited.at(event.call)
    at_work = call.place == "running" and call.proposal.claimed
    need(at_work, "I2", f"the claim on call {call.id} was prolonged while it was {call.place}")
