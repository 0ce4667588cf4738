"""Bound how much is done for one person at the same time, so that a busy program of one keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from .limits import TooMany

#: How many requests of one login are served at the same time, and how many wait for that.
AT_ONCE, WAITING = 3, 100
#: How many more are served of the other logins of its person.
OTHERS = 1
#: How many times as long as a look of a stream took its person's streams rest, and how many seconds at most.
_REST, _LONGEST_REST = 3.0, 2.0
#: Where a request keeps its turn.
TURN = "keyturn_turn"


class TooManyAtOnce(TooMany):
    """Raised where a person has more requests under way than wait in line.

    >>> str(TooManyAtOnce(1))
    'too many requests of yours are under way: wait for their answers'
    """

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.args = ("too many requests of yours are under way: wait for their answers",)


class ServedTurn:
    """Holds a turn of a person until it is left; `waited` says that it was not free at once."""

    def __init__(self, leave: Callable[[], None], *, waited: bool) -> None:
        self._leave: Callable[[], None] | None = leave
        self.waited = waited

    def leave(self) -> None:
        """Let the next request of the person have the turn; once it was left, do nothing."""
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()


class _Line(asyncio.Semaphore):
    """Counts the requests of one person that are served or wait."""

    there = 0


class ServedTurns:
    """Serves a few requests of each login and of each person at the same time, in the order in which they came.

    >>> ServedTurns().under_way
    0
    """

    def __init__(self, at_once: int = AT_ONCE, waiting: int = WAITING) -> None:
        self._at_once, self._most = at_once, at_once + waiting
        self._lines = dict[str, _Line]()

    @property
    def under_way(self) -> int:
        """Return how many logins and people have requests under way."""
        return len(self._lines)

    async def serve(self, login: str, whose: str) -> ServedTurn:
        """Wait for a turn of a login, then of its person: one login takes none that their others need."""
        own = await self.take(f"login {login}")
        try:
            shared = await self.take(whose, self._at_once + OTHERS)
        except BaseException:
            own.leave()
            raise

        def leave() -> None:
            shared.leave()
            own.leave()

        return ServedTurn(leave, waited=own.waited or shared.waited)

    async def take(self, whose: str, at_once: int | None = None) -> ServedTurn:
        """Wait for a turn; raise `TooMany` where too many wait for one."""
        line = self._lines.get(whose) or _Line(at_once or self._at_once)
        if line.there >= self._most:
            raise TooManyAtOnce(1)
        self._lines[whose] = line
        line.there += 1
        waited = line.locked()
        try:
            await line.acquire()
        except BaseException:
            self._gone(whose, line)
            raise

        def leave() -> None:
            line.release()
            self._gone(whose, line)

        return ServedTurn(leave, waited=waited)

    @contextlib.asynccontextmanager
    async def look(self, whose: str) -> AsyncGenerator[None]:
        """Hold the one turn in which a stream of theirs looks again; after a long look the next one comes later."""
        turn = await self.take(f"look {whose}", 1)
        begun = time.monotonic()
        try:
            yield
        finally:
            rest = min((time.monotonic() - begun) * _REST, _LONGEST_REST)
            asyncio.get_running_loop().call_later(rest, turn.leave)

    def _gone(self, whose: str, line: _Line) -> None:
        line.there -= 1
        if not line.there:
            del self._lines[whose]


def leave_turn(scope: Any) -> None:
    """Let a request go on without its turn, since it waits for something."""
    turn: ServedTurn | None = scope.get(TURN)
    if turn is not None:
        turn.leave()
