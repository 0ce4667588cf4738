"""Judge whether somebody had a request on the screen for as long as its terms say, before their word lets it run.

What is not on record did not happen: who did not look, or looked at what was asked before, has not looked.
"""

from __future__ import annotations

from msgspec.structs import replace

from .. import commands as cm
from .. import events as ev
from ..policy import Approval
from ..records import RUNS
from ..run import Call, Run


def on_run_time(run: Run, c: cm.Deliver, now: int) -> cm.Deliver:
    """Return decisions with the time of each on the run's own time, given what the clock says now.

    The same clock says how long a decision was in hand; that is subtracted from the run's time, which never goes back
    though the clock may have been wrong.
    """
    ahead = run.now - now
    said = [replace(each, at=max(0, min(run.now, each.at + ahead)) if each.at else run.now) for each in c.decisions]
    return replace(c, decisions=said)


def unlooked(call: Call, terms: Approval | None, said: ev.Decision) -> str:
    """Return why a word comes too soon to let a call run; "" where it does not."""
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
    left = floor - (said.at - since)
    if left <= 0:
        return ""
    return f"it takes {floor / 1_000:g} seconds of looking at it, and {left / 1_000:g} of them are left; read it first"
