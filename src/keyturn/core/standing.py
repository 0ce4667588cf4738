"""What a command about a call rests on: the asking and the decision that stood as its author looked at the call.

A policy, a guardrail or a hook takes its time, and meanwhile an approval may be taken back and given anew for other
arguments. What was found out about the one is not true of the other. A verdict records the revision that it is
of, so that the auditor sees it too.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import events as ev
from .commands import RunCommand
from .errors import Conflict
from .records import Decision
from .run import Call, Run


class Outdated(Conflict):
    """Raised where a call was asked or decided anew since the author of a command looked at it."""


class Still(RunCommand, frozen=True):
    """Let the commands behind it be decided only if nothing was asked or decided anew of a call.

    `grants` are all that the run had, where it matters that none covers the call: what is let run is counted before.
    """

    call: str
    revision: int
    decision: Decision | None
    grants: frozenset[str] | None = None


def still(call: Call) -> Still:
    """Return what stands of a call now."""
    return Still(call.id, call.revision, call.decision)


def check_still(run: Run, c: Still) -> Iterable[ev.AnyEvent]:
    """Refuse what rests on an asking or a decision that is not the one that stands."""
    call = run.calls.get(c.call)
    as_before = call is not None and (call.revision, call.decision) == (c.revision, c.decision)
    if not as_before or c.grants not in (None, frozenset(run.grants)):
        raise Outdated("this call was asked or decided anew meanwhile; what stands now is looked at next")
    return ()
