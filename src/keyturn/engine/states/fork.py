"""Fork a run: copy its log up to a place as the beginning of another run.

What happened is copied, what was allowed is not: grants end at the fork, and what waits asks anew under another id. A
run cannot be forked where a call was allowed or started: the fork would run it a second time.
"""

from __future__ import annotations

import msgspec

from ...core import commands as cm
from ...core import events as ev
from ...core.codec import Log
from ...core.decide import step
from ...core.drills import over
from ...core.errors import UserError
from ...core.evolve import evolve
from ...core.run import Run, call_digest, edit_digest, new_run
from ..run.open_run import new_id, new_salt


def forked(log: Log, at: int | None, now: int) -> Log:
    """Return the log of a new run from the first `at` lines of another; by default as many as can be copied."""
    places = _places(log)
    if log.run.drill is not None:
        if log.run.status == "finished":
            raise over(log.run)
        at = at if at is None else min((place for place in places if place >= at), default=at)
    if at is None:
        at = max(places)
    if at not in places:
        raise UserError(f"nothing can be forked at {at}, where calls are under way; the places are {sorted(places)}")
    run = new_id()
    first, *others = log.steps[:at]
    started, *rest = first.events
    assert isinstance(started, ev.RunStarted)
    about = {**started.about, "forked_from": {"run": log.run.id, "at": at}}
    renamed = msgspec.structs.replace(started, run=run, salt=new_salt(run), about=about)
    copy = Log(_rebound([ev.Step(first.at, [renamed, *rest]), *others]))
    ended = [event for grant in list(copy.run.grants) for event in step(copy.run, cm.Revoke(grant), now)]
    if ended:
        copy.append(ev.Step(now, ended))
    return copy


def _rebound(steps: list[ev.Step]) -> list[ev.Step]:
    """Return the steps with their decisions bound to the calls of the new run."""
    run, bound = new_run(), list[ev.Step]()
    for made in steps:
        run.now = max(run.now, made.at)
        events: list[ev.AnyEvent] = []
        for event in made.events:
            if isinstance(event, ev.CallDecided | ev.VoteCast):
                event = msgspec.structs.replace(event, decision=_bound(run, event.decision))
            evolve(run, event)
            events.append(event)
        bound.append(msgspec.structs.replace(made, events=events))
    return bound


def _bound(run: Run, decision: ev.Decision) -> ev.Decision:
    """Return the same decision, bound to the call as the new run has it."""
    call = run.calls[decision.call]
    runs = None if decision.args is None else edit_digest(run, call, decision.args, decision.basis)
    return msgspec.structs.replace(decision, digest=call_digest(run, call), runs=runs)


def _places(log: Log) -> set[int]:
    """Return the lengths at which nothing was allowed or under way, and the run was not over."""
    run, places = new_run(), set[int]()
    for place, made in enumerate(log.steps, 1):
        run.now = max(run.now, made.at)
        for event in made.events:
            evolve(run, event)
        if _still(run) and (run.drill is None or run.groups["wait"]):  # without its request a drill is nothing
            places.add(place)
    return places


def _still(run: Run) -> bool:
    at_work = run.groups["run"] or any(call not in run.frames for call in run.groups["started"])
    doubts = any(call.state != "asked" for call in run.groups["wait"].values())
    return not at_work and not doubts and run.status not in ("finished", "cancelled")
