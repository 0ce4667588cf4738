"""Render a preview on a terminal: plain text, and colour only around it.

Data stands behind a margin that it cannot leave, and what is ours never begins with one. Give `width`, or the
terminal itself wraps a long row to the first column. Every escape sequence in the output is one of ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO
from unicodedata import category

from ..core.errors import UserError
from ..core.preview import Preview
from .layout import LayoutLine, Style, preview_lines

_COLOUR = re.compile(r"\x1b\[\d*m")

_CODES: dict[Style, str] = {
    "heading": "1",
    "note": "33",
    "removed": "31",
    "added": "32",
    "unchanged": "36",
}
_FIRST, _NEXT = "| ", ": "

#: Room for the margin, and for the widest thing that is not torn apart: a wide character and its marks.
NARROWEST = len(_NEXT) + 8


def render(preview: Preview, *, colour: bool = False, width: int | None = None, limit: int | None = None) -> str:
    """Draw the preview as text, a blank line between blocks, no newline at the end.

    Raises `UserError` for a width under `NARROWEST`: it has no room for a margin.

    >>> from keyturn.core.preview import Command
    >>> print(render(Preview((Command("ls -l\\x1b[2J", cwd="/srv"),))))
    command
    in: /srv
    | ls -l\\u{1b}[2J
    """
    return "\n".join(drawn(preview_lines(preview, limit), colour=colour, width=width))


def drawn(groups: Iterable[Iterable[LayoutLine]], *, colour: bool = False, width: int | None = None) -> Iterator[str]:
    """Draw groups of lines as rows, an empty row between groups.

    >>> list(drawn([[LayoutLine("text", "one")], [LayoutLine("text", "two")]]))
    ['| one', '', '| two']
    """
    for place, lines in enumerate(groups):
        if place:
            yield ""
        for line in lines:
            yield from rows(line, colour=colour, width=width)


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether colour belongs on `stream`: a terminal that can show it, and NO_COLOR is not set.

    >>> import io
    >>> wants_colour(io.StringIO(), {})
    False
    """
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and stream.isatty()


def rows(line: LayoutLine, *, colour: bool = False, width: int | None = None) -> Iterator[str]:
    """Draw one line as the rows of a terminal of `width` columns, folded at words where there are any.

    >>> list(rows(LayoutLine("text", "a long way"), width=10))
    ['| a long ', ': way']
    """
    if width is not None and width < NARROWEST:
        raise UserError(f"a width of {width} has no room for a margin: give {NARROWEST} or more columns")
    code = _CODES.get(line.style) if colour else None
    for margin, part in _led(line, width) if line.lead else _content(line.text, width):
        yield f"{margin}\x1b[{code}m{part}\x1b[0m" if code else margin + part


def folded_words(words: Iterable[str], room: int, gap: str = " ") -> list[str]:
    """Fold words of ours into rows of at most `room` columns, none torn; our own colours take no room.

    >>> folded_words("they stand side by side".split(), 10)
    ['they stand', 'side by', 'side']
    """
    made = [""]
    for word in words:
        row = f"{made[-1]}{gap}{word}" if made[-1] else word
        if made[-1] and len(_COLOUR.sub("", row)) > room:
            made.append(word)
        else:
            made[-1] = row
    return made


def hanging(row: str, width: int | None) -> Iterator[str]:
    """Fold a row that begins with a word of ours and holds data, escaped before, so that data begins no row."""
    # Not at a word before the data: what is ours stays together.
    parts = _folded(row, width, None if width is None else width - len(_NEXT), row.find(": ") + 2)
    yield next(parts)
    for part in parts:
        yield _NEXT + part


def _led(line: LayoutLine, width: int | None) -> Iterator[tuple[str, str]]:
    """Return a lead of ours, and behind it the data that it names."""
    *before, last = [line.lead] if width is None else folded_words(line.lead.split(" "), width - 1)
    yield from (("", row) for row in before)
    if not line.text:
        yield "", last
        return
    lead = f"{last}: "
    spare = None if width is None else width - len(lead)
    if spare is not None and spare < NARROWEST - len(_NEXT):
        yield "", f"{last}:"
        yield from _content(line.text, width, _NEXT)
        return
    parts = _folded(line.text, spare, None if width is None else width - len(_NEXT))
    yield "", lead + next(parts)
    yield from ((_NEXT, part) for part in parts)


def _content(text: str, width: int | None, margin: str = _FIRST) -> Iterator[tuple[str, str]]:
    room = None if width is None else width - len(_NEXT)
    for part in _folded(text, room, room):
        yield margin, part
        margin = _NEXT


def _folded(text: str, first: int | None, room: int | None, least: int = 0) -> Iterator[str]:
    """Fold `text` into parts of at most `first` and then `room` columns, after a space where a row has one.

    Nothing is dropped: the parts put together are the text. No mark is torn from its base, and what stands before
    `least` is folded at no word.
    """
    if first is None or room is None or (len(text) <= first and text.isascii()):
        yield text
        return
    limit = first
    start = base = gap = 0  # where this row, this character with its marks, and the last word of the row begin
    column = held = kept = 0  # the columns of the row, of the character with its marks, and of the row up to that word
    for place, char in enumerate(text):
        kind = "" if char.isascii() else category(char)[0]
        if kind != "M":
            if text[place - 1 : place] == " " and char != " ":
                gap = place
                kept = column
            base = place
            held = 0
        wide = _COLUMNS.get(kind, 2)
        held += wide
        column += wide
        if column > limit and base > start:
            at_word = max(start, least - 1) < gap <= base and column - kept <= room
            end = gap if at_word else base
            yield text[start:end]
            column = column - kept if at_word else held
            start = end
            limit = room
    yield text[start:]


# Never less than the columns a terminal takes: they differ on everything but ASCII, and on whether a mark takes one.
_COLUMNS = {"": 1, "M": 1}
