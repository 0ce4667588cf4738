"""Draw rows of a given width: what anybody else wrote is escaped, and stays behind a margin.

Rows are pairs of a style, a word of ours, and a text. The lines are those of `render`, so that a call looks here as it
does at the console; nothing in a row is read as markup by anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import LiteralString, TypeAlias

from ..render.escape import visible
from ..render.layout import LayoutLine, text_lines
from ..render.terminal import NARROWEST, folded_words, rows

Part: TypeAlias = tuple[str, str]  # a style, which is a word of ours, and a text
Row: TypeAlias = list[Part]

_MARGIN: LiteralString = "\u2502 "
_CUT = "\\[\u2026]"
_COLOUR = re.compile(r"\x1b\[(\d*)m")
_CODES: dict[str, str] = {
    "1": "strong", "31": "removed", "32": "added", "33": "note", "36": "unchanged",
}  # fmt: skip


def painted(row: str) -> Row:
    """Read a row that `render` or the console coloured: every escape sequence in it is ours.

    >>> painted("  \x1b[1magent\x1b[0m: ops")
    [('text', '  '), ('strong', 'agent'), ('text', ': ops')]
    """
    made: Row = []
    style: str = "text"
    for place, piece in enumerate(_COLOUR.split(row)):
        if place % 2:
            style = _CODES.get(piece, "text")
        elif piece:
            made.append((style, piece))
    return made


def line_rows(groups: Iterable[Iterable[LayoutLine]], width: int) -> Iterator[Row]:
    """Draw groups of lines as the console does, each in the style of its line.

    >>> list(line_rows([[LayoutLine("added", "+one")]], 20))
    [[('added', '| +one')]]
    """
    room = max(width, NARROWEST)
    for lines in groups:
        for line in lines:
            yield from ([(line.style, row)] for row in rows(line, width=room))


def prose(text: str, style: str, width: int) -> Iterator[Row]:
    """Draw a text of anybody's behind a margin, folded at words."""
    room = max(width, NARROWEST)
    for line in text_lines(text):
        yield from ([(style, _MARGIN), ("text", row[2:])] for row in rows(line, width=room))


def ours(style: str, words: LiteralString, width: int, *values: int) -> Iterator[Row]:
    """Draw a sentence of ours."""
    for row in folded_words(words.format(*values).split(" "), max(width, 1)):
        yield [(style, row)]


def labelled(style: str, lead: LiteralString, data: str, width: int) -> Iterator[Row]:
    """Draw words of ours, and behind them data that they are about, which begins no row."""
    line = LayoutLine("text", visible(data), lead)
    for row in rows(line, width=max(width, NARROWEST)):
        at = len(lead) + 1 if row.startswith(f"{lead}:") else 0
        yield [(style, row[:at]), ("text", row[at:])] if at else [("text", row)]


def cut(text: str, room: int) -> str:
    """Return so much of an escaped line as fits into so many columns, with a mark where it was cut.

    >>> cut("a short one", 20), cut("a line that is much too long", 20)
    ('a short one', 'a line that is \\\\[\u2026]')
    """
    room = max(room, NARROWEST + len(_CUT))
    parts = list(islice(rows(LayoutLine("text", text), width=room + 2), 2))
    if len(parts) == 1:
        return parts[0][2:]
    return next(rows(LayoutLine("text", text), width=room + 2 - len(_CUT)))[2:] + _CUT
