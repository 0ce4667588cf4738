"""What stands on a terminal's screen after rows were printed: each row wrapped where the terminal ends.

Terminals differ on the columns of everything but ASCII: a screen is drawn by the narrowest and by the widest of them.
No test is here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from unicodedata import category, east_asian_width

OURS = re.compile(r"\x1b\[\d{1,2}m")
MARGINS = ("  | ", "  : ")


@cache
def narrow(char: str) -> int:
    """As a terminal counts that knows marks and takes what is ambiguous for narrow."""
    if category(char)[0] == "M":
        return 0
    return 2 if east_asian_width(char) in {"W", "F"} else 1


@cache
def broad(char: str) -> int:
    """As one counts that gives every mark a column of its own and draws the ambiguous wide."""
    if category(char)[0] == "M":
        return 1
    return 1 if char.isascii() else 2


def screen(rows: Iterable[str], width: int, columns: object) -> list[str]:
    """The rows of a screen of that width; a character that would move the cursor is an error."""
    count = narrow if columns is narrow else broad
    drawn: list[str] = []
    for row in rows:
        text = OURS.sub("", row)
        assert text.isprintable(), f"not printable: {row!r}"
        if text.isascii():  # one column each
            drawn += [text[at : at + width] for at in range(0, len(text), width)] or [""]
            continue
        drawn.append("")
        column = 0
        for char in text:
            columns_of_it = count(char)
            if column + columns_of_it > width:
                drawn.append("")
                column = 0
            drawn[-1] += char
            column += columns_of_it
    return drawn


def leads(rows: Iterable[str]) -> list[str]:
    """The beginnings of all rows that have no margin: what only we may have written.

    A row may name something of a stranger's behind a word of ours and a colon.
    """
    return [row.partition(": ")[0] for row in rows if not row.startswith(MARGINS)]
