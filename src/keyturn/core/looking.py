"""Judge whether somebody had a request on the screen for as long as its terms say, before their word lets it run.

What is not on record did not happen: who did not look, or looked at what was asked before, has not looked.
"""

from __future__ import annotations

from . import events as ev
from .policy import Approval
from .records import RUNS
from .run import Call, Run


def said_at(run: Run, decision: ev.Decision) -> int:
    """Return when a decision was said, on the run's own time.

    How long it was in hand is told by one clock and counted back on the run's time, which never goes back though the
    clock may have been wrong.
    """
    in_hand = max(0, run.clock - decision.at) if decision.at else 0
    return max(0, run.now - in_hand)


def unlooked(call: Call, terms: Approval | None, said: ev.Decision, at: int) -> str:
    """Return why a word that was said at a time comes too soon to let a call run; "" where it does not."""
    floor = None if terms is None else terms.min_look_ms
    if floor is None or said.verdict not in RUNS:
        return ""
    who = said.decider
    since = None if who is None or who.strength == "claimed" else call.looks.get(who.id)
    if since is None:
        return (
            "it takes somebody who logged in and had the request on the screen first, and nobody recorded that; "
            "show it, call looked(request, by=...) of the inbox, and decide after that"
        )
    left = floor - (at - since)
    if left <= 0:
        return ""
    return f"it takes {floor / 1_000:g} seconds of looking at it, and {left / 1_000:g} of them are left; read it first"
