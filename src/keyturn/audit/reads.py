"""Read the log of who read what again: each line is an entry, and none is older than the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..directory.read_lines import read_of


def faults_of_reads(bodies: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the place and the fault of each line that nobody can have written.

    >>> list(faults_of_reads([b"{}"]))
    [(0, 'the line cannot be read')]
    """
    at = 0
    for place, body in enumerate(bodies):
        try:
            read = read_of(body)
        except ValueError:
            yield place, "the line cannot be read"
            continue
        if read.at < at:
            yield place, "the entry is older than the one before it"
        at = read.at
