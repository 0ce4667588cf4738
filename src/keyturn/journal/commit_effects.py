"""Record the side effects of a commit: which waiters it wakes, what it adds to tallies, which runs join a session.

A store collects them from the jobs of a batch: tallies and places are written in the same transaction, and waiters
are woken after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from .base import Claim, Lease
from .due_feed import MadeDue
from .rows import Changes, Tally
from .session_sql import Placing
from .waiters import DUE, NOTICES, SAID, Waiters


class CommitEffects(msgspec.Struct, frozen=True):
    """Holds the side effects of one job: the names that it wakes, its tallies, and the places it gives on sessions.

    `due` are the runs that it made due, which other processes may be told by an engine.

    >>> CommitEffects([("default", "run")]).tallies
    ()
    """

    wakes: Sequence[tuple[str, str]] = ()
    tallies: Sequence[tuple[str, Tally]] = ()
    placed: Sequence[Placing] = ()
    due: Sequence[MadeDue] = ()


def of_append(
    tenant: str, run: str, claim: Claim | None, changes: Changes | None, lease: Lease | None = None
) -> CommitEffects:
    """Return the side effects of an append.

    It wakes the watchers of the run, delivery where there are notices, and the run's holder and the workers where it
    is made without a claim.
    """
    held = claim is not None or (lease is not None and lease.worker)
    wakes = [(tenant, run)] if held else [(tenant, run), (tenant, DUE), (tenant, SAID + run)]
    if changes is None:
        return CommitEffects(wakes)
    if changes.notices:
        wakes.append((tenant, NOTICES))
    return CommitEffects(wakes, [(tenant, tally) for tally in changes.tallies] if changes.tallies else ())


def merged(results: Sequence[Any]) -> CommitEffects:
    """Return the side effects of all jobs of a batch, from their results.

    >>> merged([None, CommitEffects([("a", "run")]), 3, CommitEffects([("b", "run")])]).wakes
    [('a', 'run'), ('b', 'run')]
    """
    if len(results) == 1 and isinstance(results[0], CommitEffects):  # nearly every batch
        return results[0]
    wakes: list[tuple[str, str]] = []
    tallies: list[tuple[str, Tally]] = []
    placed: list[Placing] = []
    due: list[MadeDue] = []
    for result in results:
        if isinstance(result, CommitEffects):
            wakes += result.wakes
            tallies += result.tallies
            placed += result.placed
            due += result.due
    return CommitEffects(wakes, tallies, placed, due)


def waking(bell: Waiters, elsewhere: Callable[[], None] | None = None) -> Callable[[list[Any]], None]:
    """Return what a writer calls after a commit: it wakes waiters of this process, then other processes."""

    def wake(results: list[Any]) -> None:
        effects = merged(results)
        if effects.wakes:
            bell.ring(effects.wakes)
            if elsewhere is not None:
                elsewhere()
        bell.due.put(effects.due)

    return wake
