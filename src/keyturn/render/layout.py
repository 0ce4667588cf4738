"""Lay a preview out as styled lines of escaped text, which every face draws.

A line has two parts. `lead` is ours: a constant of the program, never made of data, which the type checker
enforces. `text` is data, escaped, without a newline. A face draws data so that it never begins where a lead
begins, not even where a row is folded: then no data can pass for a word of ours. `style` is one of a few
words of ours. No data is dropped: only a `limit` cuts, each text by itself, with a mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, LiteralString, NamedTuple, TypeAlias, assert_never, cast

from ..core.digest import canonical
from ..core.errors import BadJson
from ..core.preview import Block, Command, Diff, Json, Preview, Text
from . import diff
from .escape import clip, quote, reorders

Style: TypeAlias = Literal["heading", "note", "text", "command", "json", "context", "removed", "added", "unchanged"]

BLANK_ROWS = 3  # blank rows in a row that are drawn as they are
_SPACES = re.compile(r" {41,}")
FLAT = 60  # characters up to which what stands inside a value is shown in one row
_NO_NEWLINE = "\\ no newline at the end of the text"
_TURNED = "note: some letters run from right to left; rows that hold them may be drawn out of order"


class LayoutLine(NamedTuple):
    """Holds one line: data behind the margin, a lead of ours, or a lead with the data that it names."""

    style: Style
    text: str
    lead: LiteralString = ""


def preview_lines(preview: Preview, limit: int | None = None) -> Iterator[list[LayoutLine]]:
    """Yield the summary, if there is one, and then each block, as lists of lines."""
    if preview.summary:
        yield list(noted([heading("summary", preview.summary, limit)]))
    for block in preview.blocks:
        yield list(noted(block_lines(block, limit)))


def block_lines(block: Block, limit: int | None = None) -> Iterator[LayoutLine]:
    """Return the lines of one block: its headings, then its content.

    >>> [(line.lead, line.text) for line in block_lines(Command("ls", cwd="/srv"))]
    [('command', ''), ('in', '/srv'), ('', 'ls')]
    """
    match block:
        case Text():
            yield heading("text", block.label, limit)
            yield from text_lines(block.text, limit)
        case Command():
            yield heading("command", block.label, limit)
            if block.cwd:
                yield heading("in", block.cwd, limit)
            yield from text_lines(block.command, limit, "command")
        case Diff():
            yield heading("diff", block.label, limit)
            if block.path:
                yield heading("path", block.path, limit)
            yield from _diff(block, limit)
        case Json():
            yield heading("json", block.label, limit)
            yield from (LayoutLine("json", row) for row in tree(block.value, limit))
        case _:
            assert_never(block)


def heading(word: LiteralString, data: str, limit: int | None = None) -> LayoutLine:
    """Return a heading: a label, and behind it what it names."""
    return LayoutLine("heading", clip(data, limit, keep=""), word)


def text_lines(text: str, limit: int | None = None, style: Style = "text") -> Iterator[LayoutLine]:
    """Yield a text line by line, escaped."""
    return (LayoutLine(style, row) for row in _folded(clip(text, limit).split("\n")))


def _folded(rows: list[str]) -> Iterator[str]:
    """Yield rows, of blank ones in a row and of spaces in a row no more than a few: else what follows is out of sight.

    A mark says how many there are. It begins as that of a cut does, which no data can forge.

    >>> list(_folded(["ls", *[" "] * 38, "rm x", f"a{' ' * 300}b"]))
    ['ls', '\\\\[38 blank lines]', 'rm x', 'a\\\\[300 spaces]b']
    """
    for blank, some in groupby(rows, lambda row: not row.strip(" ")):
        several = list(some)
        if blank and len(several) > BLANK_ROWS:
            yield f"\\[{len(several)} blank lines]"
        else:
            yield from (_SPACES.sub(lambda found: f"\\[{len(found[0])} spaces]", row) for row in several)


_SIGNS: dict[diff.Sign, Style] = {" ": "context", "-": "removed", "+": "added", "@": "unchanged"}


def _diff(block: Diff, limit: int | None) -> Iterator[LayoutLine]:
    equal = True
    for sign, text in diff.rows(block.before, block.after):
        equal = False
        yield (
            LayoutLine("note", "", _NO_NEWLINE)
            if sign == "\\"
            else LayoutLine(_SIGNS[sign], sign + clip(text, limit, keep=""))
        )
    if equal:
        yield LayoutLine("note", "", "note: nothing changes")


def tree(value: object, limit: int | None = None, lead: str = "", tail: str = "") -> Iterator[str]:
    """Yield the rows of a JSON value, one member a row, in the order in which it was given.

    >>> list(tree({"to": ["ada", "bob"]}))
    ['{', '  "to": ["ada", "bob"]', '}']
    """
    indent = lead[: len(lead) - len(lead.lstrip(" "))]
    if isinstance(value, dict) and value:
        members = [(_key(key, limit), member) for key, member in cast(dict[object, object], value).items()]
        opening, closing = "{}"
    elif isinstance(value, list) and value:
        members = [("", member) for member in cast(list[object], value)]
        opening, closing = "[]"
    else:
        yield lead + scalar(cast(object, value), limit) + tail
        return
    flat = _in_one_row(members, limit) if lead else None
    if flat is not None:
        yield lead + opening + flat + closing + tail
        return
    yield lead + opening
    last = len(members) - 1
    for place, (key, member) in enumerate(members):
        yield from tree(member, limit, f"{indent}  {key}", "" if place == last else ",")
    yield indent + closing + tail


def _in_one_row(members: list[tuple[str, object]], limit: int | None) -> str | None:
    """Return the members of an inner object or list in one row, or None where they are too long or have members."""
    if len(members) > FLAT or any(_is_large(member) for _key, member in members):
        return None
    row = ", ".join(key + scalar(member, limit) for key, member in members)
    return row if len(row) <= FLAT else None


def _is_large(value: object) -> bool:
    if isinstance(value, str):
        return len(value) > FLAT
    return isinstance(value, dict | list) and value not in ({}, [])


def scalar(value: object, limit: int | None = None) -> str:
    """Return a value without members as JSON, escaped.

    >>> scalar("a\u202e"), scalar(1.5)
    ('"a\\\\u{202e}"', '1.5')
    """
    return quote(value, limit) if isinstance(value, str) else canonical(value)


def _key(key: object, limit: int | None) -> str:
    if not isinstance(key, str):
        raise BadJson("a key is not a text")
    return quote(key, limit) + ": "


def noted(lines: Iterator[LayoutLine] | list[LayoutLine]) -> Iterator[LayoutLine]:
    """Yield the lines, and a note after them if their letters may be drawn in another order than they run."""
    turned = False
    for line in lines:
        turned = turned or reorders(line.text)
        yield line
    if turned:
        yield LayoutLine("note", "", _TURNED)
