"""The public hash chain of a run: a plain hash over the digests and seals of its lines, which anybody can compute.

The seals of a log are keyed, so that only those who hold the keys can verify them. This chain has no key. It proves
nothing by itself, since anybody can make one anew; what it comes to, its head, is what a checkpoint signs.

    head of no lines    SHA-256 of "LENGTH:TENANT" and "LENGTH:RUN", one after the other, lengths in bytes
    head after a line   SHA-256 of the head before, SHA-256 of the line's body, and the line's seal
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from ...core.seal import origin


class PublicChain:
    """Computes the head of one run, line by line.

    >>> chain = PublicChain("default", "run")
    >>> chain.add(bytes(32), "key.mac")
    >>> chain.count, chain.head.hex()[:8]
    (1, '995a92df')
    """

    __slots__ = ("count", "head")

    def __init__(self, tenant: str, run: str) -> None:
        self.head = origin(tenant, run)
        self.count = 0

    def add(self, digest: bytes, seal: str) -> None:
        """Go on past a line."""
        self.head = sha256(self.head + digest + seal.encode()).digest()
        self.count += 1


def head_of(tenant: str, run: str, links: Iterable[tuple[str, str]]) -> str:
    """Return the head that the digests and seals of a run's lines come to, "" where one of them is none.

    >>> head_of("default", "run", [("no digest", "key.mac")])
    ''
    """
    chain = PublicChain(tenant, run)
    try:
        for digest, seal in links:
            chain.add(bytes.fromhex(digest), seal)
    except ValueError:  # UnicodeEncodeError included
        return ""
    return chain.head.hex()
