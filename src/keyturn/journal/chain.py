"""The hash chain over a log's lines: what was written, in that order, and nothing left out between.

Each line's hash covers the line and the hash before it, so an edited, missing, added or moved line is found at its
place. A tail cut off together with its hashes leaves a shorter chain that is good: only a head hash kept elsewhere
tells. Nothing here reads or writes a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from ..core.codec import GENESIS, line_digest, link_digest


def linked(lines: Iterable[bytes], before: str = GENESIS) -> list[tuple[str, str]]:
    """Of each line its own digest and its hash in the chain.

    >>> first, second = linked([b"one", b"two"])
    >>> linked([b"two"], before=first[1]) == [second]
    True
    """
    digests = [line_digest(line) for line in lines]
    return list(zip(digests, list(accumulate(digests, link_digest, initial=before))[1:], strict=True))


def verify(lines: Sequence[bytes | None], links: Sequence[tuple[str, str]]) -> int | None:
    """The index of the first line that is not the one that was linked there, or None if all are.

    A line that is None was erased: its digest must still fit the chain.

    >>> links = linked([b"one", b"two", b"three"])
    >>> verify([b"one", b"two", b"three"], links), verify([b"one", b"TWO", b"three"], links)
    (None, 1)
    >>> verify([None, None, b"three"], links) is None
    True
    """
    before = GENESIS
    for index, (line, (digest, hash_)) in enumerate(zip(lines, links, strict=False)):
        if (line is not None and line_digest(line) != digest) or link_digest(before, digest) != hash_:
            return index
        before = hash_
    return None if len(lines) == len(links) else min(len(lines), len(links))
