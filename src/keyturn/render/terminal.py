"""A preview on a terminal: plain text, and colour only around it.

Content stands behind a margin that data cannot leave: give `width`, or the terminal itself wraps a long row
to the first column, where it could pass for a heading. Every escape sequence in the output is one of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TextIO
from unicodedata import category

from ..core.preview import Preview
from .layout import Line, Style, preview_lines

_CODES: dict[Style, str] = {
    "heading": "1",
    "note": "33",
    "removed": "31",
    "added": "32",
    "unchanged": "36",
}
_FIRST, _NEXT = "| ", ": "


def render(preview: Preview, *, colour: bool = False, width: int | None = None, limit: int | None = None) -> str:
    """The preview as text, a blank line between blocks, no newline at the end.

    >>> from keyturn.core.preview import Command
    >>> print(render(Preview((Command("ls -l\\x1b[2J", cwd="/srv"),))))
    command
    in: /srv
    | ls -l\\u{1b}[2J
    """
    return "\n\n".join(
        "\n".join(row for line in lines for row in _drawn(line, colour, width))
        for lines in preview_lines(preview, limit)
    )


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether colour belongs on `stream`: a terminal that can show it, and nobody said NO_COLOR.

    >>> import io
    >>> wants_colour(io.StringIO(), {})
    False
    """
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def _drawn(line: Line, colour: bool, width: int | None) -> Iterator[str]:
    margin = _FIRST if line.content else ""
    code = _CODES.get(line.style) if colour else None
    for part in _folded(line.text, None if width is None else max(width - len(_NEXT), 8)):
        yield f"{margin}\x1b[{code}m{part}\x1b[0m" if code else margin + part
        margin = _NEXT


def _folded(text: str, width: int | None) -> Iterator[str]:
    """`text` in parts of at most `width` columns; a part never begins with a mark, nor splits its base from it."""
    if width is None or (len(text) <= width and text.isascii()):
        yield text
        return
    start = column = 0
    for place, char in enumerate(text):
        wide = _columns(char)
        if column + wide > width:
            yield text[start:place]
            start, column = place, 0
        column += wide
    yield text[start:]


def _columns(char: str) -> int:
    """Never less than the columns a terminal takes: they differ on everything but ASCII and marks."""
    if char.isascii():
        return 1
    return 0 if category(char)[0] == "M" else 2
