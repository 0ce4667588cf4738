"""Check the laws of drills: nothing of one is ever let run, lent or done, and the first person's word ends it."""

from __future__ import annotations

from ...core import events as ev
from ..calls import need
from ..run import AuditedRun
from . import gate, steps

_HAPPENS = (
    *(ev.RunStarted, ev.FrameOpened, ev.ReplyRecorded, ev.CallScreened, ev.CallAskedAgain, ev.ExpiryNear),
    *(ev.CallMarked, ev.CallLooked, ev.InputAdded, ev.ContextSaved, ev.DrillEnded),
    *(ev.RunResumed, ev.RunFailed, ev.RunCancelled, ev.RunRestored, ev.RunForked),
)
_SAID = {"approve": False, "edit": False, "reject": True, "answer": True}


def fits_drill(audited: AuditedRun, event: ev.AnyEvent) -> None:
    """Check that nothing happens in a drill that would let anything run."""
    if audited.drill is None:
        return
    what = type(event).__name__
    need(isinstance(event, _HAPPENS), "I1", f"the run is a drill, of which nothing ever runs, and has {what}")
    if isinstance(event, ev.ReplyRecorded):
        asks = all(made.gate != "allow" for made in event.proposals)
        need(asks, "I1", "the run is a drill, and a call of it did not ask")
    if isinstance(event, ev.CallScreened):
        need(event.action == "ask", "I1", f"the run is a drill, and call {event.call} of it did not ask")


def drill_ended(audited: AuditedRun, event: ev.DrillEnded) -> None:
    """Check that a drill ends on the word of somebody who may decide it, or in its time."""
    made = event.decision
    need(audited.drill is not None, "I8", "the run ended as a drill does, and is none")
    call = audited.at(made.call)
    need(call.place == "asked", "I3", f"the drill {call.id} was answered while it was {call.place}")
    if made.via == "clock":
        quiet = made.verdict == "expire" and event.passed is None and made.decider is None and made.at == audited.now
        need(quiet, "I8", f"the drill {call.id} ended by the clock, and not quietly")
        need(made.digest == call.digest(audited.bound_to), "I4", f"the end of the drill {call.id} is of other bytes")
        in_time = steps.ran_out(audited, call) or (audited.drill is not None and audited.now >= audited.drill)
        need(in_time, "I6", f"the drill {call.id} ended before its time")
    else:
        said = made.via == "person" and _SAID.get(made.verdict) is event.passed
        need(said, "I7", f"the drill {call.id} was answered otherwise than it says")
        gate.check(audited, call, made)
    audited.over = True
