"""Let one thing happen in a world: decide the command on a copy of its run, fold it, and hear what the oracle says."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from keyturn.core import commands as cm
from keyturn.core.decide import step
from keyturn.core.errors import KeyturnError
from keyturn.core.events import AnyEvent, Step
from keyturn.core.run import Run, copy_run

from .acts import Act, Try
from .book import Broken
from .oracle import heard
from .world import Copy, World, at_rest, check, shown_after


class Cast(NamedTuple):
    """A small world: how it begins, what can happen in it, and how far it is walked."""

    name: str
    what: str
    start: World
    acts: tuple[Act, ...]
    horizon: int  # the age, in milliseconds, after which nothing depends on a time
    asks: int = 2  # how often a call may be asked anew; what comes after that is not walked
    forks: bool = False


class Spares:
    """Copies of a world's runs to decide on; one that refused is as it was, and is used again."""

    def __init__(self, world: World) -> None:
        self.runs: list[Run | None] = [None] * len(world.runs)
        self.world = world
        self.refused = 0

    def take(self, place: int) -> Run:
        """Return a copy of a run."""
        run = self.runs[place]
        if run is None:
            run = self.runs[place] = copy_run(self.world.runs[place])
        return run


def happen(cast: Cast, world: World, act: Act, spares: Spares) -> World | None:
    """Return the world after an act; None where nothing came of it. A broken promise is raised."""
    if act.change is not None:
        return act.change(world)
    assert act.command is not None
    tried = act.command(world)
    if tried is None:
        return None
    run = spares.take(tried.run)
    events = _decided(run, tried, world.clock, spares)
    if not events:
        if world.unsettled and isinstance(tried.command, cm.RecordRestore):
            return replace(world, unsettled=False)
        return None
    spares.runs[tried.run] = None
    return _after(cast, world, tried, run, events)


def _decided(run: Run, tried: Try, now: int, spares: Spares) -> list[AnyEvent]:
    try:
        events = step(run, tried.command, now)
        if tried.then is not None:
            spares.runs[tried.run] = None  # refused after the first, it is not as it was
            events = [*events, *step(run, tried.then, now)]
        return events  # what fails is refused as a whole
    except KeyturnError:
        spares.refused += 1
        return []
    except Exception as error:
        raise Broken("I7", f"the core raised {type(error).__name__}: {error}") from error


def _after(cast: Cast, world: World, tried: Try, run: Run, events: list[AnyEvent]) -> World:
    place = tried.run
    book = heard(world.books[place], events, tried.done)
    check(run, book)
    log = (*world.logs[place], Step(world.clock, events))
    more: dict[str, Any] = {}
    if cast.forks and at_rest(run):
        more["still"] = _with(world.still, place, Copy(run, book, log))
    settled = isinstance(tried.command, cm.RecordRestore)
    return replace(
        world,
        runs=_with(world.runs, place, run),
        books=_with(world.books, place, book),
        logs=_with(world.logs, place, log),
        shown=shown_after(world.shown, place, run, book),
        unsettled=world.unsettled and not settled,
        **more,
    )


def _with(all_of: tuple[Any, ...], place: int, one: Any) -> tuple[Any, ...]:
    return (*all_of[:place], one, *all_of[place + 1 :])
