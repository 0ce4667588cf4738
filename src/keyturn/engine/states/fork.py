"""Fork a run: copy its log up to a place as the beginning of another run.

What happened is copied as it was written, what was allowed is not: approving grants end at the fork, and what waits
asks anew, in another asking and under another id. A run cannot be forked where a call was allowed or started: the fork
would run it a second time.
"""

from __future__ import annotations

import msgspec

from ...core import commands as cm
from ...core import events as ev
from ...core.codec import Log
from ...core.crossing import still
from ...core.decide import step
from ...core.drills import over
from ...core.errors import UserError
from ...core.evolve import evolve
from ...core.run import new_run
from ..run.new_ids import new_id
from ..run.open_run import new_salt


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
    bound_to = started.copied_from or started.run
    renamed = msgspec.structs.replace(started, run=run, salt=new_salt(run), about=about, copied_from=bound_to)
    copy = Log([ev.Step(first.at, [renamed, *rest]), *others])
    copy.append(ev.Step(now, step(copy.run, cm.Fork(run, log.run.id, at), now)))
    return copy


def _places(log: Log) -> set[int]:
    """Return the lengths at which nothing was allowed or under way, and the run was not over."""
    run, places = new_run(), set[int]()
    for place, made in enumerate(log.steps, 1):
        run.now = max(run.now, made.at)
        for event in made.events:
            evolve(run, event)
        if still(run) and (run.drill is None or run.groups["wait"]):  # without its request a drill is nothing
            places.add(place)
    return places
