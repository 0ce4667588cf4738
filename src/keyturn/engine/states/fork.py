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
from ...core.errors import RunMissing, UserError
from ...core.evolve import evolve
from ...core.run import new_run
from ...journal.base import Store
from ..driving.writer import Writer
from ..run.log_cache import log_in
from ..run.new_ids import new_id
from ..run.open_run import clock_ms, new_salt
from .named_start import ONCE, NamedStart


def forked(log: Log, at: int | None, now: int, named: NamedStart | None = None) -> Log:
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
    run = new_id() if named is None else named.run
    first, *others = log.steps[:at]
    started, *rest = first.events
    assert isinstance(started, ev.RunStarted)
    about = {**started.about, "forked_from": {"run": log.run.id, "at": at}}
    if named is not None:
        about[ONCE] = named.said
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


async def write_fork(journal: Store, run: str, at: int | None, once: str | None) -> str:
    """Write a fork of a run, once under a name if one is given; return its id."""
    named = None if once is None else NamedStart.of_fork(once, run, at)

    async def begin() -> str:
        origin = await log_in(journal, run)
        if not origin.steps:  # it was erased
            raise RunMissing(run)
        log = forked(origin, at, await journal.now(), named)
        await Writer(log, journal, clock_ms).write_whole()
        return log.run.id

    return await (begin() if named is None else named.begun(journal, begin))
