"""Series of walks, each in a process of its own: of all worlds, and of each mutant in the world where it shows."""

from __future__ import annotations

import faulthandler
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from random import Random
from typing import Any

from trials.alteration import Stale
from trials.forks import Child

from .broken import Shows
from .casts import CASTS
from .walk import Walk, Walked

A_DAY = 86_400.0


def walked(name: str, states: int, depth: int, seed: int | None = None, asks: int = 0) -> Walked:
    """Walk one world; a seed shuffles the order in which acts are tried, and so what is seen where the walk is cut.

    A call may be asked anew so many times more than the cast says.
    """
    cast = CASTS[name]()
    cast = cast._replace(asks=cast.asks + asks)
    if seed is not None:
        acts = list(cast.acts)
        Random(seed).shuffle(acts)
        cast = cast._replace(acts=tuple(acts))
    return Walk(cast).go(states, depth)


def walks(
    names: Iterable[str], states: int, depth: int, seed: int | None, jobs: int, asks: int = 0
) -> Iterator[Walked]:
    """Walk worlds, so many at once."""
    yield from _apart([partial(walked, name, states, depth, seed, asks) for name in names], jobs)


def caught(shown: Sequence[Shows], states: int, jobs: int = 1) -> Iterator[tuple[Shows, Walked]]:
    """Walk each mutant's world: there is no way back from a mutant."""
    yield from zip(shown, _apart([partial(_broken, each, states) for each in shown], jobs), strict=True)


def _broken(shown: Shows, states: int) -> Walked:
    try:
        shown.mutant.apply()
    except Stale as stale:
        return Walked(shown.cast, trace=[str(stale)])
    return walked(shown.cast, states, 99)


def _apart(walks: Sequence[Callable[[], Walked]], jobs: int) -> Iterator[Walked]:
    at_work: deque[Child] = deque()
    for walk in walks:
        at_work.append(Child(partial(_told, walk)))
        if len(at_work) == jobs:
            yield _heard(at_work.popleft())
    while at_work:
        yield _heard(at_work.popleft())


def _told(walk: Callable[[], Walked]) -> dict[str, Any]:
    faulthandler.cancel_dump_traceback_later()  # a walk may take longer than a child of another trial
    return asdict(walk())


def _heard(child: Child) -> Walked:
    ended = child.wait(A_DAY)
    said = ended.said if ended.said and "name" in ended.said else None
    return Walked(**said) if said else Walked("?", broke=f"the process ended without an answer: {ended}")


def trace(walk: Walked) -> str:
    """Write down how a promise was broken, act by act."""
    steps = [f"    {number:2}. {words}" for number, words in enumerate(walk.trace, 1)]
    return "\n".join([f"  {walk.broke or 'NOT CAUGHT'}", *steps])
