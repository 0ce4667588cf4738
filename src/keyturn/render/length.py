"""Say whether what would run is too long to be seen at a glance: one measure for pages, terminals and messages.

What is counted is rows as a phone draws them, so that a call is as long wherever somebody decides it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .layout import LayoutLine

#: How many rows of one block are shown before somebody asks for the rest.
FIRST = 40
#: How many rows of a phone a whole call may take before somebody says that they saw all of it.
ROWS = 60
#: How many characters of a payload a phone draws in one row.
PHONE = 38


def phone_rows(text: str) -> int:
    """Return how many rows a phone takes for a line, which goes on in the next row where it is too long.

    >>> phone_rows("ls"), phone_rows("x" * 77)
    (1, 3)
    """
    width = len(text) if text.isascii() else sum(1 if ord(char) < 0x1100 else 2 for char in text)
    return max(1, -(-width // PHONE))


def is_long(groups: Iterable[Iterable[LayoutLine]]) -> bool:
    """Return whether a call takes more rows than are seen at a glance, or one block of it does.

    >>> is_long([[LayoutLine("text", "ls")]]), is_long([[LayoutLine("text", "ls")] * 41])
    (False, True)
    """
    rows = 0
    for group in groups:
        lines = [line for line in group if not line.lead or line.style != "heading"]
        rows += sum(phone_rows(line.text) for line in lines)
        if len(lines) > FIRST or rows > ROWS:
            return True
    return False
