"""Reads a part of a text file as numbered lines, however large the file is.

The file is read only as far as it must be. What is cut or left out says so in its place.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator

from .jail import Jail, parts_of
from .problems import EditRefused, FileProblem, FileTooLarge, shown
from .staging import decoded

LINES = 2000
_LINE, _TEXT = 2000, 100_000  # characters shown of one line, and in all
_FAR = 256 << 20  # bytes that are read on the way to the first line that is shown
_PIECE = 64 << 10


def numbered_lines(jail: Jail, path: str, offset: int = 0, limit: int = LINES) -> str:
    """Return up to `limit` lines after the first `offset` ones, each behind its number.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = pathlib.Path(place, "list.txt").write_text("milk\\neggs\\nbread\\n")
    ...     print(numbered_lines(Jail(place), "list.txt", offset=1, limit=1).expandtabs())
         2  eggs
    (1 line shown; the file goes on: offset=2 shows more)
    """
    with jail.file(parts_of(path)) as (handle, _), open(os.dup(handle), "rb") as file:
        return numbered(file, path, offset, limit)


def numbered(file: io.BufferedIOBase, path: str, offset: int = 0, limit: int = LINES) -> str:
    """Return lines of an open file, each behind its number; `path` is for the words of an error.

    >>> numbered(io.BytesIO(b"milk"), "list.txt").split()
    ['1', 'milk']
    """
    if offset < 0 or limit < 1:
        raise EditRefused("The offset must be 0 or more, and the limit 1 or more.")
    shown_lines: list[str] = []
    size = number = 0
    more = False
    for number, line in enumerate(_lines(file, path), 1):
        if number <= offset:
            continue
        if len(shown_lines) == limit or size > _TEXT:
            more = True
            break
        shown_lines.append(f"{number:>6}\t{line}")
        size += len(line) + 8
    if shown_lines:
        return "\n".join(shown_lines) + (_goes_on(len(shown_lines), offset) if more else "")
    if number == 0:
        return "(the file is empty)"
    raise FileProblem(f"{shown(path)} has only {number} {'line' if number == 1 else 'lines'}; the offset is {offset}.")


def _goes_on(count: int, offset: int) -> str:
    lines = "1 line" if count == 1 else f"{count} lines"
    return f"\n({lines} shown; the file goes on: offset={offset + count} shows more)"


def _lines(file: io.BufferedIOBase, path: str) -> Iterator[str]:
    """Yield the lines as text, each cut to what is shown of one."""
    read = 0
    while True:
        start, size = _line(file)
        if not start:
            return
        read += size
        if read > _FAR:
            raise FileTooLarge(f"What was asked for of {shown(path)} is too far into the file.")
        yield _text(start, size, path)


def _line(file: io.BufferedIOBase) -> tuple[bytes, int]:
    """Return the start of the next line, and how many bytes all of it has."""
    start = piece = file.readline(_PIECE)
    size = len(start)
    while len(piece) == _PIECE and not piece.endswith(b"\n") and size <= _FAR:
        piece = file.readline(_PIECE)
        size += len(piece)
    return start, size


def _text(start: bytes, size: int, path: str) -> str:
    # Where a line is cut, a character may be as well; it is beyond what is shown.
    whole = size == len(start) or b"\0" in start
    text = decoded(start, path) if whole else start.decode(errors="ignore")
    text = text.removesuffix("\n").removesuffix("\r")
    return text if len(text) <= _LINE else f"{text[:_LINE]}... (the line is cut here: it has {size} bytes)"
