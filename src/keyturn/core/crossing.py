"""Let nothing that is open cross from one run into another, or from a copy of a store into the store.

A vote, a confirmation, a look and a mark are each on one asking of one call of one run. Where a run goes on as a copy,
of another run or of itself, every call that waits asks anew, and approving grants end: each of them was given once, and
nobody knows what became of it elsewhere. What is over is copied as it was decided, bound to the run in which it was.
Rejections stay. They let nothing run.
"""

from __future__ import annotations

from . import commands as cm
from . import events as ev
from .errors import Conflict
from .gate.opening import Events, open_run
from .records import BY_GRANT
from .run import RESTORED, Run
from .states import OVER


def restored(run: Run, c: cm.RecordRestore) -> Events:
    """Put in doubt what a restored store lets run, and ask again what waits."""
    if run.status in OVER or run.status == "new" or _told_of_copy(run, c.nonce or c.why):
        return
    anew = _asked_anew(run, "restored", c.why, c.nonce)
    for call in list(run.groups["screen"].values()):
        if not call.voided:  # it may have been allowed, and have run, after the copy was made
            yield ev.CallVoided(call.id, call.proposal, c.why, nonce=c.nonce)
    for call in [*run.groups["run"].values(), *run.groups["started"].values()]:
        if call.id not in run.frames:
            yield ev.CallLost(call.id, c.why, nonce=c.nonce)
    yield from anew
    yield from _approvals_end(run)
    yield ev.RunRestored(c.why, c.nonce)


def _told_of_copy(run: Run, which: str) -> bool:
    """Return whether a run was told of this restore, and nothing that would be in doubt was let run since.

    What was decided anew may be in the next copy, and have run: it is no less in doubt than what was there before.
    """
    groups = run.groups
    may_run = [call for group in ("run", "started") for call in groups[group].values() if call.id not in run.frames]
    unjudged = any(not call.voided for call in groups["screen"].values())
    heard = any(call.votes or call.met or call.withdrawn for call in groups["wait"].values())
    return run.restored == which and not (may_run or unjudged or heard)


def fork(run: Run, c: cm.Fork) -> Events:
    """Begin a fork where the lines end that it copied; refuse it where a call was allowed or started."""
    open_run(run)
    if c.run != run.id or not run.copied_from:
        raise Conflict("this log is not a copy of another run's log, so it cannot become a fork", winner=run.id)
    if not still(run):
        raise Conflict("a run cannot be forked while calls are in progress")
    yield from _asked_anew(run, "forked")
    yield from _approvals_end(run)
    yield ev.RunForked(c.run, c.origin, c.at)


def still(run: Run) -> bool:
    """Return whether all that is open in a run waits, or is at an agent that began on no approval.

    Anything else was let run once, in this run, and would run a second time in a copy.
    """
    groups = run.groups
    at_work = groups["run"] or any(not _unasked(run, call) for call in groups["started"])
    doubts = any(call.state != "asked" for call in groups["wait"].values())
    return not at_work and not doubts and run.status not in OVER


def _unasked(run: Run, call_id: str) -> bool:
    call = run.calls[call_id]
    return call_id in run.frames and call.decision is None and not call.by.startswith(BY_GRANT)


def _asked_anew(run: Run, why: ev.Again, reason: str = "", nonce: str = "") -> list[ev.AnyEvent]:
    """Return that each call which waits asks anew, so that nothing said of it before is said of it any more."""
    return [ev.CallAskedAgain(name, why, run.now, reason=reason, nonce=nonce) for name in run.groups["wait"]]


def _approvals_end(run: Run) -> Events:
    """Yield the end of each approving grant: how often it was used elsewhere is not in the copy."""
    for grant in list(run.grants):
        if run.grants[grant].verdict == "approve":
            yield ev.GrantRevoked(grant)


# What is folded -----------------------------------------------------------------------------------------------------


def was_restored(run: Run, event: ev.RunRestored) -> None:
    """Stop the run until somebody says otherwise."""
    run.move("restore")
    run.error = RESTORED
    run.traceback = ""
    run.restored = event.nonce or event.why
    for call in run.groups["wait"].values():
        call.revoked = True


def was_forked(run: Run, event: ev.RunForked) -> None:
    """Bind what is decided from here on to another run; what is to be reviewed, or told to counts, stays behind."""
    run.copied_from = "" if event.run == run.id else event.run
    run.reviews = {name: review for name, review in run.reviews.items() if review.said is not None}
    run.owed = {}
