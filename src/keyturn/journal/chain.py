"""The hash chain over a log's lines: what was written, in that order, and nothing left out between.

Each line's hash covers the line and the hash before it, so an edited, missing, added or moved line is found at its
place. A tail cut off together with its hashes leaves a shorter chain that is good: only a head hash kept elsewhere
tells. Nothing here reads or writes a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from ..core.codec import GENESIS, link


def chained(lines: Iterable[bytes], before: str = GENESIS) -> list[str]:
    """The hashes of lines that follow the line whose hash is `before`.

    >>> first, second = chained([b"one", b"two"])
    >>> chained([b"two"], before=first) == [second]
    True
    """
    return list(accumulate(lines, link, initial=before))[1:]


def verify(lines: Sequence[bytes], hashes: Sequence[str]) -> int | None:
    """The index of the first line that is not the one that was hashed there, or None if all are.

    >>> hashes = chained([b"one", b"two", b"three"])
    >>> verify([b"one", b"two", b"three"], hashes), verify([b"one", b"TWO", b"three"], hashes)
    (None, 1)
    """
    before = GENESIS
    for index, (line, kept) in enumerate(zip(lines, hashes, strict=False)):
        if link(before, line) != kept:
            return index
        before = kept
    return None if len(lines) == len(hashes) else min(len(lines), len(hashes))
