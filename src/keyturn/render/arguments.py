"""A call's preview as lines in which its arguments are made for reading: texts as texts, the rest one a row.

What names an argument is a heading, with a word of ours in front, or stands in a row before its value, which is JSON.
A text is data behind the margin, so that no text can pass for another argument. Where an argument's order is that of
the tool, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, LiteralString, TypeGuard, cast

from ..core.preview import Block, Json, Preview
from .escape import quote
from .layout import FLAT, LayoutLine, block_lines, heading, noted, text_lines, tree

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")


def request_lines(
    preview: Preview, arguments: object, word: LiteralString = "argument", limit: int | None = None
) -> Iterator[list[LayoutLine]]:
    """Yield a preview as `preview_lines` does, its arguments made for reading; `word` says what one of them is.

    >>> shown = Json({"to": "ada", "text": "Dear Ada,\\nthank you."})
    >>> for lines in request_lines(Preview((shown,)), shown.value):
    ...     print([(line.lead, line.text) for line in lines])
    [('arguments', ''), ('', 'to: "ada"')]
    [('argument', 'text'), ('', 'Dear Ada,'), ('', 'thank you.')]
    """
    if preview.summary:
        yield list(noted([heading("summary", preview.summary, limit)]))
    for block in preview.blocks:
        if is_arguments(block, arguments) and isinstance(block.value, dict):
            yield from argument_lines(cast("dict[str, Any]", block.value), word, limit)
        else:
            yield list(noted(block_lines(block, limit)))


def is_arguments(block: Block, arguments: object) -> TypeGuard[Json]:
    """Return whether a block is the arguments themselves, and not something else that a tool shows as JSON.

    >>> is_arguments(Json({"n": 1}), {"n": 1}), is_arguments(Json({"n": 1}, label="plan"), {"n": 1})
    (True, False)
    """
    return isinstance(block, Json) and block.label in ("", "arguments") and block.value == arguments


def argument_lines(
    given: dict[str, Any], word: LiteralString = "argument", limit: int | None = None
) -> Iterator[list[LayoutLine]]:
    """Yield arguments in their order: those that fit a row together, and each text by itself under its name."""
    if not given:
        yield [LayoutLine("heading", "", "no " + word + "s")]
        return
    together = list[LayoutLine]()
    for name, value in given.items():
        if is_text(value):
            yield from _group(together, word)
            together = []
            yield list(noted([heading(word, name, limit), *text_lines(value, limit)]))
        else:
            together += (LayoutLine("json", row) for row in tree(value, limit, f"{shown_name(name)}: "))
    yield from _group(together, word)


def is_text(value: object) -> bool:
    """Return whether a value is words to read: longer than a row, or one that does not stand in quotes as it is.

    >>> is_text("Dear Ada,\\nthank you."), is_text("ada"), is_text(3)
    (True, False, False)
    """
    return isinstance(value, str) and (len(value) > FLAT or any(char in value for char in '\n"\\'))


def shown_name(name: str) -> str:
    """Return an argument's name as it stands before its value: quoted if it is not a plain word.

    >>> shown_name("to"), shown_name("to: ada")
    ('to', '"to: ada"')
    """
    return name if _PLAIN.fullmatch(name) else quote(name)


def _group(together: list[LayoutLine], word: LiteralString) -> Iterator[list[LayoutLine]]:
    if together:
        yield list(noted([LayoutLine("heading", "", word + "s"), *together]))
