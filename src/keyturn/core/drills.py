"""Judge what is said to a drill: a request that must not be approved, made from a template, of which nothing ever runs.

A drill is a run of its own that looks like any other until somebody answers it: the same events, the same request. Only
its first event says what it is. Few commands are known to it at all, and none of them starts, screens or lends
anything; the first word of one person who may decide the request ends it, whatever that word is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import commands as cm
from . import events as ev
from .errors import Conflict, Expired, NotAllowed
from .gate.deciding import check_decision, repeated
from .gate.expiry import tick as tick_any
from .gate.opening import Events
from .records import Decision
from .run import Run, call_digest
from .states import OVER

_AS_ANY = (
    *(cm.Start, cm.RecordReply, cm.MarkCall, cm.RecordLook, cm.Withdraw, cm.Revoke, cm.GiveReview),
    *(cm.Screen, cm.AddInput, cm.Resume, cm.SaveContext, cm.Cancel, cm.Fail, cm.RecordRestore, cm.Fork),
)
_LET_RUN = ("approve", "edit")

Decides = Callable[[Run, Any], Events]


def decider(run: Run, command: cm.RunCommand, usual: Decides) -> Decides:
    """Return what decides a command of a drill; refuse what no drill ever does, and all once it is over."""
    if isinstance(command, cm.Deliver):
        return deliver
    if isinstance(command, cm.Tick):
        return tick
    if run.status == "finished":
        raise over(run)
    if isinstance(command, _AS_ANY) and _asks(command):
        return usual
    raise Conflict("nothing of this run is ever executed")


def _asks(command: cm.RunCommand) -> bool:
    """Return whether a command lets nothing run: each call that is proposed or screened asks."""
    if isinstance(command, cm.RecordReply):
        return all(each.gate != "allow" for each in command.proposals)
    return not isinstance(command, cm.Screen) or (command.verdict.action == "ask" and not command.on_decision)


def over(run: Run) -> Conflict:
    """Return what is said of a drill that was answered, to whoever would say more."""
    said = next(iter(run.decided.values()))
    by = said.by or "somebody"
    how = "it ended by itself" if said.via == "clock" else f"{by} answered it"
    return Conflict(
        f"this was a drill, and {how}; nothing of it ran, so there is nothing to decide or withdraw",
        winner=said.by or said.via,
        at=said.at,
    )


def deliver(run: Run, c: cm.Deliver) -> Events:
    """End a drill on the first word of somebody who may decide it; no standing decision comes of it."""
    fresh = [decision for decision in c.decisions if not _repeated(run, decision)]
    if fresh and run.status == "finished":
        ended = run.decided.get(fresh[0].call)
        if ended is not None and ended.verdict == "expire":
            raise Expired("this request has expired; the call was not executed and can no longer be approved")
        raise over(run)
    for decision in fresh:
        check_decision(run, decision)
        if decision.via != "person":
            raise NotAllowed("this request requires a person's decision")
    if fresh:
        yield ev.DrillEnded(fresh[0], fresh[0].verdict not in _LET_RUN, len(c.grants))


def _repeated(run: Run, decision: ev.Decision) -> bool:
    """Return whether the same person said the same before; whoever else says it is told that it is over."""
    return repeated(run, decision) and run.decided[decision.call].decider == decision.decider


def tick(run: Run, c: cm.Tick) -> Events:
    """Let time pass as for any run; where the request would end, or the drill's own time is up, it ends quietly.

    It is not asked again in the step that ends it: its row would show another request than was open.
    """
    if run.status in OVER:
        return
    if run.drill is not None and run.now >= run.drill:
        for call in list(run.groups["wait"].values())[:1]:
            yield ev.DrillEnded(Decision(call.id, "expire", call_digest(run, call), run.now, via="clock"))
        return
    for event in tick_any(run, c):
        if isinstance(event, ev.CallDecided):
            yield ev.DrillEnded(event.decision)
            return
        yield event
