"""Fold the steps of a log into a run: at once, or with pauses for whoever shares a thread with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import events as ev
from .evolve import evolve
from .run import Run

_EVENTS = 250


def fold(run: Run, steps: Iterable[ev.Step]) -> Run:
    """Fold whole steps into a run."""
    for _ in folding(run, steps):
        pass
    return run


def folding(run: Run, steps: Iterable[ev.Step]) -> Iterator[None]:
    """Fold whole steps into a run and pause after some hundred events, when one of them may be folded in part."""
    left = _EVENTS
    for step in steps:
        run.now = max(run.now, step.at)
        for event in step.events:
            evolve(run, event)
            left -= 1
            if not left:
                left = _EVENTS
                yield
        run.seq += 1
