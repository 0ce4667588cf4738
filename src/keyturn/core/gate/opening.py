"""Ask what every command asks first: is the run open, is the call there in such a state, and does it stand as before.

A policy, a guardrail or a hook takes its time, and meanwhile an approval may be taken back and given anew for other
arguments. What was found out about the one is not true of the other. A verdict records the revision that it is of, so
that the auditor sees it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .. import events as ev
from ..commands import RunCommand
from ..digest import digest
from ..errors import Conflict
from ..records import Decision, Word
from ..run import Call, Run
from ..states import OVER

Events = Iterator[ev.AnyEvent]

# The words that open a call in each state it waits in.
OPENING: dict[str, tuple[Word, ...]] = {
    "asked": ("approve", "edit", "reject", "answer"),
    "in_doubt": ("ran", "did_not_run", "retry"),
    "needs": ("answer", "reject"),
}


def open_run(run: Run) -> None:
    """Refuse a command to a run that is over."""
    if run.status in OVER:
        why = f": {run.error}" if run.error else ""
        raise Conflict(f"this run is {run.status}{why}; none of its calls is pending", winner=run.status)


def go_on(run: Run) -> Events:
    """Resume a run that failed, on the word of a person; one that was set aside requires a resume that names them."""
    if run.status == "failed" and not run.lost:
        yield ev.RunResumed()


def said_once(run: Run, once: str, what: object) -> bool:
    """Return whether this was done under its name before, however the run went on since; another thing is refused."""
    known = run.named.get(once) if once else None
    if known is not None and known != digest(what):
        raise Conflict("another command used this name; choose another name")
    return known is not None


def call_in(run: Run, call_id: str, *states: str) -> Call:
    """Return the call of that id in one of these states, or raise `Conflict`."""
    call = run.calls.get(call_id)
    if call is None or call.state not in states:
        found = "settled" if call is None else call.state
        raise Conflict(f"this needs a call that is {' or '.join(states)}; it is {found}")
    return call


class Outdated(Conflict):
    """Raised where a call was asked, decided or started anew since the author of a command looked at it."""


class Still(RunCommand, frozen=True):
    """Let the commands behind it be decided only if a call was not asked, decided or started anew.

    `grants` are all that the run had, where it matters that none covers the call: what is let run is counted before.
    """

    call: str
    revision: int
    decision: Decision | None
    grants: frozenset[str] | None = None
    started: bool = False


def still(call: Call) -> Still:
    """Return what stands of a call now."""
    return Still(call.id, call.revision, call.decision, started=call.state == "started")


def check_still(run: Run, c: Still) -> Iterable[ev.AnyEvent]:
    """Refuse what rests on an asking or a decision that is not the one that stands."""
    call = run.calls.get(c.call)
    stands = None if call is None else (call.revision, call.decision, call.state == "started")
    if stands != (c.revision, c.decision, c.started) or c.grants not in (None, frozenset(run.grants)):
        raise Outdated("this call was requested or decided again meanwhile; its current version is checked next")
    return ()
