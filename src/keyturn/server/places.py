"""Count open streams: they cost memory and a place for as long as they last, so each person has a number of them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Generator

from .limits import TooMany


class TooManyStreams(TooMany):
    """Raised where somebody, or the server, has no place for one stream more.

    >>> str(TooManyStreams(5))
    'too many streams are open: close one'
    """

    def __init__(self, after: int) -> None:
        super().__init__(after)
        self.args = ("too many streams are open: close one",)


class StreamPlaces:
    """Counts the streams that are open, of each person and of all."""

    def __init__(self, each: int = 20, whole: int = 2_000) -> None:
        self._each, self._whole = each, whole
        self._open = Counter[str]()

    @property
    def taken(self) -> int:
        """Return how many are open."""
        return self._open.total()

    @contextlib.contextmanager
    def held(self, person: str) -> Generator[None]:
        """Hold a place while a stream is open."""
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1
            if not self._open[person]:
                del self._open[person]

    def check(self, person: str) -> None:
        """Refuse one stream more than somebody, or the server, has places for."""
        if self._open[person] >= self._each or self.taken >= self._whole:
            raise TooManyStreams(5)
