"""Write a number with its noun, for every text that counts."""

from __future__ import annotations


def plural(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> plural(1, "line"), plural(1200, "line")
    ('1 line', '1,200 lines')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
