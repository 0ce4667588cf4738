"""Say what follows from a job as it is committed: who is woken, what is counted, who comes to a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .bell import Bell
from .rows import Tally
from .session_sql import Placing


class Rung(list[tuple[str, str]]):
    """Lists whom a committed job wakes: tenants and runs.

    What it counts, and who comes to a session, is written as it is committed.
    """

    def __init__(
        self,
        names: Iterable[tuple[str, str]],
        tallies: Sequence[tuple[str, Tally]] = (),
        placed: Sequence[Placing] = (),
    ) -> None:
        super().__init__(names)
        self.tallies = tallies
        self.placed = placed


def counted_in(results: Iterable[Any]) -> list[tuple[str, Tally]]:
    """Return what jobs count that are about to be committed."""
    return [each for result in results if isinstance(result, Rung) for each in result.tallies]


def placed_in(results: Iterable[Any]) -> list[Placing]:
    """Return who comes to a session by jobs that are about to be committed."""
    return [each for result in results if isinstance(result, Rung) for each in result.placed]


def ringing(bell: Bell, elsewhere: Callable[[list[tuple[str, str]]], None]) -> Callable[[list[Any]], None]:
    """Return what a writer does after a commit: wake waiters here, then in other processes."""

    def ring(results: list[Any]) -> None:
        names = [name for result in results if isinstance(result, Rung) for name in result]
        if names:
            bell.ring(names)
            elsewhere(names)

    return ring
